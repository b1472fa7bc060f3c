"""What is said of a plan: no more than its numbers and their intervals allow."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from typing import Any

import pytest

from made_up_plan import USUAL, around, level, made_up
from maskedbandits._util.safe_text import percent
from maskedbandits.planner import Plan, text


def row_of(plan: Plan, epsilon: str) -> str:
    return next(line for line in text.format_table(plan, 200, "utf-8") if line.split()[0] == epsilon)


def test_table_shows_the_findings() -> None:
    assert row_of(USUAL, "0.5").split("  ")[-1].strip() == "> 10,000"
    assert "400 ± 20" in row_of(USUAL, "0.5")
    assert "not reached" in row_of(USUAL, "0.5")
    assert " 12.0 " in row_of(USUAL, "2")  # of 1,000 people
    assert "20 ± 10" in row_of(USUAL, "2")
    assert "5.0 % (2.5 to 7.5)" in row_of(USUAL, "2")
    assert row_of(USUAL, "none").split()[1:3] == ["100", "±"]
    assert "75.0 % at ε = 0.5" in " ".join(text.to_lines(USUAL))


def test_advice_repeats_the_table() -> None:
    said = text.describe_advice(USUAL)
    assert said.startswith("Take ε = 2: compared with no privacy it costs 20 successes (10 to 30) among 10,000 people")
    assert "5.0 % (2.5 to 7.5) of the gain; you allow 10 %" in said
    assert "ε = 1 costs 9.0 % (6.5 to 11.5): it may be within, but 12 worlds cannot tell" in said
    assert said in " ".join(text.to_lines(USUAL, 10_000))


def test_advice_names_an_epsilon_that_costs_too_much() -> None:
    said = text.describe_advice(made_up(level(0.5, 300.0, 20.0), level(2.0, 20.0, 10.0)))
    assert "ε = 0.5 costs 75.0 % (70.0 to 80.0): too much." in said


def test_advice_says_that_no_smaller_epsilon_was_given() -> None:
    assert text.describe_advice(made_up(level(2.0, 20.0, 10.0))).endswith("No smaller epsilon was simulated.")


@pytest.mark.parametrize(
    ("pays_from", "looked_to", "said"),
    [
        (None, 10_000, "no more were tried."),
        (None, 640_000, "nor would 640,000."),
        (23_000, 40_000, "about 23,000 would do."),
    ],
)
def test_advice_says_that_audience_is_too_small(pays_from: int | None, looked_to: int, said: str) -> None:
    plan = made_up(level(2.0, 20.0, 10.0, pays_from=pays_from, looked_to=looked_to))
    kept = "At ε = 2 10,000 people do not surely keep 50 % of what the best choice gains over a blind one; "
    assert kept + said in text.describe_advice(plan)
    assert row_of(plan, "2").split()[-1] == f"{pays_from or looked_to:,}"
    assert ("after >, the largest that was tried" in " ".join(text.to_lines(plan))) == (pays_from is None)


def test_advice_for_paying_audience_has_no_doubts() -> None:
    assert "do not surely keep" not in text.describe_advice(made_up(level(2.0, 20.0, 10.0, pays_from=10_000)))


def test_advice_names_learning_that_never_pays() -> None:
    poor = made_up(level(0.5, 300.0, 20.0))
    last = dataclasses.replace(poor.levels[-1], pays_from=None, looked_to=40_000)
    said = text.describe_advice(dataclasses.replace(poor, levels=(*poor.levels[:-1], last)))
    assert "At no privacy" not in said
    assert "Without privacy 10,000 people do not surely keep 50 %" in said
    assert "nor would 40,000." in said


def test_advice_without_epsilon_says_what_helps() -> None:
    said = text.describe_advice(made_up(level(0.5, 300.0, 20.0)))
    assert said.startswith("None of these epsilons surely costs at most 10 % of the gain. ε = 0.5 costs 75.0 %")
    assert said.endswith(text.HELP)


def test_text_without_gain_advises_no_epsilon() -> None:
    nothing = dataclasses.replace(level(1.0, 0.0, 5.0), cost=None)
    said = text.describe_advice(made_up(nothing, gain=around(2.0, 5.0)))
    assert said.startswith("No epsilon is advised: learning may gain nothing")
    assert "(2.0 successes, -3.0 to 7.0)" in said
    assert "no gain" in row_of(made_up(nothing, gain=around(2.0, 5.0)), "1")


def test_exposure_follows_bayes_rule() -> None:
    said = text.describe_exposure(USUAL.levels[1])
    truth = math.e / (1 + math.e)
    tenth = math.e / (math.e + 9)
    assert f"true {100 * truth:.1f} % of the time. It can turn a guess of 50 % into {100 * truth:.1f} %" in said
    assert f"one of 10 % into {100 * tenth:.1f} %" in said
    assert f"{math.e:.3g} times" in said
    assert "knows what the person did" in text.describe_exposure(USUAL.levels[-1])


def test_masked_report_is_never_certain() -> None:
    said = text.describe_exposure(level(16.0, 0.0, 0.0))
    assert "> 99.999 %" in said
    assert "100" not in said.replace("99.999", "")


def test_advice_comes_first_and_bars_show_costs() -> None:
    lines = text.to_lines(USUAL, 80)
    assert lines[0].startswith("Take ε = 2")
    bars = {line.split()[2]: line.count("█") for line in lines if line.startswith("  ε = ")}
    assert bars == {"0.5": 45, "1": 5, "2": 3}  # of 60 columns: 75, 9 and 5 %
    assert "█" not in "".join(text.to_lines(USUAL, 60))


@pytest.mark.parametrize("width", [20, 40, 60, 79])
def test_narrow_terminal_gets_a_list(width: int) -> None:
    lines = text.to_lines(USUAL, width)
    assert max(map(len, lines)) <= width
    printed = " ".join(" ".join(lines).split())
    for part in (
        "ε = 0.5 successes lost: 400 ± 20",
        "pays from: > 10,000",
        "no privacy successes lost: 100 ± 0.0",
        "Take ε = 2",
    ):
        assert part in printed


@pytest.mark.parametrize("width", range(20, 60))
def test_numbers_and_percent_signs_stay_together(width: int) -> None:
    assert not [line for line in text.to_lines(USUAL, width) if line.strip().startswith("%")]


def test_table_is_aligned_in_ascii() -> None:
    lines = text.to_lines(USUAL, 200, "ascii")
    assert all(line.isascii() for line in lines)
    start = next(place for place, line in enumerate(lines) if line.startswith("eps "))
    assert sum("#" in line for line in lines) == 3
    assert len({len(line) for line in lines[start : start + 5]}) == 1


@pytest.mark.parametrize(("changes", "said"), [(0, "no change"), (1, "1 change"), (2, "2 changes")])
def test_title_counts_changes(changes: int, said: str) -> None:
    assert f"10,000 people, {said}; " in text.format_title(made_up(level(1.0, 0.0, 0.0), changes=changes))


def test_json_has_all_findings() -> None:
    document: dict[str, Any] = json.loads(json.dumps(text.to_json(USUAL), allow_nan=False))
    assert document["epsilons"] == [0.5, 1.0, 2.0, "inf"]
    first, last = document["levels"][0], document["levels"][-1]
    assert first["loss"] == {"mean": 400.0, "low": 380.0, "high": 420.0}
    assert (first["loss_per_1000"], first["pays_from"], first["settling"]["people"]) == (40.0, None, None)
    assert (last["epsilon"], last["exposure"]["odds"]) == ("inf", "inf")
    assert document["advice"]["epsilon"] == 2.0
    assert document["advice"]["words"] == text.describe_advice(USUAL)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (Fraction(1, 2), "50.0 %"),
        (0.9989, "99.9 %"),
        (0.9991, "99.910 %"),
        (0.999995, "> 99.999 %"),
        (1.0, "100.0 %"),
        (-0.1, "-10.0 %"),
    ],
)
def test_percent_never_rounds_up_to_all(share: float | Fraction, said: str) -> None:
    assert percent(share) == said
