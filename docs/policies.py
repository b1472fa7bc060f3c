"""Writes the table of docs/policies.md from the registry: `python -m docs.policies [results/regret/regret.json]`.

Regret ratios and times come from what `make bench-regret` has left; where there is nothing, a dash stands.
"""

import json
import sys
from pathlib import Path
from typing import Any

from maskedbandits.policies import REGISTRY
from maskedbandits.policies import names as names

PAGE = Path(__file__).with_suffix(".md")
MEASURED = Path(__file__).parent.parent / "results" / "regret" / "regret.json"
BEGIN, END = "<!-- begin: python -m docs.policies -->", "<!-- end -->"
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


def main() -> None:
    """Write the table into the page."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else MEASURED
    rows = json.loads(path.read_text(encoding="utf-8"))["policies"] if path.exists() else []
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    made = table({one["policy"].split(",")[0]: one for one in reversed(rows)})
    PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
