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

from click.testing import CliRunner, Result

from maskedbandits import cli
from maskedbandits.privacy.audit import Findings
from maskedbandits.privacy.audit.judge import judged

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
        *("--json", *SURE, *options),
    )
    assert result.exit_code in (0, cli.FAILED, cli.UNMADE), result.output
    return result, json.loads(result.stdout)


def audited_command(command: str, trials: int, *options: object) -> tuple[Result, dict[str, Any]]:
    result = call("--epsilon", 1, "--trials", trials, "--command", command, "--json", *SURE, *options)
    return result, json.loads(result.stdout)


def judge(reports: list[list[bytes]], inputs: list[Any], confidence: float = 0.9) -> Findings:
    return judged("", Fraction(0), confidence, inputs, reports, 1, 20)
