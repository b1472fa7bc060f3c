"""Writes the tables of docs/policies.md: `python -m docs.policies [results/regret]`.

Names come from the kinds of policies. Regret ratios and times come from what `python -m bench.regret --all --long` has
left in that folder, what late reports cost from what `python -m bench.delays` has left in the one beside it; where
nothing was left, or a policy was not played, the page keeps the figures that it has.
"""

import json
import sys
from pathlib import Path

from bench import delays
from bench.regret import Row, draw, format_table, untold_table

from docs import blocks
from maskedbandits.policies import KINDS
from maskedbandits.policies import names as names

PAGE = Path(__file__).with_suffix(".md")
MEASURED = Path(__file__).parent.parent / "results" / "regret"
FIGURE = Path(__file__).parent / "figures" / "policies.png"
KNOWS = {
    "window": ("T", "L"),
    "gamma": ("T", "L"),
    "restarts": ("the changes",),
    "best": ("the best arms",),
    "horizon": ("T",),
}


def needs(name: str) -> str:
    """Return the required parameters of a policy."""
    required = [key for key, parameter in KINDS[name].parameters.items() if parameter.required]
    return ", ".join(dict.fromkeys(word for key in required for word in KNOWS.get(key, (key,)))) or "nothing"


def row(name: str, measured: dict[str, tuple[str, str]]) -> str:
    """Return a policy as a row of the table; a dash where the benchmark does not play it."""
    kind = KINDS[name]
    ratio, step = measured.get(name, ("–", "–"))
    facts = (f"`{name}`", kind.summary, needs(name), kind.learns_from, kind.reference or "–", ratio, step)
    return f"| {' | '.join(facts)} |"


def table(measured: dict[str, tuple[str, str]]) -> str:
    """Return the table of all names in Markdown."""
    head = "| name | memory x index | needs to know | learns from | reference | regret ratio | ns a step |"
    return "\n".join([head, "|---|---|---|---|---|--:|--:|", *(row(name, measured) for name in names())])


def measured_of(regret: str) -> dict[str, tuple[str, str]]:
    """Return the ratio over abrupt problems and the time of a step, by name, from the page's table of regret."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in regret.splitlines()[2:]]
    # A policy that stands there twice is shown as it stands first: with the paper's window, with global restarts.
    return {cells[0].split(",")[0]: (cells[1].split(" ")[0], cells[-1]) for cells in reversed(rows)}


def keep_missing_rows(new: str, old: str) -> str:
    """Return a table with those rows of the former one whose policies it lacks, if both have the same columns."""
    head, *_ = new.splitlines()
    if not old.startswith(head + "\n"):
        return new
    played = {line.split("|")[1] for line in new.splitlines()}
    return "\n".join([new, *(line for line in old.splitlines()[2:] if line.split("|")[1] not in played)])


def main() -> None:
    """Write the tables into the page, and draw the figure."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else MEASURED
    for which, file in (("regret", "regret.json"), ("long", "regret-long.json")):
        if (folder / file).exists():
            found = json.loads((folder / file).read_text(encoding="utf-8"))["policies"]
            rows = [Row(**one) for one in found]
            merged = keep_missing_rows(format_table(rows), blocks.read(PAGE, which))
            blocks.fill(PAGE, {which: merged, f"{which} untold": untold_table(rows)})
            if which == "regret":
                draw(rows, FIGURE)
    late = folder.parent / "delays" / "delays.json"
    if late.exists():
        rows_late = [delays.Row(**one) for one in json.loads(late.read_text(encoding="utf-8"))]
        blocks.fill(PAGE, {"delays": delays.format_table(rows_late)})
    blocks.fill(PAGE, {"": table(measured_of(blocks.read(PAGE, "regret")))})


if __name__ == "__main__":
    main()
