"""The page: answer, table, figures and how to make them again, in one file that needs nothing else and asks nobody."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape as escape_html
from pathlib import Path

from maskedbandits._util import safe_text
from maskedbandits.experiments.results import Cell, Results, write_whole
from maskedbandits.report import style, summary, tables
from maskedbandits.report.plots import catalogue, context, regret_by_group
from maskedbandits.report.plots.catalogue import Picture
from maskedbandits.report.plots.panels import Panel

# What figures.COLOURS are on a dark ground: lighter, and black is white.
DARK = ("#3d93d6", "#f07f33", "#25b98c", "#e09cc4", "#9ad8fa", "#f2b632", "#f0f0f0")
DASHES = {"-": "", "--": "7 3", ":": "2 3", "-.": "8 3 2 3"}


@dataclass(frozen=True)
class Report:
    """Where a report's files are."""

    page: Path
    figures: tuple[Path, ...]
    missing: int = 0  # problems without figures


def write(results: Results, folder: Path, problems: Collection[str] = ()) -> Report:
    """Draw the figures of these problems, or of all, and write the page; drawn again it is the same, byte for byte.

    A picture takes longer than many a cell: where there are too many, those of no problem are drawn unasked.
    """
    target = folder / "figures"
    target.mkdir(parents=True, exist_ok=True)
    drawn = style.looks([label.policy for label in results.plan.labels])
    all_of_them = not problems and not tables.are_many(results.cells)
    parts, paths, panels, missing = [], list[Path](), list[Panel](), 0
    with style.our_style():
        found = tables.problems(results.cells)
        for prefix, (problem, groups) in zip(prefixes([name for name, _ in found]), found, strict=True):
            shown = []
            wanted = all_of_them or problem in problems
            missing += not wanted
            names = results.plan.arms.get(problem, ())
            for picture in catalogue.of_problem(prefix, problem, groups, drawn, names) if wanted else ():
                paths += save_figure(picture, target)
                shown.append(figure_html(picture, drawn))
                panels += picture.panels
            parts.append(section_html(problem, groups, shown, alone=len(found) == 1))
        compared = context.pairs(results.cells)
        if 0 < len(compared) <= context.MANY:
            picture = catalogue.when_context_pays(results.plan.title, compared)
            paths += save_figure(picture, target)
            parts.insert(0, context_html(compared, figure_html(picture, drawn)))
    page = folder / "index.html"
    save(page, page_html(results, parts, numbers_json(panels, drawn), missing).encode())
    return Report(page, tuple(paths), missing)


def save_figure(picture: Picture, folder: Path) -> list[Path]:
    """Draw a picture and save it as files; return where they are."""
    figure = picture.draw()
    paths = [folder / f"{picture.name}.{kind}" for kind in style.KINDS]
    for path, kind in zip(paths, style.KINDS, strict=True):
        save(path, style.as_bytes(figure, kind))
    return paths


def escape(text: str) -> str:
    """Return somebody's own words for the page: neither marks nor controls reach it."""
    return escape_html(safe_text.one_line(text))


def save(path: Path, content: bytes) -> None:
    """Write a file whole."""
    write_whole(path, lambda stream: stream.write(content))


@cache
def beside(name: str) -> str:
    """Return a file that lies beside this one: the page's style sheet, or its script."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def prefixes(problems: Sequence[str]) -> list[str]:
    """Return how each problem's files start: with nothing if it is the only one, else with its name."""
    if len(problems) == 1:
        return [""]
    safe = [re.sub(r"[^a-z0-9]+", "-", problem.lower()).strip("-") for problem in problems]
    unique = [name and safe.count(name) == 1 for name in safe]
    return [f"{name}-" if unique[place] else f"{name or 'problem'}-{place + 1}-" for place, name in enumerate(safe)]


def style_sheet() -> str:
    """Return the style sheet, with the colours of the figures."""
    light, dark = (
        "".join(f"--series-{place}: {colour}; " for place, colour in enumerate(colours))
        for colours in (style.COLOURS, DARK)
    )
    ours = f":root {{ {light}}}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"
    return ours + beside("page.css")


def numbers_json(panels: Sequence[Panel], drawn: dict[str, style.Look]) -> str:
    """Return what the script reads out, as JSON that ends no script: < is written as an escape."""
    document = {
        "names": [safe_text.one_line(policy) for policy in drawn],
        "colours": len(style.COLOURS),
        "panels": {panel.name: panel.numbers for panel in panels if panel.numbers},
    }
    return safe_text.json_text(json.dumps(document, separators=(",", ":"), allow_nan=False)).replace("<", "\\u003c")


def figure_html(picture: Picture, drawn: dict[str, style.Look]) -> str:
    """Return a figure: what it shows, its legend, its panels."""
    files = ", ".join(f"figures/{picture.name}.{kind}" for kind in style.KINDS)
    rows = "".join(row_html(heading, row, picture.size) for heading, row in picture.rows)
    legend = "".join(f"<li>{entry}</li>" for entry in legend_html(picture, drawn))
    return (
        f"<figure><h3>{escape(picture.heading)}</h3>"
        f'<figcaption>{escape(picture.caption)}</figcaption><ul class="legend">{legend}</ul>{rows}'
        f'<p class="facts files">For a paper: {escape(files)}</p></figure>'
    )


def legend_html(picture: Picture, drawn: dict[str, style.Look]) -> Iterator[str]:
    """Yield the entries of a legend: buttons that hide and show policies, or colours and what they stand for."""
    for name, colour in picture.colours:
        yield f"<span>{swatch(colour, '-', 10)}{escape(name)}</span>"
    for number, policy in enumerate(drawn):
        if policy in picture.policies:
            look = drawn[policy]
            button = f'<button type="button" data-toggles="{number}" aria-pressed="true">'
            yield f"{button}{swatch(look.colour, look.dash, 3)}{escape(policy)}</button>"


def swatch(colour: str, dash: str, width: int) -> str:
    """Return a piece of a line."""
    if colour in style.COLOURS:
        colour = f"var(--series-{style.COLOURS.index(colour)})"
    dashes = f' stroke-dasharray="{DASHES[dash]}"' if DASHES[dash] else ""
    line = f'<path d="M0 5H27" stroke="{colour}" stroke-width="{width}"{dashes}/>'
    return f'<svg viewBox="0 0 27 10" aria-hidden="true">{line}</svg>'


def row_html(heading: str, row: Sequence[Panel], size: str) -> str:
    """Return panels side by side, as far as there is room, under their heading if there is one."""
    above = f"<h4>{escape(heading)}</h4>" if heading else ""
    return f'{above}<div class="{" ".join(filter(None, ("panels", size)))}">{"".join(map(panel_html, row))}</div>'


def panel_html(panel: Panel) -> str:
    """Return a panel; one with numbers to read can be reached by the keyboard."""
    reads = f' data-panel="{panel.name}" tabindex="0"' if panel.numbers else ""
    above = f"<p>{escape(panel.title)}</p>" if panel.title else ""
    return f'<div class="panel">{above}<div class="plot"{reads}>{panel.drawing}</div></div>'


def section_html(problem: str, groups: Sequence[Sequence[Cell]], shown: Sequence[str], alone: bool) -> str:
    """Return one problem: its facts and its answer, which of a single one the page's head says; table and figures."""
    head = [f"<h2>{escape(problem)}</h2>"]
    if not alone:
        head += [
            f'<p class="facts">{summary.problem_in_words(groups[0][0])}.</p>',
            f"<p>{escape(summary.answer(groups))}</p>",
        ]
    cells = [cell for group in groups for cell in group]
    made = [table_html(groups, tables.columns(cells))]
    if regret_by_group.are_few(cells):
        made += ["<h3>Regret of each group</h3>", table_html(groups, regret_by_group.columns(cells))]
    return "\n".join(["<section>", *head, *made, *shown, "</section>"])


def context_html(compared: context.Problems, shown: str) -> str:
    """Return when context pays: a table of problems and epsilons, and a picture."""
    settings = context.settings(compared)
    heads = "".join(f"<th>{escape(setting)}</th>" for setting in settings)
    rows = []
    for problem, own in compared:
        verdicts = {pair.asking.label.setting: pair for pair in own}
        cells = [verdicts.get(setting) for setting in settings]
        marks = [' class="pays"' if pair and pair.pays_from is not None else "" for pair in cells]
        texts = [pair.in_words if pair else "–" for pair in cells]
        line = "".join(f"<td{mark}>{escape(text)}</td>" for mark, text in zip(marks, texts, strict=True))
        rows.append(f'<tr><td class="row">{escape(problem)}</td>{line}</tr>')
    table = f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    heading = "<h2>When context pays: from how many visitors on</h2>"
    return f'<section>{heading}<div class="scroll">{table}</div>{shown}</section>'


def table_html(groups: Sequence[Sequence[Cell]], shown: Sequence[tables.Column]) -> str:
    """Return one problem's table, sortable; the lowest regret of each group is bold."""
    kinds = [' class="left"' if column.justify == "left" else "" for column in shown]
    heading = "".join(
        f'<th scope="col" aria-sort="none"{kind}><button type="button">{escape(column.heading)}</button></th>'
        for column, kind in zip(shown, kinds, strict=True)
    )
    rows = []
    for group in groups:
        best = tables.lowest(group)
        for place, cell in enumerate(group):
            marks = ["first"] * (place == 0) + ["best"] * tables.stands_out(cell, group)
            texts = [(escape(column.say(cell, best)), sort_key(column.sort_by(cell, best))) for column in shown]
            line = "".join(f"<td{kind}{key}>{text}</td>" for (text, key), kind in zip(texts, kinds, strict=True))
            rows.append(f'<tr class="{" ".join(marks)}">{line}</tr>')
    table = f'<table class="sortable"><thead><tr>{heading}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="Table">{table}</div>'


def sort_key(value: float | str | None) -> str:
    """Return what a cell of a table is sorted by: a number, no number, or a text."""
    if isinstance(value, str):
        return f' data-text="{escape(value)}"'
    return f' data-number="{"" if value is None else str(value).replace("inf", "Infinity")}"'


def provenance_html(results: Results) -> str:
    """Return where the numbers come from, and how to make them again."""
    plan = results.plan
    codes = summary.listed(sorted({str(cell.outcome.question.get("code", "unknown")) for cell in results.cells}))
    rows = "".join(
        f'<tr><td class="left">{escape(cell.label.problem)}</td><td>{escape(summary.epsilon_text(cell))}</td>'
        f'<td class="left">{escape(cell.label.policy)}</td><td>{cell.outcome.question["seed"]}</td>'
        f"<td><code>cells/{escape(cell.label.key)}.npz</code></td></tr>"
        for cell in results.cells
    )
    heads = "".join(f"<th>{name}</th>" for name in ("problem", "ε", "policy", "seed", "file"))
    known = "; ".join(f"{name}: {value}" for name, value in plan.provenance.items())
    where = f'<p class="facts">Run with {escape(known)}.</p>' if known else ""
    return f"""<section><h2>Provenance</h2>
<p>With maskedbandits {escape(plan.version)} (digest of its code: <code>{escape(codes)}</code>), and the file below as
{escape(plan.file)}:</p>
<pre>{escape(plan.command)}</pre>
<p>The same numbers come out on any machine and any number of threads; the times differ. To draw this page
again from the saved results: <code>maskedbandits report</code> and this folder.</p>
{where}
<details><summary>{escape(plan.file)}</summary><pre>{escape_html(safe_text.lines(plan.source))}</pre></details>
<details><summary>Seed and file of each cell</summary><div class="scroll"><table><thead><tr>{heads}</tr></thead>
<tbody>{rows}</tbody></table></div></details></section>"""


def answer_html(results: Results) -> str:
    """Return the answer; where context is compared with none, when it pays comes first."""
    usual, compared = escape(summary.overall(results)), context.pairs(results.cells)
    if not compared:
        return f'<p class="answer">{usual}</p>'
    return f'<p class="answer">{escape(context.sentence(compared))}</p>\n<p class="facts">{usual}</p>'


def page_html(results: Results, parts: Sequence[str], numbers: str, missing: int = 0) -> str:
    """Return the whole page; it may run no script but its own, and fetch nothing."""
    plan = results.plan
    unfinished = len(plan.labels) - len(results.cells)
    warning = (
        f"<p><strong>{unfinished} of {len(plan.labels)} cells are not finished.</strong></p>" if unfinished else ""
    )
    if missing:
        which = f"{missing:,} of {len(parts):,} problems"
        command = "maskedbandits report DIR --problem NAME"
        warning += f'<p class="facts">Without the figures of {which}: <code>{command}</code> draws those of one.</p>'
    script = beside("page.js")
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(plan.title)}</title>
<style>{style_sheet()}</style>
<h1>{escape(plan.title)}</h1>
<p class="run">{escape(summary.what_was_run(results))}</p>
{answer_html(results)}
<p class="facts">Policies see randomised feedback alone; a smaller ε hides more. Lower regret is better.</p>
{warning}
{"".join(parts)}
{provenance_html(results)}
<script type="application/json" id="numbers">{numbers}</script>
<script>{script}</script>
</html>
"""
