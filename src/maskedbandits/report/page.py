"""The page of a report: summary, tables, figures and provenance in one file that loads nothing else."""

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
from maskedbandits._util.curves import Look
from maskedbandits.experiments.results import Results, write_whole
from maskedbandits.report import style, summary, tables
from maskedbandits.report.plots import ContextRatio, Panel, Plot, build_plots
from maskedbandits.report.style import Looks
from maskedbandits.report.summary import ContextPairs, Groups

MAX_TINT = 45  # per cent, of the background of the lowest regret
SWATCH_DASH = 2.2  # length of the unit of a dash in a swatch, which is 38 long
MARKER_PATHS = {  # of markers, around the origin
    "o": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "s": "M-3.6-3.6h7.2v7.2h-7.2z",
    "^": "M0-4.5L4.5 3.5H-4.5z",
    "D": "M0-4.8L4.8 0L0 4.8L-4.8 0z",
    "v": "M0 4.5L4.5-3.5H-4.5z",
    "P": "M-1.6-4.5h3.2v2.9h2.9v3.2h-2.9v2.9h-3.2v-2.9h-2.9v-3.2h2.9z",
    "X": "M-4.5-2.5L-2.5-4.5L0-2L2.5-4.5L4.5-2.5L2 0L4.5 2.5L2.5 4.5L0 2L-2.5 4.5L-4.5 2.5L-2 0z",
}


@dataclass(frozen=True)
class ReportFiles:
    """The files of a report.

    Parameters
    ----------
    page
        The page.
    figures
        The files of the figures.
    missing
        The number of problems without figures.

    """

    page: Path
    figures: tuple[Path, ...]
    missing: int = 0


def write_report(
    results: Results, folder: Path, problems: Collection[str] = (), options: style.FigureOptions = style.USUAL
) -> ReportFiles:
    """Write the page and the figures of results; the same results give the same bytes.

    Parameters
    ----------
    results
        The results.
    folder
        The folder to write to.
    problems
        The problems to draw. By default all, or none if there are too many: a figure takes longer than many a cell.
    options
        How the reader wants figures.

    Returns
    -------
    ReportFiles
        The files.

    """
    target = folder / "figures"
    target.mkdir(parents=True, exist_ok=True)
    looks = style.assign_looks([label.policy for label in results.manifest.labels])
    draws_all = not problems and not summary.has_many_cells(results.cells)
    sections, paths, panels, missing = [], list[Path](), list[Panel](), 0
    with style.use_style():
        grouped = summary.group_by_problem(results.cells)
        for prefix, (problem, groups) in zip(file_prefixes([name for name, _ in grouped]), grouped, strict=True):
            figures = []
            is_drawn = draws_all or problem in problems
            missing += not is_drawn
            names = results.manifest.arms.get(problem, ())
            for plot in build_plots(prefix, problem, groups, looks, names, options) if is_drawn else ():
                with style.use_style(options):
                    paths += save_figure(plot, target)
                figures.append(figure_html(plot, looks))
                panels += plot.panels
            sections.append(section_html(problem, groups, figures, is_only=len(grouped) == 1))
        pairs = summary.pair_contexts(results.cells)
        if 0 < len(pairs) <= summary.MAX_COMPARISONS:
            plot = ContextRatio(results.manifest.title, pairs)
            paths += save_figure(plot, target)
            sections.insert(0, context_html(pairs, figure_html(plot, looks)))
    page = folder / "index.html"
    save_file(page, page_html(results, sections, encode_numbers(panels, looks), missing).encode())
    return ReportFiles(page, tuple(paths), missing)


def save_figure(plot: Plot, folder: Path) -> list[Path]:
    """Draw the figure of a plot, save it in every file type, and return the files."""
    figure = plot.draw_figure()
    paths = [folder / f"{plot.name}.{kind}" for kind in style.FILE_METADATA]
    for path, kind in zip(paths, style.FILE_METADATA, strict=True):
        save_file(path, style.render(figure, kind))
    return paths


def escape(text: str) -> str:
    """Return a user's text for the page, without markup and control characters."""
    return escape_html(safe_text.one_line(text))


def save_file(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    write_whole(path, lambda stream: stream.write(content))


@cache
def read_asset(name: str) -> str:
    """Return the style sheet or the script of the page, from the folder of this module."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def file_prefixes(problems: Sequence[str]) -> list[str]:
    """Return the prefix of each problem's files: its name, or an empty text if there is only one problem."""
    if len(problems) == 1:
        return [""]
    safe = [re.sub(r"[^a-z0-9]+", "-", problem.lower()).strip("-") for problem in problems]
    unique = [name and safe.count(name) == 1 for name in safe]
    return [f"{name}-" if unique[index] else f"{name or 'problem'}-{index + 1}-" for index, name in enumerate(safe)]


def style_sheet() -> str:
    """Return the style sheet, with the colours of the figures."""
    light, dark = (
        "".join(f"--series-{index}: {colour}; " for index, colour in enumerate(colours))
        for colours in (style.COLOURS, style.DARK_COLOURS)
    )
    variables = f":root {{ {light}}}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"
    return variables + read_asset("page.css")


def encode_numbers(panels: Sequence[Panel], looks: Looks) -> str:
    """Return the numbers for the script as JSON, with an escape for <, which could end the script."""
    document = {
        "names": [safe_text.one_line(policy) for policy in looks],
        "colours": len(style.COLOURS),
        "panels": {panel.name: panel.numbers for panel in panels if panel.numbers},
    }
    return safe_text.json_text(json.dumps(document, separators=(",", ":"), allow_nan=False)).replace("<", "\\u003c")


def figure_html(plot: Plot, looks: Looks) -> str:
    """Return a plot: heading, caption, legend and panels."""
    files = ", ".join(
        f'<a href="figures/{escape(plot.name)}.{kind}">{kind.upper()}</a>' for kind in style.FILE_METADATA
    )
    rows = "".join(row_html(heading, row, plot.panel_size) for heading, row in plot.rows)
    legend = "".join(f"<li>{entry}</li>" for entry in legend_html(plot, looks))
    return (
        f"<figure><h3>{escape(plot.heading)}</h3>"
        f'<figcaption>{escape(plot.caption)}</figcaption><ul class="legend">{legend}</ul>{rows}'
        f'<p class="facts files">For a paper: {files}</p></figure>'
    )


def legend_html(plot: Plot, looks: Looks) -> Iterator[str]:
    """Yield the entries of a legend: colours with their names, or buttons that hide and show policies."""
    for name, colour in plot.colours:
        yield f"<span>{swatch_html(Look(colour, (), ''), 10)}{escape(name)}</span>"
    for number, policy in enumerate(looks):
        if policy in plot.policies:
            button = f'<button type="button" data-toggles="{number}" aria-pressed="true">'
            yield f"{button}{swatch_html(looks[policy], 2.5)}{escape(policy)}</button>"


def swatch_html(look: Look, width: float) -> str:
    """Return a piece of a line, with its marker."""
    colour = look.colour
    if colour in style.COLOURS:
        colour = f"var(--series-{style.COLOURS.index(colour)})"
    lengths = " ".join(f"{length * SWATCH_DASH:.3g}" for length in look.dash)
    dashes = f' stroke-dasharray="{lengths}"' if lengths else ""
    line = f'<path d="M0 5H38" stroke="{colour}" stroke-width="{width:g}"{dashes}/>'
    if look.marker:
        line += f'<path d="{MARKER_PATHS[look.marker]}" transform="translate(19 5)" fill="{colour}"/>'
    return f'<svg viewBox="0 0 38 10" aria-hidden="true">{line}</svg>'


def row_html(heading: str, row: Sequence[Panel], size: str) -> str:
    """Return panels side by side, under their heading if there is one."""
    above = f"<h4>{escape(heading)}</h4>" if heading else ""
    return f'{above}<div class="{" ".join(filter(None, ("panels", size)))}">{"".join(map(panel_html, row))}</div>'


def panel_html(panel: Panel) -> str:
    """Return a panel, with a tab stop if it has numbers to read."""
    attributes = f' data-panel="{panel.name}" tabindex="0"' if panel.numbers else ""
    above = f"<p>{escape(panel.title)}</p>" if panel.title else ""
    return f'<div class="panel">{above}<div class="plot"{attributes}>{panel.svg}</div></div>'


def section_html(problem: str, groups: Groups, figures: Sequence[str], is_only: bool) -> str:
    """Return the section of a problem: facts and summary unless they are in the page's head, tables and figures."""
    head = [f"<h2>{escape(problem)}</h2>"]
    if not is_only:
        head += [
            f'<p class="facts">{summary.describe_problem(groups[0][0])}.</p>',
            f"<p>{escape(summary.summarize_problem(groups))}</p>",
        ]
    cells = [cell for group in groups for cell in group]
    parts = []
    if len(groups) > 1 and len(summary.list_policies(groups)) > 1:
        parts += ["<h3>Final regret by policy and ε</h3>", matrix_html(problem, groups), "<h3>All numbers</h3>"]
    parts.append(table_html(f"All numbers of {problem}", groups, tables.list_columns(cells)))
    if tables.fits_groups(cells):
        table = table_html(f"Regret of each group of {problem}", groups, tables.list_group_columns(cells))
        parts += ["<h3>Regret of each group</h3>", table]
    return "\n".join(["<section>", *head, *parts, *figures, "</section>"])


def context_html(problems: ContextPairs, figure: str) -> str:
    """Return when context pays: a table of problems and epsilons, and a figure."""
    settings = summary.list_settings(problems)
    heads = "".join(f"<th>{escape(setting)}</th>" for setting in settings)
    rows = []
    for problem, pairs in problems:
        by_setting = {pair.grouped.label.setting: pair for pair in pairs}
        entries = [by_setting.get(setting) for setting in settings]
        marks = [' class="pays"' if pair and pair.pays_from is not None else "" for pair in entries]
        texts = [pair.verdict if pair else "–" for pair in entries]
        line = "".join(f"<td{mark}>{escape(text)}</td>" for mark, text in zip(marks, texts, strict=True))
        rows.append(f'<tr><td class="row">{escape(problem)}</td>{line}</tr>')
    table = f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    heading = "<h2>When context pays: from how many visitors on</h2>"
    return f"<section>{heading}{scroll_html('When context pays', table)}{figure}</section>"


def scroll_html(label: str, table: str) -> str:
    """Return a table that scrolls sideways where it is too wide, with a label of its own for screen readers."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{table}</div>'


def matrix_html(problem: str, groups: Groups) -> str:
    """Return the final regret, a row for each policy and a column for each corruption.

    The lowest of a column is bold. The nearer a regret is to it, the stronger its background.
    """
    heads = "".join(f'<th scope="col">{escape(group[0].label.setting)}</th>' for group in groups)
    rows = []
    for policy in summary.list_policies(groups):
        entries = []
        for group in groups:
            cell = next((cell for cell in group if cell.label.policy == policy), None)
            if cell is None:
                entries.append("<td>–</td>")
                continue
            regret, lowest = float(cell.mean[-1]), summary.lowest_regret(group)
            share = 1.0 if regret <= lowest else max(lowest, 0.0) / regret
            tint = round(MAX_TINT * share)
            mark = ' class="best"' if summary.is_best(cell, group) else ""
            entries.append(f'<td{mark} style="--tint: {tint}%">{escape(summary.format_number(regret))}</td>')
        rows.append(f'<tr><th scope="row">{escape(policy)}</th>{"".join(entries)}</tr>')
    table = f'<table class="matrix"><thead><tr><th></th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return scroll_html(f"Final regret by policy and ε of {problem}", table)


def table_html(label: str, groups: Groups, columns: Sequence[tables.TableColumn]) -> str:
    """Return a sortable table of a problem, with the lowest regret of each corruption in bold."""
    kinds = [' class="left"' if column.justify == "left" else "" for column in columns]
    heading = "".join(
        f'<th scope="col" aria-sort="none"{kind}><button type="button">{escape(column.heading)}</button></th>'
        for column, kind in zip(columns, kinds, strict=True)
    )
    rows = []
    for group in groups:
        best = summary.lowest_regret(group)
        for index, cell in enumerate(group):
            marks = ["first"] * (index == 0) + ["best"] * summary.is_best(cell, group)
            texts = [
                (escape(column.format(cell, best)), sort_attribute(column.sort_key(cell, best))) for column in columns
            ]
            line = "".join(f"<td{kind}{key}>{text}</td>" for (text, key), kind in zip(texts, kinds, strict=True))
            rows.append(f'<tr class="{" ".join(marks)}">{line}</tr>')
    table = f'<table class="sortable"><thead><tr>{heading}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return scroll_html(label, table)


def sort_attribute(value: float | str | None) -> str:
    """Return the attribute that an entry of a table is sorted by: a number, no number, or a text."""
    if isinstance(value, str):
        return f' data-text="{escape(value)}"'
    return f' data-number="{"" if value is None else str(value).replace("inf", "Infinity")}"'


def provenance_html(results: Results) -> str:
    """Return the provenance of the numbers, and the command that makes them again."""
    manifest = results.manifest
    codes = summary.join_words(sorted({str(cell.outcome.spec.get("code", "unknown")) for cell in results.cells}))
    rows = "".join(
        f'<tr><td class="left">{escape(cell.label.problem)}</td><td>{escape(summary.format_epsilon(cell))}</td>'
        f'<td class="left">{escape(cell.label.policy)}</td><td>{cell.outcome.spec["seed"]}</td>'
        f"<td><code>cells/{escape(cell.label.key)}.npz</code></td></tr>"
        for cell in results.cells
    )
    heads = "".join(f"<th>{name}</th>" for name in ("problem", "ε", "policy", "seed", "file"))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    known = "; ".join(f"{name}: {value}" for name, value in manifest.provenance.items())
    where = f'<p class="facts">Run with {escape(known)}.</p>' if known else ""
    source = f"data:application/toml;base64,{base64.b64encode(manifest.source.encode()).decode()}"
    return f"""<section><h2>Provenance</h2>
<p>With maskedbandits {escape(manifest.version)} (digest of its code: <code>{escape(codes)}</code>), and the file below
as {escape(manifest.file)}:</p>
<pre>{escape(manifest.command)}</pre>
<p>The same numbers come out on any machine and any number of threads; the times differ. To draw this page
again from the saved results: <code>maskedbandits report</code> and this folder.</p>
{where}
<p><a download="{escape(Path(manifest.file).name)}" href="{source}">Download the experiment file</a></p>
<details><summary>{escape(manifest.file)}</summary><pre>{escape_html(safe_text.lines(manifest.source))}</pre></details>
<details><summary>Seed and file of each cell</summary>{scroll_html("Seed and file of each cell", table)}</details>
</section>"""


def summary_html(results: Results) -> str:
    """Return the summary, after the comparison with context if there is one."""
    text, pairs = escape(summary.summarize(results)), summary.pair_contexts(results.cells)
    if not pairs:
        return f'<p class="answer">{text}</p>'
    return f'<p class="answer">{escape(summary.summarize_context(pairs))}</p>\n<p class="facts">{text}</p>'


def page_html(results: Results, sections: Sequence[str], numbers: str, missing: int = 0) -> str:
    """Return the whole page, which may run only its own script and load nothing."""
    manifest = results.manifest
    unfinished = len(manifest.labels) - len(results.cells)
    warning = (
        f"<p><strong>{unfinished} of {len(manifest.labels)} cells are not finished.</strong></p>" if unfinished else ""
    )
    if missing:
        which = f"{missing:,} of {len(sections):,} problems"
        command = "maskedbandits report DIR --problem NAME"
        warning += f'<p class="facts">Without the figures of {which}: <code>{command}</code> draws those of one.</p>'
    script = read_asset("page.js")
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(manifest.title)}</title>
<style>{style_sheet()}</style>
<h1>{escape(manifest.title)}</h1>
<p class="run">{escape(summary.describe_run(results))}</p>
{summary_html(results)}
<p class="facts">Policies see randomised feedback alone; a smaller ε hides more. Lower regret is better.</p>
{warning}
{"".join(sections)}
{provenance_html(results)}
<script type="application/json" id="numbers">{numbers}</script>
<script>{script}</script>
</html>
"""
