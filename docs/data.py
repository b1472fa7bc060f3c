"""Writes the tables of docs/data.md: `python -m docs.data`. Data that are not here yet are downloaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from docs import blocks
from maskedbandits import data
from maskedbandits.data import catalogue
from maskedbandits.data.tables import Table

PAGE = Path(__file__).with_suffix(".md")
SHOWN = ("retail", "retail-blind", "movielens-100k")


def markdown(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; all columns but the first are numbers."""
    lines = [heading, ["---", *["--:"] * (len(heading) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def names() -> str:
    """Return what each data set is, and where it comes from."""
    lines = ["| name | what | an arm | from |", "|---|---|---|---|"]
    for entry in catalogue.DATA_SETS:
        package = entry.package
        origin = f"`{package.name}` {package.version}, {package.size / 1e6:.1f} MB" if package else "your own download"
        lines.append(f"| `{entry.name}` | {entry.title} | {entry.arm} | {origin} |")
    return "\n".join(lines)


def got(name: str) -> Table:
    """Return a data set, downloaded if it is not here."""
    return data.get(name, progress=lambda line: print(f"{name}: {line}", file=sys.stderr))  # noqa: T201 -- progress


def months(name: str) -> str:
    """Return the mean of every arm in every month, the best one in bold."""
    table = got(name)
    heading = table.arms if max(map(len, table.arms)) <= 12 else [name.split()[0] for name in table.arms]
    rows = []
    for label, means in zip(table.labels, table.means, strict=True):
        best = np.nanmax(means)
        rows.append([label, *(f"**{mean:.3f}**" if mean == best else f"{mean:.3f}" for mean in means)])
    return markdown(["month", *heading], rows)


def worth() -> str:
    """Return how much there is of each data set, and what there is to win by keeping up."""
    heading = [
        "name",
        "size",
        "arms",
        "periods",
        "the best arm changes",
        "all arms",
        "best arm",
        "best arm of each period",
    ]
    return markdown(heading, [worth_of(name) for name in (*SHOWN, "open-bandit-small")])


def worth_of(name: str) -> list[str]:
    """Return the row of a data set; every period weighs as much as it has rounds."""
    table = got(name)
    kind = "rounds" if isinstance(table, data.Rounds) else "rows of a log"
    means = table.means
    lengths = np.diff(np.append(table.starts, table.horizon))
    changes = np.count_nonzero(np.diff(np.nanargmax(means, axis=1)))
    fixed = lengths @ means / table.horizon
    followed = lengths @ np.nanmax(means, axis=1) / table.horizon
    amounts = [f"{table.horizon:,} {kind}", *map(str, (len(table.arms), len(lengths), changes))]
    return [f"`{name}`", *amounts, *(f"{mean:.4f}" for mean in (fixed.mean(), fixed.max(), followed))]


def main() -> None:
    """Write the tables into the page."""
    blocks.fill(PAGE, {"names": names(), "worth": worth(), **{name: months(name) for name in SHOWN}})


if __name__ == "__main__":
    main()
