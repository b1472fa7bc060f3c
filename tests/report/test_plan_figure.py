"""The figure of a plan: its bars are the plan's numbers."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from made_up_plan import BLIND, USUAL, level, made_up
from maskedbandits.planner import Plan
from maskedbandits.report import style
from maskedbandits.report.plots import plan as plan_figure


def drawn(plan: Plan) -> Figure:
    with style.use_style():
        return plan_figure.draw_figure(plan)


def bars(figure: Figure) -> list[float]:
    """How high each bar reaches, from the left."""
    shown = [bar for bar in figure.axes[0].patches if isinstance(bar, Rectangle) and bar.get_height() > 0]
    tops: dict[float, float] = {}
    for bar in shown:
        place = round(bar.get_x() + bar.get_width() / 2, 6)
        tops[place] = max(tops.get(place, 0.0), bar.get_y() + bar.get_height())
    return [tops[place] for place in sorted(tops)]


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_bars_show_the_loss() -> None:
    figure = drawn(USUAL)
    assert bars(figure) == pytest.approx([400.0, 136.0, 120.0, 100.0])
    assert words(figure)[:4] == ["400", "136", "120", "100"]
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["0.5", "1", "2", "no\nprivacy"]


def test_bar_below_baseline_is_lower() -> None:
    assert bars(drawn(made_up(level(4.0, -30.0, 50.0)))) == pytest.approx([70.0, 100.0])


def test_figure_title_is_the_advice() -> None:
    [legend] = drawn(USUAL).legends
    assert legend.get_title().get_text().startswith("Take ε = 2: 2 arms, 2 changes")
    [legend] = drawn(made_up(level(0.5, 300.0, 20.0))).legends
    assert legend.get_title().get_text().startswith("No ε is within the tolerance")


def test_blind_choice_is_drawn_if_bars_stay_readable() -> None:
    assert words(drawn(USUAL))[-1] == f"a blind choice loses {BLIND:,.0f}"
    assert len(words(drawn(made_up(level(4.0, 1.0, 0.5))))) == 2


def test_same_plan_gives_same_bytes() -> None:
    first, again = (style.render(drawn(USUAL), "png") for _ in range(2))
    assert first == again


def test_figure_grows_with_epsilons() -> None:
    many = drawn(made_up(*(level(0.1 * place, 300.0 - place, 5.0) for place in range(1, 31))))
    assert many.get_figwidth() > 4 * drawn(USUAL).get_figwidth()
