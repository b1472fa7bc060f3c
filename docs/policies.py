"""Writes the tables of docs/policies.md: `python -m docs.policies [results/regret]`.

Names come from the registry. Regret ratios and times come from what `python -m bench.regret --all --long` has left in
that folder; where there is nothing, a dash stands.
"""

import json
import sys
from pathlib import Path
from typing import Any

from bench.regret import Row, as_table, draw

from maskedbandits.policies import REGISTRY
from maskedbandits.policies import names as names

PAGE = Path(__file__).with_suffix(".md")
MEASURED = Path(__file__).parent.parent / "results" / "regret"
FIGURE = Path(__file__).parent / "figures" / "policies.png"
BEGIN, END = "<!-- begin: python -m docs.policies{} -->", "<!-- end -->"
KNOWS = {
    "window": ("T", "L"),
    "gamma": ("T", "L"),
    "restarts": ("the changes",),
    "best": ("the best arms",),
    "horizon": ("T",),
}


def needs(name: str) -> str:
    """Return what somebody must know to use a policy."""
    required = [key for key, default in REGISTRY[name].parameters.items() if default is ...]
    return ", ".join(dict.fromkeys(word for key in required for word in KNOWS.get(key, (key,)))) or "nothing"


def private(name: str) -> str:
    """Return what the learner sees."""
    recipe = REGISTRY[name]
    if recipe.sees_rewards:
        return "sees rewards"
    return "masked feedback" if recipe.sees_corruption else "feedback at face value"


def row(name: str, measured: dict[str, Any]) -> str:
    """Return a policy as a row of the table."""
    recipe = REGISTRY[name]
    found = measured.get(name)
    ratio, step = (f"{found['means']['abrupt']:.2f}", f"{found['nanoseconds']:,.0f}") if found else ("–", "–")
    facts = (f"`{name}`", recipe.summary, needs(name), private(name), recipe.reference or "–", ratio, step)
    return f"| {' | '.join(facts)} |"


def table(measured: dict[str, Any]) -> str:
    """Return the table of all names in Markdown."""
    head = "| name | memory x index | needs to know | learns from | reference | regret ratio | ns a step |"
    return "\n".join([head, "|---|---|---|---|---|--:|--:|", *(row(name, measured) for name in names())])


def replaced(text: str, which: str, made: str) -> str:
    """Return the page with one of its tables made anew."""
    before, rest = text.split(BEGIN.format(which))
    _, after = rest.split(END, 1)
    return f"{before}{BEGIN.format(which)}\n{made}\n{END}{after}"


def main() -> None:
    """Write the tables into the page, and draw the figure."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else MEASURED
    text = PAGE.read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = []
    for which, file in ((" regret", "regret.json"), (" long", "regret-long.json")):
        if (folder / file).exists():
            found = json.loads((folder / file).read_text(encoding="utf-8"))["policies"]
            text = replaced(text, which, as_table([Row(**one) for one in found]))
            rows = rows or found
    if rows:
        draw([Row(**one) for one in rows], FIGURE)
    text = replaced(text, "", table({one["policy"].split(",")[0]: one for one in reversed(rows)}))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
