"""The pictures of a problem: each as a figure for files, as panels for a page, and in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from maskedbandits.experiments.results import Cell
from maskedbandits.report import style, summary
from maskedbandits.report.plots import context, panels, pulls, regret_by_epsilon, regret_by_group, shares
from maskedbandits.report.plots.panels import Panel

Groups = Sequence[Sequence[Cell]]
Looks = dict[str, style.Look]


@dataclass(frozen=True)
class Picture:
    """A picture with the name of its files and what it shows in words."""

    name: str
    heading: str
    caption: str
    draw: Callable[[], Figure]  # for files
    rows: Sequence[tuple[str, Sequence[Panel]]]  # for a page: rows of panels under their headings
    policies: Sequence[str] = ()  # whose curves can be hidden
    colours: Sequence[tuple[str, str]] = ()  # names and colours of what is no policy
    size: str = ""  # of its panels, where it is not the usual: small, or three side by side

    @property
    def panels(self) -> list[Panel]:
        """All panels of the page."""
        return [panel for _, row in self.rows for panel in row]


def of_problem(prefix: str, problem: str, groups: Groups, drawn: Looks, names: Sequence[str] = ()) -> Iterator[Picture]:
    """Yield a problem's pictures: those for which there is something to show; arms that have names are called so."""
    cells = [cell for group in groups for cell in group]
    yield over_time(f"{prefix}regret", problem, groups, drawn)
    if len(groups) > 1:
        yield by_epsilon(f"{prefix}epsilon", problem, groups, drawn)
    if cells[0].shares is not None:
        yield by_group(f"{prefix}groups", problem, groups, drawn)
    elif shares.known(cells):
        yield arm_shares(f"{prefix}shares", problem, groups, names)
    if any(map(pulls.bounded, cells)):
        yield against_bounds(f"{prefix}pulls", problem, groups, drawn)


def policies_of(groups: Groups) -> list[str]:
    """Return the policies of a problem."""
    return list(dict.fromkeys(cell.label.policy for group in groups for cell in group))


def over_time(name: str, problem: str, groups: Groups, drawn: Looks) -> Picture:
    """Return regret against time."""
    return Picture(
        name,
        "Regret over time",
        caption(groups),
        lambda: style.regret_over_time(problem, groups, drawn),
        [("", panels.regret_over_time(name, groups, drawn))],
        policies_of(groups),
    )


def by_epsilon(name: str, problem: str, groups: Groups, drawn: Looks) -> Picture:
    """Return regret against epsilon."""
    return Picture(
        name,
        "Regret against ε",
        "What privacy costs: regret at the end against ε, both on log scales, with 95 % intervals."
        + without_place(groups),
        lambda: regret_by_epsilon.figure(problem, groups, drawn),
        [("", panels.by_epsilon(name, groups, drawn))],
        policies_of(groups),
    )


def by_group(name: str, problem: str, groups: Groups, drawn: Looks) -> Picture:
    """Return the regret of each group."""
    return Picture(
        name,
        "Regret by group",
        "Who pays: regret at the end by a visitor of each group, on average, with 95 % intervals.",
        lambda: regret_by_group.figure(problem, groups, drawn),
        [("", panels.by_group(name, groups, drawn))],
        policies_of(groups),
    )


def when_context_pays(title: str, problems: context.Problems) -> Picture:
    """Return a choice for each group beside one arm for everybody, on all problems."""
    first = problems[0][1][0]
    return Picture(
        "context",
        "Regret with context beside regret without",
        f"How many times the regret of “{first.plain.label.policy}” that of “{first.asking.label.policy}” is, by the "
        "number of visitors so far, on log scales. Below 1× context has lost less; from a dot on it pays, the 95 % "
        "intervals apart.",
        lambda: context.figure(title, problems),
        [("", panels.when_context_pays("context", problems))],
        colours=[(setting, context.colour_of(setting, problems)) for setting in context.settings(problems)],
        size="three",
    )


def without_place(groups: Groups) -> str:
    """Say which policies a log scale cannot show."""
    lost = [cell.label.policy for group in groups for cell in group if cell.mean[-1] <= 0.0]
    return f" Left out where it lost nothing: {', '.join(dict.fromkeys(lost))}." if lost else ""


def arm_shares(name: str, problem: str, groups: Groups, names: Sequence[str]) -> Picture:
    """Return the shares of the arms over time."""
    cells = [cell for group in groups for cell in group]
    marked = 0 < len(cells[0].changes) <= summary.FEW
    verticals = f" Dashed verticals are {summary.marks_in_words(cells[0])}." if marked else ""
    return Picture(
        name,
        "Which arms were pulled",
        "The share of each arm in the pulls between checkpoints, over all runs. The strip above has the colour of the "
        f"arm that was best.{verticals}",
        lambda: shares.figure(problem, groups, names),
        panels.arm_shares(name, groups),
        colours=shares.legend(cells, names),
        size="small",
    )


def against_bounds(name: str, problem: str, groups: Groups, drawn: Looks) -> Picture:
    """Return measured pulls beside the bounds."""
    rows = [pulls.against_bounds(cell) for group in groups for cell in group if pulls.bounded(cell)]
    settings = [group[0].label.setting for group in groups]
    above = [row for row in rows if row.measured > row.published]
    broken = f" Measured pulls exceed the published bound in {len(above)} of {len(rows)} cells." if above else ""
    return Picture(
        name,
        "Pulls against the bounds",
        "Pulls of worse arms in a run of SW-KLUCB-CF: dots are measured (95 % intervals), crosses the published bound, "
        "bars the bound that is proved. The dashed line is all steps: a bound above it says nothing." + broken,
        lambda: pulls.figure(problem, rows, settings, drawn),
        [("", panels.against_bounds(name, rows, settings, drawn))],
        policies_of([[row.cell for row in rows]]),
    )


def caption(groups: Groups) -> str:
    """Return what regret against time shows, in words."""
    first = groups[0][0]
    best = "the best arm of every period" if "record" in first.outcome.question else "the best arm"
    best = best if first.shares is None else "the best arm of each visitor's own group"
    parts = [f"Regret against time: what was lost so far by not knowing {best}."]
    if summary.are_many(first):
        parts += ["Lines are means over runs, bands their 95 % intervals."]
        parts += ["Below: the mean rewards of the arms, and bold the best of them."]
    else:
        verticals = f", dashed verticals {summary.marks_in_words(first)}" if first.changes else ""
        parts += [f"Lines are means, bands their 95 % intervals{verticals}."]
    if len(groups) > 1:
        shared = style.one_scale(groups)
        parts += ["All panels share a scale." if shared else "Each panel has a scale of its own."]
    return " ".join(parts)
