"""Sweeps: each problem or policy of the file takes every value that ``[grid.problems]`` and ``[grid.policies]`` list.

    [grid.problems]
    horizon = [10_000, 100_000]
    seed = [1, 2, 3]

    [grid.policies]
    window = ["paper", "corrected", 500]

makes six problems of each problem in the file, and three policies of each policy that has a window. A policy without a
window stays as it is. A value in a table of the file takes precedence over the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from maskedbandits.errors import suggest_nearest
from maskedbandits.experiments.toml_table import TomlTable, describe_actual, format_value

KEYS = ("problems", "policies")
MAX_TABLES = 100_000


def expand_grid(top: TomlTable, key: str, list_parameters: Callable[[TomlTable], Iterable[str]]) -> list[TomlTable]:
    """Return the tables of an array of tables, one for each combination of the grid's values.

    ``list_parameters`` returns the keys that a table can take.
    """
    axes = read_axes(top, key)
    tables: list[TomlTable] = []
    used: set[str] = set()
    known: dict[str, None] = {}  # a set that keeps the order, for hints in errors
    for table in top.get_tables(key):
        varied = []
        if axes:
            known |= dict.fromkeys(list_parameters(table))
            varied = [name for name in list_parameters(table) if name in axes and name not in table.values]
        used.update(varied)
        for values in product(*(axes[name] for name in varied)):
            tables.append(replace_values(table, dict(zip(varied, values, strict=True))))
            if len(tables) > MAX_TABLES:
                raise top.error(f"grid.{key}", f"expected at most {MAX_TABLES:,} {key} in all, these are more")
    for name in axes:
        if name not in known:
            raise top.error(f"grid.{key}.{name}", f"none of the {key} takes it{suggest_nearest(name, known)}")
        if name not in used:
            raise top.error(f"grid.{key}.{name}", f"all {key} that take it have it themselves: leave it out there")
    return tables


def read_axes(top: TomlTable, key: str) -> dict[str, list[Any]]:
    """Return the lists of the grid."""
    grid = TomlTable(top.file, "grid", top.values.get("grid", {}))
    grid.check_keys(KEYS, "part")
    axes = TomlTable(top.file, f"grid.{key}", grid.values.get(key, {}))
    for name, values in axes.values.items():
        if not isinstance(values, list) or not values:
            raise axes.error(name, f"expected a list of values, {describe_actual(values)}")
        if len({repr(value) for value in values}) < len(values):
            raise axes.error(name, "expected different values, got one of them twice")
    return axes.values


def replace_values(table: TomlTable, values: dict[str, Any]) -> TomlTable:
    """Return a table with some values of the grid, which are added to its name.

    A policy without a label needs no new one: its default label lists all parameters.
    """
    if not values:
        return table
    suffix = ", ".join(f"{name}={format_value(value)}" for name, value in values.items())
    is_problem = table.path.startswith("problems")
    key = "name" if is_problem else "label"
    name = table.values.get(key, table.path if is_problem else None)
    renamed = {key: f"{name}, {suffix}"} if isinstance(name, str) else {}
    return TomlTable(table.file, table.path, {**table.values, **values, **renamed}, table.folders)
