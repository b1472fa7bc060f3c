"""Audits as tests ask for them: of mutants, of programs given as their text, and of reports that are made up.

Audits of sound programs are asked for a confidence of 0.9999999, so that chance refutes one in ten million times.
Broken ones are given so many trials that missing one is less likely still; where that is not plain, a comment says why.
"""

from __future__ import annotations

import json
import shlex
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import group_mutants
import mutants
from click.testing import CliRunner, Result

from maskedbandits import cli
from maskedbandits.privacy.audit import Findings, GroupFindings, inputs
from maskedbandits.privacy.audit.groups import judge_groups
from maskedbandits.privacy.audit.inputs import draw_group_inputs, format_lines
from maskedbandits.privacy.audit.run import judge_reports

SURE = ("--confidence", "0.9999999", "--timeout", "600")  # a busy machine takes its time
MUTANTS = Path(__file__).parent / "mutants.py"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, ["audit", *map(str, arguments)])


def python(*arguments: object) -> str:
    return shlex.join([sys.executable, *map(str, arguments)])


def script(text: str) -> str:
    """A program given as its text."""
    return python("-c", f"import os, sys, time\n{text}")


def audited(name: str, epsilon: float, trials: int, *options: object) -> tuple[Result, dict[str, Any]]:
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
    """The mutant's reports to what a program would be asked, judged: eight runs, all in this process."""
    opening = inputs.choose_opening_length(epsilon, trials)
    asked, told = inputs.draw_bit_inputs(trials, opening), []
    for bits in asked:
        mutants.begin()
        told.append([getattr(mutants, name)(bit, epsilon, "").encode() for bit in bits.tolist()])
    return judge_reports(name, Fraction(epsilon), confidence, asked, told, 1, opening)


def judge_group_mutant(name: str, answers: str, trials: int, groups: int = 3, arms: int = 3) -> GroupFindings:
    """The mutant's answers to what a program would be asked, judged: eight runs, all in this process."""
    opening = inputs.choose_opening_length(1.0, trials * groups)
    asked, told = draw_group_inputs(groups, arms, answers, trials, opening, Fraction(1)), []
    for run in asked:
        group_mutants.begin()
        lines = map(group_mutants.read, format_lines(run, Fraction(1)).decode().splitlines())
        told.append([getattr(group_mutants, name)(line, 1.0).encode() for line in lines])
    return judge_groups(name, Fraction(1), 0.9999999, answers, asked, told, opening)
