"""Writes the example and the figure of docs/choose_epsilon.md: `python -m docs.choose_epsilon`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from docs import blocks
from maskedbandits.planner import Plan, plan, text
from maskedbandits.report.plots.plan import write_figure

PAGE = Path(__file__).with_suffix(".md")
FIGURE = PAGE.parent / "figures" / "plan.png"
COMMAND = "maskedbandits plan --arms 5 --horizon 200000 --changes 4 --gap 0.1 --base-rate 0.3"


def example(made: Plan) -> str:
    """Return what the command prints."""
    return "\n".join(["```text", f"$ {COMMAND}", *text.to_lines(made), "```"])


def main() -> None:
    """Write the example into the page, and draw the figure."""
    made = plan(arms=5, horizon=200_000, changes=4, gap=0.1, base_rate=0.3)
    blocks.fill(PAGE, {"example": example(made)})
    with tempfile.TemporaryDirectory() as folder:
        drawn, _ = write_figure(made, Path(folder))
        shutil.copy(drawn, FIGURE)


if __name__ == "__main__":
    main()
