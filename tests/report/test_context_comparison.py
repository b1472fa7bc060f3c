"""What the report says of groups: regret by group, and when context pays."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.boundaries import write_figures_as
from maskedbandits import report
from maskedbandits.experiments.results import Cell, CellOutcome, Label, Manifest, Results
from maskedbandits.report import style, summary, tables
from maskedbandits.report.plots import ContextRatio
from maskedbandits.report.plots.regret_by_group import RegretByGroup

TIMES = np.array([10, 100, 1000])


def cell(
    label: str,
    epsilon: float,
    lost: list[float],
    *,
    asks: bool,
    policy: str = "auto",
    spread: float = 0.1,
    runs: int = 4,
) -> Cell:
    """A cell whose mean regret at the checkpoints is given, a quarter of it by the first group."""
    noise = spread * np.linspace(-1.0, 1.0, runs) if runs > 1 else np.zeros(1)
    regret = np.array(lost) + noise[:, None]
    spec: dict[str, Any] = {
        "means": [[[0.5, 0.8], [0.5, 0.2]]],
        "starts": [0],
        "horizon": 1000,
        "shares": [0.2, 0.8],
        "policy": policy,
        "parameters": {"context": asks},
        "seed": 1,
        "p00": [0.7, 0.7],
        "p11": [0.7, 0.7],
    }
    pulls = np.full((runs, 2, 2), 250)
    by_people = regret[:, :, None] * [0.25, 0.75]
    outcome = CellOutcome(spec, TIMES, regret, pulls, pulls // 2, 0.1, None, None, by_people)
    return Cell(Label("0" * 24, "people", label, epsilon), outcome)


def group(asking: list[float], plain: list[float], epsilon: float = 1.0, **more: Any) -> list[Cell]:
    return [
        cell("each", epsilon, asking, asks=True, **more),
        cell("all", epsilon, plain, asks=False, **more),
    ]


@pytest.mark.parametrize(
    ("asking", "plain", "first", "costs", "words"),
    [
        ([1, 5, 9], [2, 20, 200], 10, False, "10"),
        ([5, 5, 9], [2, 20, 200], 100, False, "100"),
        ([1, 50, 90], [2, 20, 200], 1000, False, "1,000"),  # what it has won is lost again
        ([5, 50, 300], [2, 20, 200], None, True, "no"),
        ([5, 50, 200.05], [2, 20, 200], None, False, "unclear"),
    ],
)
def test_context_pays_from_last_clear_lead(
    asking: list[float], plain: list[float], first: int | None, costs: bool, words: str
) -> None:
    pair = summary.find_context_pair(group(asking, plain))
    assert pair is not None
    assert (pair.pays_from, pair.costs, pair.verdict) == (first, costs, words)


def test_context_verdict_of_one_run_is_unclear() -> None:
    pair = summary.find_context_pair(group([1, 5, 9], [2, 20, 200], runs=1))
    assert pair is not None
    assert pair.verdict == "unclear"


def test_context_pairs_share_a_policy() -> None:
    asking, plain = group([1, 5, 9], [2, 20, 200])
    other = cell("other", 1.0, [2, 20, 200], asks=False, policy="uniform")
    assert summary.find_context_pair([asking, other]) is None
    assert summary.find_context_pair([plain, other]) is None
    found = summary.find_context_pair([other, plain, asking])
    assert found is not None
    assert (found.grouped, found.plain) == (asking, plain)


def test_context_summary_says_when_it_pays() -> None:
    early, late = group([1, 5, 9], [2, 20, 200], 4.0), group([5, 5, 9], [2, 20, 200], 1.0)
    never, unclear = group([5, 50, 300], [2, 20, 200], 0.5), group([5, 50, 200], [2, 20, 200], 0.5)
    said = {
        "A choice for each group pays from 10 visitors (ε = 4) to 100 visitors (ε = 1) on.": late + early,
        "A choice for each group pays at ε = 4, from 10 visitors (ε = 4) on.": never + early,
        "A choice for each group pays at no ε up to 1,000 visitors, where it has more regret.": never,
        "A choice for each group pays at no ε up to 1,000 visitors, where it has no clearly lower regret.": unclear,
    }
    for words, cells in said.items():
        assert summary.summarize_context(summary.pair_contexts(cells)) == words
    many = [(str(place), summary.pair_contexts(early)[0][1]) for place in range(20)]
    assert (
        summary.summarize_context(many)
        == "A choice for each group pays in 20 of 20 comparisons, and has more regret in 0."
    )


def test_tables_have_a_column_for_each_group() -> None:
    cells = group([1, 5, 8], [2, 20, 200])
    columns = tables.list_group_columns(cells)
    assert [column.heading for column in columns] == ["ε", "policy", "group 0 (20%)", "group 1 (80%)"]
    half = cells[0].final_group_regret[1][0]
    assert half == pytest.approx(0.25 * float(cells[0].half_width[-1]))
    assert columns[2].format(cells[0], 0.0) == f"2.0 ± {half:.1f}"
    assert columns[3].sort_key(cells[1], 0.0) == pytest.approx(150.0)
    found = tables.cell_to_json(cells[0])
    assert (found["context"], found["shares"]) == (True, [0.2, 0.8])
    assert [each["mean"] for each in found["group_regret"]] == pytest.approx([2.0, 6.0])
    assert r"0.5 & each & $2.0 \pm" in tables.to_latex(group([1, 5, 8], [2, 20, 200], 0.5)).replace(
        r"$\varepsilon = 0.5$", "0.5"
    )


def test_group_figure_shows_regret_per_visitor() -> None:
    """Per visitor: the first group has 200 of a thousand, and a quarter of the regret."""
    cells = group([1, 5, 8], [2, 20, 200])
    panel = RegretByGroup("", "people", [cells], style.assign_looks(["each", "all"])).draw_figure().axes[0]
    heights = [np.asarray(line.get_ydata()) for line in panel.lines]
    np.testing.assert_allclose(heights, [[2 / 200, 6 / 800], [50 / 200, 150 / 800]])
    low, high = panel.get_ylim()
    assert low < 0 < 50 / 200 < high


def test_page_begins_with_context_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_figures_as(monkeypatch, "png")
    cells = (*group([5, 50, 300], [2, 20, 200], 0.5), *group([5, 5, 9], [2, 20, 200], 1.0))
    labels = tuple(each.label for each in cells)
    manifest = Manifest("<People>", "0", "run it", "x.toml", "", labels)
    written = report.write_report(Results(manifest, cells), tmp_path)
    text = written.page.read_text(encoding="utf-8")
    assert (
        text.index("pays at ε = 1, from 100 visitors")
        < text.index("When context pays: from how many")
        < text.index("Regret of each group")
    )
    assert '<td>no</td><td class="pays">100</td>' in text
    assert "<People>" not in text
    assert {path.name for path in written.figures} >= {"context.png", "groups.png", "regret.png"}


def test_context_scale_contains_all_ratios() -> None:
    problems = summary.pair_contexts(group([1, 5, 0.5], [2, 20, 200], spread=0.01))
    low, high = ContextRatio("", problems).limits()
    assert low <= 0.5 / 200 < 0.5 <= high
    assert math.log2(low).is_integer()
