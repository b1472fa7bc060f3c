"""The audit of our own randomiser, and the excess it could detect."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from audits import SURE, call

from maskedbandits import cli
from maskedbandits.privacy import Randomizer
from maskedbandits.privacy.audit import inputs, program, run, statistics, text
from maskedbandits.privacy.audit import run as judging
from naive import mechanism as naive_mechanism

# Our own


def test_own_randomizer_is_not_refuted() -> None:
    result = call("--epsilon", 1, "--trials", 100_000, *SURE)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    drawn = "100,000 trials for each input by bits(), 50,000 by report()"
    assert lines[0] == f"Randomizer(1): {drawn}, joint confidence 99.99999 %"
    assert lines[-1] == "Not refuted: nothing that was seen contradicts epsilon = 1."
    exactly = "4961093570831980854 of 2^64 words flip a bit: epsilon = ln(6742825251438785381/2480546785415990427)"
    assert exactly in result.stdout


@pytest.mark.parametrize(
    ("broken", "outcome"),
    [
        (lambda self, values: np.asarray(values), "refuted"),
        (lambda self, values: np.asarray(values) & Randomizer(1).bits(values), "refuted"),
        (lambda self, values: 1 - Randomizer(1).bits(values), "other g"),
    ],
)
def test_broken_own_randomizer_is_refuted(monkeypatch: pytest.MonkeyPatch, broken: Any, outcome: str) -> None:
    class Broken(Randomizer):
        bits = broken

    monkeypatch.setattr(run, "Randomizer", Broken)
    result = call("--epsilon", 1, "--trials", 5000, "--json", *SURE)
    assert (result.exit_code, json.loads(result.stdout)["outcome"]) == (cli.FAILED, outcome)


@pytest.mark.parametrize("flip", [0, 1])
def test_broken_device_reports_are_refuted(monkeypatch: pytest.MonkeyPatch, flip: int) -> None:
    sound = Randomizer.report
    monkeypatch.setattr(Randomizer, "report", lambda self, value: sound(self, value)._replace(bit=value ^ flip))
    result = call("--epsilon", 1, "--trials", 2000, "--json", *SURE)
    found = json.loads(result.stdout)
    assert (result.exit_code, found["outcome"], found["trials_by_report"]) == (cli.FAILED, "refuted", 2000)
    telling = {one["event"] for one in found["events"] if one["epsilon_at_least"] > 1}
    assert telling == {"report 0 of report()", "report 1 of report()"}  # arrays are sound


def test_too_few_trials_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "DEVICE_TRIALS", 1000)
    result = call("--epsilon", 10, "--trials", 1000, "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["outcome"], found["smallest_excess"]) == (cli.UNMADE, "cannot tell", None)
    needed = found["trials_needed"]
    printed = call("--epsilon", 10, "--trials", 1000).stdout
    assert f"never flips: that takes --trials {needed}\n" in printed
    verdict = (
        f"Cannot tell: 1,000 trials would not even see a randomiser that never flips; that takes --trials {needed}."
    )
    assert printed.splitlines()[-1] == verdict
    enough = json.loads(call("--epsilon", 10, "--trials", needed, "--json").stdout)
    assert (enough["outcome"], enough["smallest_excess"] is not None) == ("not refuted", True)


@pytest.mark.parametrize(("epsilon", "possible"), [(8, True), (16, False)])
def test_following_the_advice_works(epsilon: int, possible: bool) -> None:
    runs = inputs.draw_bit_inputs(200, 20)
    answers = [[b"%d" % bit for bit in bits] for bits in runs]
    found = judging.judge_reports("", Fraction(epsilon), 0.99, runs, answers, 1, 20)
    assert found.needed is not None
    assert (found.needed <= program.MAX_LINES) == possible
    possible_text = f"that takes --trials {found.needed}"
    impossible_text = f"that takes {found.needed:,} trials, of 10,000,000 at most: no claim above 13.9 can be judged"
    assert text.format_excess(found).endswith(possible_text if possible else impossible_text)
    level = statistics.allocate_error(0.99).known
    assert (
        statistics.count_trials_needed(13.9, level) <= program.MAX_LINES < statistics.count_trials_needed(14.0, level)
    )


def test_exact_prints_grid_or_one_epsilon() -> None:
    grid = call("--exact").stdout.splitlines()
    assert len(grid) == 11
    assert grid[6].split() == ["1", "73.105858%", "4961093570831980854", "0.999999999999999999960025"]
    [one] = json.loads(call("--exact", "--epsilon", "1/3", "--json").stdout)
    assert one["epsilon"] == "1/3"
    odds = Fraction(int(one["odds"][0]), int(one["odds"][1]))
    assert odds == Randomizer("1/3").exact_epsilon.odds
    assert not naive_mechanism.log_exceeds(odds, Fraction(1, 3))
