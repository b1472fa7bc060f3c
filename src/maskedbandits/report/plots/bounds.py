"""Windows and bounds of a problem: what theory says before anything is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from maskedbandits import theory
from maskedbandits.problems import Problem
from maskedbandits.report.tables import for_terminal

Bounds = dict[str, Any]
KINDS = ("published", "corrected")


def windows_of(horizon: int, changes: int) -> dict[str, int]:
    """Return the windows that need no more than the horizon and the number of segments."""
    return {
        "paper": theory.paper_window(horizon, changes),
        "lambert": theory.lambert_window(horizon, changes),
    }


def bounds_of(problem: Problem, window: int | None = None) -> Bounds:
    """Return a problem's windows, and for each the bounds on every arm's pulls while it is suboptimal."""
    windows = windows_of(problem.horizon, problem.segments)
    windows["corrected"] = theory.corrected_window(problem)
    slopes = [g(1.0) - g(0.0) for g in problem.corruption]
    windows["variation"] = theory.variation_window(problem.horizon, problem.arms, problem.variation, slopes)
    # With many arms a rule's window may be too short for one pull of each: it has no bounds then.
    usable = {name: size for name, size in windows.items() if size >= problem.arms}
    if window is not None:
        windows["given"] = usable["given"] = window
    return {
        "horizon": problem.horizon,
        "changes": problem.segments,
        "windows": windows,
        "suboptimal_pulls": {
            name: {
                "published": theory.published_bound(problem, size).tolist(),
                "corrected": theory.corrected_bound(problem, size).tolist(),
            }
            for name, size in usable.items()
        },
        "regret_lower_bound": float(theory.lower_bound(problem)),
    }


def windows_table(windows: dict[str, int]) -> Table:
    """Return a table of windows for a terminal."""
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    table.add_column("window")
    table.add_column("steps", justify="right")
    for name, size in windows.items():
        table.add_row(name, f"{size:,}")
    return table


def bounds_table(title: str, bounds: Bounds, encoding: str = "utf-8") -> Table:
    """Return a table of windows and bounds for a terminal; a bound of the whole horizon promises nothing."""
    floor = f"asymptotic lower bound on the regret {bounds['regret_lower_bound']:,.0f}"
    facts = f"{title}: {bounds['horizon']:,} steps, {bounds['changes']} segments; {floor}"
    above = Text(for_terminal(facts, encoding))
    table = Table(title=above, title_justify="left", header_style="bold", show_edge=False, pad_edge=False)
    for heading in ("window", "steps", "published bound", "corrected bound"):
        table.add_column(heading, justify="left" if heading == "window" else "right")
    for name, size in bounds["windows"].items():
        pulls = bounds["suboptimal_pulls"].get(name)
        texts = [total(pulls[kind], bounds["horizon"]) if pulls else "too short" for kind in KINDS]
        table.add_row(name, f"{size:,}", *texts)
    return table


def total(pulls: Sequence[float], horizon: int) -> str:
    """Return the bound on all suboptimal pulls together, and as a share of the horizon."""
    share = sum(pulls) / horizon
    return f"{sum(pulls):,.0f} ({share:.0%} of steps)" if share < 1 else f"{sum(pulls):,.0f} (says nothing)"
