"""Audits for tests: of mutants, of programs given as text, and of made-up reports.

Audits of sound programs have a confidence of 0.9999999, so that chance refutes one in ten million. Broken programs get
enough trials that missing one is less likely still; where that is not obvious, a comment gives the reason.

Mutants run in this process, as eight starts of a program would. ``test_audit_program.py`` starts real programs.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import group_mutants
import mutants
import pytest
from click.testing import CliRunner, Result

from maskedbandits import cli
from maskedbandits.privacy.audit import Findings, GroupFindings, inputs, program
from maskedbandits.privacy.audit.groups import judge_groups
from maskedbandits.privacy.audit.inputs import MILLION, draw_group_inputs
from maskedbandits.privacy.audit.run import judge_reports

SURE = ("--confidence", "0.9999999", "--timeout", "600")  # a busy machine takes its time
MUTANTS = Path(__file__).parent / "mutants.py"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, ["audit", *map(str, arguments)])


def python(*arguments: object) -> str:
    return shlex.join([sys.executable, *map(str, arguments)])


def script(text: str) -> str:
    """Return the command of a program given as text."""
    return python("-ISc", f"import os, sys, time\n{text}")


def run_mutant(command: str, texts: Iterable[bytes], *_options: object, any_code: bool = False) -> list[list[bytes]]:
    """Run a mutant on each text in this process, in place of ``program.run_on_texts``."""
    name, epsilon = shlex.split(command)[2:]
    mutant, answers = getattr(mutants, name), []
    for text in texts:
        mutants.begin()
        lines = (line.split() for line in text.decode().splitlines())
        answers.append([mutant(int(bit), float(epsilon), "".join(decision)).encode() for bit, *decision in lines])
    return program.strip_line_ends(answers)


def audited(name: str, epsilon: float, trials: int, *options: object) -> tuple[Result, dict[str, Any]]:
    """Audit a mutant from the command line; it runs in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "run_on_texts", run_mutant)
        result = call(
            *("--epsilon", epsilon, "--trials", trials, "--command", python(MUTANTS, name, epsilon)),
            *("--json", "--starts", 0, *SURE, *options),
        )
    assert result.exit_code in (0, cli.FAILED, cli.UNMADE), result.output
    return result, json.loads(result.stdout)


def audited_command(command: str, trials: int, *options: object) -> tuple[Result, dict[str, Any]]:
    result = call("--epsilon", 1, "--trials", trials, "--command", command, "--json", "--starts", 0, *SURE, *options)
    return result, json.loads(result.stdout)


def judge(reports: list[list[bytes]], inputs: list[Any], confidence: float = 0.9) -> Findings:
    return judge_reports("", Fraction(0), confidence, inputs, reports, 1, 20)


def judge_mutant(name: str, trials: int, epsilon: float = 1, confidence: float = 0.9999999) -> Findings:
    """Judge the reports of a mutant in eight runs in this process."""
    opening = inputs.choose_opening_length(epsilon, trials)
    runs, answers = inputs.draw_bit_inputs(trials, opening), []
    for bits in runs:
        mutants.begin()
        answers.append([getattr(mutants, name)(bit, epsilon, "").encode() for bit in bits.tolist()])
    return judge_reports(name, Fraction(epsilon), confidence, runs, answers, 1, opening)


def judge_group_mutant(name: str, answers: str, trials: int, groups: int = 3, arms: int = 3) -> GroupFindings:
    """Judge the answers of a mutant in eight runs in this process."""
    opening = inputs.choose_opening_length(1.0, trials * groups)
    runs, written = draw_group_inputs(groups, arms, answers, trials, opening, Fraction(1)), []
    for run in runs:
        group_mutants.begin()
        columns = (run.tables, run.signs, run.millionths, run.inputs, run.parts)
        lines = (
            group_mutants.Line(table, signs, millionths / MILLION or 1.0, given // 2, given % 2, parts)
            for table, signs, millionths, given, parts in zip(*(column.tolist() for column in columns), strict=True)
        )
        written.append([getattr(group_mutants, name)(line, 1.0).encode() for line in lines])
    return judge_groups(name, Fraction(1), 0.9999999, answers, runs, written, opening)
