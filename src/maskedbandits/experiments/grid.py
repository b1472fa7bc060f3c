"""Sweeps: what ``[grid.problems]`` and ``[grid.policies]`` list, every problem or policy of the file takes in turn.

    [grid.problems]
    horizon = [10_000, 100_000]
    seed = [1, 2, 3]

    [grid.policies]
    window = ["paper", "corrected", 500]

is six problems for each that the file has, and three policies for each that has a window; a policy without one stays as
it is. Where a table of the file has the key itself, that stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from maskedbandits.errors import nearest
from maskedbandits.experiments.toml_table import Section, got, show

KEYS = ("problems", "policies")
MOST = 100_000  # tables that a grid may make


def spread(top: Section, key: str, takes: Callable[[Section], Iterable[str]]) -> list[Section]:
    """Return the tables of a list of tables, each as often as the grid has it; ``takes`` tells what one can take."""
    axes = axes_of(top, key)
    made: list[Section] = []
    used: set[str] = set()
    known: dict[str, None] = {}  # what any of them can take, in its order
    for section in top.sections(key):
        taken = []
        if axes:
            known |= dict.fromkeys(takes(section))
            taken = [name for name in takes(section) if name in axes and name not in section.values]
        used.update(taken)
        for values in product(*(axes[name] for name in taken)):
            made.append(varied(section, dict(zip(taken, values, strict=True))))
            if len(made) > MOST:
                raise top.mistake(f"grid.{key}", f"expected at most {MOST:,} {key} in all, these are more")
    for name in axes:
        if name not in known:
            raise top.mistake(f"grid.{key}.{name}", f"none of the {key} takes it{nearest(name, known)}")
        if name not in used:
            raise top.mistake(f"grid.{key}.{name}", f"all {key} that take it have it themselves: leave it out there")
    return made


def axes_of(top: Section, key: str) -> dict[str, list[Any]]:
    """Return the lists of the grid."""
    grid = Section(top.file, "grid", top.values.get("grid", {}))
    grid.refuse_unknown(KEYS, "part")
    axes = Section(top.file, f"grid.{key}", grid.values.get(key, {}))
    for name, values in axes.values.items():
        if not isinstance(values, list) or not values:
            raise axes.mistake(name, f"expected a list of values, {got(values)}")
        if len({repr(value) for value in values}) < len(values):
            raise axes.mistake(name, "expected different values, got one of them twice")
    return axes.values


def varied(section: Section, values: dict[str, Any]) -> Section:
    """Return a table with some values of the grid, which its name tells; a policy without a label tells them anyway."""
    if not values:
        return section
    told = ", ".join(f"{name}={show(value)}" for name, value in values.items())
    problem = section.place.startswith("problems")
    key = "name" if problem else "label"
    name = section.values.get(key, section.place if problem else None)
    renamed = {key: f"{name}, {told}"} if isinstance(name, str) else {}
    return Section(section.file, section.place, {**section.values, **values, **renamed})
