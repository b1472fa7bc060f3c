"""Draws the result figure of the README: `python -m docs.quickstart`.

The figure shows one row of the table that `python -m docs.evaluation` writes. Nothing is simulated for it again.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from docs import blocks

PAGE = Path(__file__).with_suffix(".md")
FIGURE = PAGE.parent / "figures" / "result.svg"
EPSILON = "1"
BAR, GAP, LEFT, WIDTH = 26, 18, 16, 640  # pixels
STYLE = """
  .card { fill: #ffffff } text { fill: #1f2328; font: 15px system-ui, sans-serif } .title { font-weight: 600 }
  .bar { fill: #0072b2 } .auto { fill: #d55e00 } .note { fill: #59636e; font-size: 13px }
  .interval { stroke: #1f2328; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #161b22 } text { fill: #e6edf3 } .note { fill: #9aa4af }
    .bar { fill: #56b4e9 } .auto { fill: #e69f00 }
    .interval { stroke: #e6edf3 }
  }
"""


def read_regrets() -> dict[str, tuple[float, float]]:
    """Return the regret of each policy with half its interval, from the table of the paper's experiment."""
    page = next(page for page in sorted(PAGE.parent.glob("*.md")) if "paper" in blocks.names(page))
    lines = [
        [cell.strip(" *") for cell in line.strip("|").split("|")] for line in blocks.read(page, "paper").splitlines()
    ]
    (row,) = (cells for cells in lines[2:] if cells[0] == EPSILON)
    numbers = [re.findall(r"[\d,]+", cell.replace("*", "")) for cell in row[1:]]
    values = [(float(mean.replace(",", "")), float(half.replace(",", ""))) for mean, half, *_ in numbers]
    return dict(zip(map(shorten, lines[0][1:]), values, strict=True))


def shorten(label: str) -> str:
    """Return the label of a policy for the figure."""
    return "auto, no tuning" if label.startswith("auto") else label


def draw(regrets: dict[str, tuple[float, float]]) -> str:
    """Return the figure: a bar for each policy, the lowest regret first."""
    ordered = sorted(regrets.items(), key=lambda item: item[1])
    scale = (WIDTH - 2 * LEFT) * 0.82 / ordered[-1][1][0]
    step = BAR + GAP + 16
    height = 84 + step * len(ordered)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<title>Cumulative regret at epsilon {EPSILON}</title><style>{STYLE}</style>",
        f'<rect class="card" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text class="title" x="{LEFT}" y="30">Cumulative regret after 400,000 steps, ε = {EPSILON}</text>',
        f'<text class="note" x="{LEFT}" y="50">Lower is better. Mean of 100 runs with its 95 % interval.</text>',
    ]
    for index, (label, (mean, half)) in enumerate(ordered):
        top = 84 + index * step
        end, low, high = (LEFT + scale * value for value in (mean, mean - half, mean + half))
        middle = top + BAR / 2
        kind = "bar auto" if label.startswith("auto") else "bar"
        parts += [
            f'<text x="{LEFT}" y="{top - 7}">{escape(label)}</text>',
            f'<rect class="{kind}" x="{LEFT}" y="{top}" width="{end - LEFT:.1f}" height="{BAR}" rx="3"/>',
            f'<path d="M{low:.1f} {middle}H{high:.1f}" class="interval"/>',
            f'<text x="{high + 8:.1f}" y="{middle + 5}">{mean:,.0f} ± {half:,.0f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Write the figure."""
    FIGURE.write_text(draw(read_regrets()), encoding="utf-8")


if __name__ == "__main__":
    main()
