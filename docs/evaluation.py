"""Writes the tables of docs/evaluation.md and draws its figures: `python -m docs.evaluation`.

The experiments are run, or resumed, in their usual places first, as `maskedbandits run` would. Those on real data
require `maskedbandits data get` of retail, movielens-100k and open-bandit-small. With the names of blocks, such as
`movielens`, it writes these alone.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from docs import blocks
from maskedbandits import data, experiments, report
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.experiments.progress_bar import choose_watcher
from maskedbandits.experiments.results import Cell, Results
from maskedbandits.report import style
from maskedbandits.report.summary import is_best, list_settings, pair_contexts

PAGE = Path(__file__).with_suffix(".md")
ROOT = PAGE.parent.parent
FIGURES = PAGE.parent / "figures"
COPIED = {"paper": "regret.png", "context": "context.png"}  # by experiment, the figure that pages show
ARM_COLOURS = ("#9b2226", "#588157", "#7f5539", "#6d597a", "#8d99ae")  # other colours than those of policies
SHOWN_EPSILONS = (1.0, math.inf)  # in the figure of the shop


def results(name: str, command: str) -> Results:
    """Run what is missing of an experiment, and return all of it."""
    experiment = experiments.load(ROOT / "experiments" / f"{name}.toml")
    with choose_watcher(quiet=False) as watcher:
        return experiments.run(experiment, ROOT / "results" / name, watcher, command=command)


def format_with_window(cell: Cell, group: Sequence[Cell]) -> str:
    """Return a cell's regret with its interval and its window, bold where it is the lowest."""
    text = f"{cell.mean[-1]:,.0f} ± {cell.half_width[-1]:,.0f}"
    window = "" if cell.window is None else f" (w = {cell.window:,})"
    return (f"**{text}**" if is_best(cell, group) else text) + window


def by_policy(made: Results) -> str:
    """Return one problem's regret, a row for every epsilon and a column for every policy."""
    ((_, groups),) = report.group_by_problem(made.cells)
    policies = [cell.label.policy for cell in groups[0]]
    rows = [
        [group[0].label.setting.removeprefix("ε = "), *(format_with_window(cell, group) for cell in group)]
        for group in groups
    ]
    lines = [["ε", *policies], ["--:"] * (len(policies) + 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def when_context_pays(made: Results) -> str:
    """Return from how many visitors on context pays, a row for every problem and a column for every epsilon."""
    found = pair_contexts(made.cells)
    rows = [[problem, *(pair.verdict for pair in own)] for problem, own in found]
    settings = list_settings(found)
    lines = [["context pays from", *settings], ["---", *["--:"] * len(settings)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def of_problem(made: Results, problem: str) -> list[Cell]:
    """Return the cells of one problem."""
    return [cell for cell in made.cells if cell.label.problem == problem]


def format_regret(cell: Cell) -> str:
    """Return a cell's regret with its interval, to a tenth where it is small."""
    places = 1 if cell.mean[-1] < 100.0 else 0
    return f"{round(cell.mean[-1], places) + 0.0:,.{places}f} ± {cell.half_width[-1]:,.{places}f}"


def by_epsilon(cells: Sequence[Cell]) -> str:
    """Return one problem's regret, a row for every policy and a column for every epsilon."""
    settings = list(dict.fromkeys(cell.label.setting for cell in cells))
    found = {(cell.label.policy, cell.label.setting): cell for cell in cells}
    policies = list(dict.fromkeys(cell.label.policy for cell in cells))
    lines = [["policy", *settings], ["---", *["--:"] * len(settings)]]
    lines += [[policy, *(format_regret(found[policy, setting]) for setting in settings)] for policy in policies]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def by_problem(made: Results) -> str:
    """Return the regret of all problems, a row for every policy and a column for every problem and epsilon."""
    policies = list(dict.fromkeys(cell.label.policy for cell in made.cells))
    places = list(dict.fromkeys((cell.label.problem, cell.label.setting) for cell in made.cells))
    found = {(cell.label.problem, cell.label.setting, cell.label.policy): cell for cell in made.cells}
    lines = [["policy", *(", ".join(place) for place in places)], ["---", *["--:"] * len(places)]]
    lines += [[policy, *(format_regret(found[*place, policy]) for place in places)] for policy in policies]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def laws(made: Results) -> str:
    """Return how many times as much is lost as without privacy, beside 1/s and 1/s^2."""
    policies = list(dict.fromkeys(cell.label.policy for cell in made.cells))
    plain = {cell.label.policy: cell.mean[-1] for cell in made.cells if cell.label.epsilon == math.inf}
    lines = [["ε", "1/s", "1/s²", *policies], ["--:"] * (3 + len(policies))]
    for epsilon in dict.fromkeys(cell.label.epsilon for cell in made.cells):
        slope = RandomizedResponse.from_epsilon(epsilon or math.inf).slope
        cells = {cell.label.policy: cell for cell in made.cells if cell.label.epsilon == epsilon}
        times = [f"{cells[policy].mean[-1] / plain[policy]:.1f}" for policy in policies]
        shown = "∞" if epsilon == math.inf else f"{epsilon:g}"
        lines.append([shown, f"{1 / slope:.1f}", f"{1 / slope**2:.1f}", *times])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def exponent(cells: Sequence[Cell], along: str) -> float:
    """Return the slope on log axes of the mean regret, over all problems, against the horizon or the segments."""
    values = sorted({value_of(cell, along) for cell in cells})
    means = [np.mean([cell.mean[-1] for cell in cells if value_of(cell, along) == value]) for value in values]
    return float(np.polyfit(np.log(values), np.log(means), 1)[0])


def value_of(cell: Cell, along: str) -> int:
    """Return a cell's horizon or number of segments."""
    return cell.horizon if along == "T" else len(cell.changes) + 1


def growth(made: Results) -> str:
    """Return the exponents, a row for every policy."""
    lines = [["policy", "with T", "with L"], ["---", "--:", "--:"]]
    for policy in dict.fromkeys(cell.label.policy for cell in made.cells):
        cells = [cell for cell in made.cells if cell.label.policy == policy]
        lines.append([policy, *(f"{exponent(cells, along):.2f}" for along in ("T", "L"))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def of_nth(place: int) -> Callable[[Results], str]:
    """Return what makes the table of one of the problems of an experiment."""

    def made_of(made: Results) -> str:
        problems = list(dict.fromkeys(cell.label.problem for cell in made.cells))
        return by_epsilon(of_problem(made, problems[place]))

    return made_of


# Each block of the page: the experiment that it shows, and what makes its table.
TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "paper": ("paper", by_policy),
    "collapse": ("collapse", by_policy),
    "retail": ("retail", of_nth(0)),
    "retail-blind": ("retail", of_nth(1)),
    "movielens": ("control", of_nth(0)),
    "clicks": ("clicks", of_nth(0)),
    "changing": ("changing", by_problem),
    "drift": ("drift", by_problem),
    "context": ("context", when_context_pays),
    "privacy": ("privacy", laws),
    "scaling": ("scaling", growth),
}


def draw_seasons(axes: Axes, table: data.Rounds) -> None:
    """Draw the mean of each family of products in each month."""
    middles = (table.starts + np.append(table.starts[1:], table.horizon)) / 2
    for name, means, colour in zip(table.arms, table.means.T, ARM_COLOURS, strict=True):
        axes.plot(middles, means, color=colour, linewidth=1.6, label=name)
    axes.legend(ncols=3, loc="upper left", fontsize=8.5, handlelength=1.2, columnspacing=1.0, borderaxespad=0.0)
    axes.set(title="Means by month", ylabel="share of invoices", ylim=(0, 0.75))


def draw_retail(made: Results, path: Path) -> None:
    """Draw the means of the shop's families once, and beside them the regret with privacy and without."""
    table = data.load("retail")
    if not isinstance(table, data.Rounds):
        raise TypeError("expected rounds")
    cells = of_problem(made, made.cells[0].label.problem)
    looks = style.assign_looks([cell.label.policy for cell in cells])
    with style.use_style():
        figure = Figure(figsize=(10.8, 3.9), layout="constrained")
        seasons, *panels = figure.subplots(1, 1 + len(SHOWN_EPSILONS))
        draw_seasons(seasons, table)
        for panel, epsilon in zip(panels, SHOWN_EPSILONS, strict=True):
            group = [cell for cell in cells if cell.label.epsilon == epsilon]
            for cell in group:
                options = style.line_options(cell.label.policy, looks)
                panel.plot(cell.outcome.times, cell.mean, **options)
            panel.set(title=style.panel_title(group), ylabel="cumulative regret", ylim=(0, 7_500))
            panel.yaxis.set_major_formatter(EngFormatter(sep=""))
        for panel in (seasons, *panels):
            panel.set(xlim=(0, table.horizon), xlabel="invoice")
            panel.xaxis.set_major_locator(MaxNLocator(4))
            panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        policies = list(looks)
        style.add_legend(figure, "A shop's invoices, seasonal families", *style.legend_entries(policies, looks))
        path.write_bytes(style.render(figure, "png"))


def main() -> None:
    """Write the tables into the page, and draw the figures."""
    for name in sys.argv[1:] or TABLES:
        experiment, table = TABLES[name]
        made = results(experiment, f"maskedbandits run experiments/{experiment}.toml")
        blocks.fill(PAGE, {name: table(made)})
        if name in COPIED:
            report.write_report(made, ROOT / "results" / name)
            shutil.copy(ROOT / "results" / name / "figures" / COPIED[name], FIGURES / COPIED[name])
        if name == "retail":
            draw_retail(made, FIGURES / "retail.png")


if __name__ == "__main__":
    main()
