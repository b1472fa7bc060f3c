"""The page: figures, tables and how to make them again, in one file that needs nothing else."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape as escape_html
from pathlib import Path

from matplotlib.figure import Figure

from maskedbandits import readable
from maskedbandits.experiments.results import Cell, Results, write_whole
from maskedbandits.report import changes, figures, tables

CSS = """
:root { color-scheme: light; --ink: #222; --pale: #666; --line: #e2e2e2; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); max-width: 72rem;
  margin: 2.5rem auto; padding: 0 1.25rem; }
h1, h2, p, summary { overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.6rem 0 .4rem; }
p { max-width: 46rem; } .facts { color: var(--pale); margin: 0 0 1rem; }
figure { margin: 1.2rem 0; } img { max-width: 100%; height: auto; }
figcaption { color: var(--pale); font-size: .9rem; max-width: 46rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .93rem; }
th, td { padding: .3rem .7rem; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid var(--ink); font-weight: 600; }
.left { text-align: left; } .first td { border-top: 1px solid var(--line); }
td.left { white-space: normal; overflow-wrap: anywhere; min-width: 16rem; max-width: 30rem; }
.best td { font-weight: 700; }
pre { background: #f6f6f6; padding: .8rem 1rem; overflow-x: auto; font-size: .85rem; }
"""


@dataclass(frozen=True)
class Report:
    """Where a report's files are."""

    page: Path
    figures: tuple[Path, ...]


@dataclass(frozen=True)
class Picture:
    """A figure with its file name and what it shows in words."""

    name: str
    caption: str
    figure: Figure


def write(results: Results, folder: Path) -> Report:
    """Draw every figure and write the page; a report drawn again is the same, byte for byte."""
    target = folder / "figures"
    target.mkdir(parents=True, exist_ok=True)
    drawn = figures.looks([label.policy for label in results.plan.labels])
    parts, paths = [], []
    with figures.our_style():
        problems = tables.problems(results.cells)
        for prefix, (problem, groups) in zip(prefixes([name for name, _ in problems]), problems, strict=True):
            pictures = pictures_of(prefix, problem, groups, drawn)
            embedded = []
            for picture in pictures:
                png = figures.as_bytes(picture.figure, "png")
                for kind, content in (("png", png), ("pdf", figures.as_bytes(picture.figure, "pdf"))):
                    paths.append(target / f"{picture.name}.{kind}")
                    save(paths[-1], content)
                embedded.append(figure_html(picture, png))
            parts.append(section_html(problem, groups, embedded))
    page = folder / "index.html"
    save(page, page_html(results, parts).encode())
    return Report(page, tuple(paths))


def escape(text: str) -> str:
    """Return somebody's own words for the page: neither marks nor controls reach it."""
    return escape_html(readable.one_line(text))


def save(path: Path, content: bytes) -> None:
    """Write a file whole."""
    write_whole(path, lambda stream: stream.write(content))


def prefixes(problems: Sequence[str]) -> list[str]:
    """Return how each problem's files start: with nothing if it is the only one, else with its name."""
    if len(problems) == 1:
        return [""]
    safe = [re.sub(r"[^a-z0-9]+", "-", problem.lower()).strip("-") for problem in problems]
    unique = [name and safe.count(name) == 1 for name in safe]
    return [f"{name}-" if unique[place] else f"{name or 'problem'}-{place + 1}-" for place, name in enumerate(safe)]


def pictures_of(
    prefix: str, problem: str, groups: Sequence[Sequence[Cell]], drawn: dict[str, figures.Look]
) -> list[Picture]:
    """Return a problem's figures; against epsilon only where there are several."""
    over_time = Picture(f"{prefix}regret", caption(groups), figures.regret_over_time(problem, groups, drawn))
    if len(groups) < 2:
        return [over_time]
    by_epsilon = Picture(
        f"{prefix}epsilon",
        "Regret at the end against epsilon, both on log scales, with 95 % intervals.",
        figures.regret_by_epsilon(problem, groups, drawn),
    )
    return [over_time, by_epsilon]


def caption(groups: Sequence[Sequence[Cell]]) -> str:
    """Return what regret against time shows, in words."""
    parts = ["Regret against time: what was lost so far by not knowing the best arm."]
    first = groups[0][0]
    if changes.are_many(first):
        parts += ["Lines are means over runs, bands their 95 % intervals."]
        parts += ["Below: the mean rewards of the arms, and dark the best of them."]
    else:
        verticals = ", dashed verticals the changes" if first.changes else ""
        parts += [f"Lines are means, bands their 95 % intervals{verticals}."]
    if len(groups) > 1:
        shared = figures.one_scale(groups)
        parts += ["All panels share a scale." if shared else "Each panel has a scale of its own."]
    return " ".join(parts)


def figure_html(picture: Picture, png: bytes) -> str:
    """Return a figure with its picture inside."""
    data = base64.b64encode(png).decode()
    width = round(100 * picture.figure.get_figwidth())  # text is then as large in every figure
    return (
        f'<figure><img width="{width}" alt="{escape(picture.caption)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(picture.caption)} Files: figures/{picture.name}.png and .pdf.</figcaption>"
        "</figure>"
    )


def section_html(problem: str, groups: Sequence[Sequence[Cell]], embedded: Sequence[str]) -> str:
    """Return one problem: what it is, its figures, its table."""
    cell = groups[0][0]
    facts = (
        f"{len(cell.outcome.question['means'][0])} arms, {cell.horizon:,} steps, "
        f"{changes.in_words(cell)}; {cell.runs:,} runs of each policy."
    )
    return "\n".join([f"<h2>{escape(problem)}</h2>", f'<p class="facts">{facts}</p>', *embedded, table_html(groups)])


def table_html(groups: Sequence[Sequence[Cell]]) -> str:
    """Return one problem's table; the lowest regret of each group is bold."""
    shown = tables.columns([cell for group in groups for cell in group])
    kinds = [' class="left"' if column.justify == "left" else "" for column in shown]
    heading = "".join(f"<th{kind}>{escape(c.heading)}</th>" for c, kind in zip(shown, kinds, strict=True))
    rows = []
    for group in groups:
        best = tables.lowest(group)
        for place, cell in enumerate(group):
            marks = ["first"] * (place == 0) + ["best"] * tables.stands_out(cell, group)
            texts = [escape(column.say(cell, best)) for column in shown]
            line = "".join(f"<td{kind}>{text}</td>" for text, kind in zip(texts, kinds, strict=True))
            rows.append(f'<tr class="{" ".join(marks)}">{line}</tr>')
    table = f"<table><thead><tr>{heading}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def page_html(results: Results, parts: Sequence[str]) -> str:
    """Return the whole page."""
    plan = results.plan
    unfinished = len(plan.labels) - len(results.cells)
    warning = (
        f"<p><strong>{unfinished} of {len(plan.labels)} cells are not finished.</strong></p>" if unfinished else ""
    )
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(plan.title)}</title>
<style>{CSS}</style>
<h1>{escape(plan.title)}</h1>
<p class="facts">Policies see randomised feedback alone; a smaller ε hides more. Lower regret is better.</p>
{warning}
{"".join(parts)}
<h2>Make it again</h2>
<p>With maskedbandits {escape(plan.version)}, and the file below as {escape(plan.file)}:</p>
<pre>{escape(plan.command)}</pre>
<p>The same numbers come out on any machine and any number of threads; the times differ. To draw this page
again from the saved results: <code>maskedbandits report</code> and this folder.</p>
<details><summary>{escape(plan.file)}</summary><pre>{escape_html(readable.lines(plan.source))}</pre></details>
</html>
"""
