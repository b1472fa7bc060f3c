"""Write the table of docs/audit.md: `python -m docs.audit`. It is computed, not measured."""

from __future__ import annotations

from pathlib import Path

from docs import blocks
from docs.privacy import markdown
from maskedbandits.privacy.audit.statistics import allocate_error, find_smallest_excess

PAGE = Path(__file__).with_suffix(".md")


def detectable_excess_table() -> str:
    """Return the smallest excess of symmetric randomised response that an audit sees."""
    trials = (10**4, 10**5, 10**6, 10**7)
    level = allocate_error(0.99).known
    heading = ["ε of randomised response", *(f"excess seen, {count:,} trials a bit" for count in trials)]
    rows = []
    for epsilon in ("0.1", "0.5", "1", "2", "4", "8"):
        excesses = [find_smallest_excess(float(epsilon), count, level) for count in trials]
        rows.append([epsilon, *("none" if excess is None else f"{excess:.4f}" for excess in excesses)])
    return markdown(heading, rows)


TABLES = {"seen": detectable_excess_table}


def main() -> None:
    """Write the tables into the page."""
    blocks.fill(PAGE, {which: table() for which, table in TABLES.items()})


if __name__ == "__main__":
    main()
