"""`maskedbandits report`: figures, page and table of saved results, or one table for other tools."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from maskedbandits._util import extras, safe_text
from maskedbandits.cli.output import echo, echo_json, open_console, translate_drawing_errors
from maskedbandits.cli.verb import Failure, Verb, json_option
from maskedbandits.errors import UserError, suggest_nearest

if TYPE_CHECKING:
    from maskedbandits._util.curves import Band
    from maskedbandits.experiments.results import Results
    from maskedbandits.report import ReportFiles
    from maskedbandits.report.style import FigureOptions

BANDS: dict[str, Band | None] = {"ci": "ci", "quantile": "quantile", "std": "std", "none": None}


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits report results/paper",
        "maskedbandits report results/paper --csv --out paper.csv",
        "maskedbandits report results/paper --latex --out table.tex",
        'maskedbandits report results/sweep --problem "swap, seed=3"',
    ],
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--csv", "as_csv", is_flag=True, help="Write a CSV table instead, a row for each run and checkpoint.")
@click.option("--parquet", "as_parquet", is_flag=True, help="Write the same as Parquet. Requires pyarrow.")
@click.option("--latex", "as_latex", is_flag=True, help="Write the final regrets as a LaTeX table instead.")
@click.option("--out", type=click.Path(path_type=Path), show_default="standard output", help="File for that table.")
@click.option(
    "--band",
    type=click.Choice(["ci", "quantile", "std", "none"]),
    default="ci",
    show_default=True,
    help="What to shade around regret over time.",
)
@click.option("--log", "is_log", is_flag=True, help="Draw regret over time on a logarithmic scale of time.")
@click.option(
    "--width",
    type=click.Choice(["page", "column"]),
    default="page",
    show_default=True,
    help="Width of figures: a page, or a column of a paper.",
)
@click.option("--problem", "names", multiple=True, help="Print and draw this problem only. May be repeated.")
@json_option
def report(
    folder: Path,
    as_csv: bool,
    as_parquet: bool,
    as_latex: bool,
    out: Path | None,
    band: str,
    is_log: bool,
    width: str,
    names: tuple[str, ...],
    json_wanted: bool,
) -> None:
    """Rebuild the table, figures and page of a results folder.

    DIR is the folder that run wrote. With --csv, --parquet or --latex, only that table is written.
    """
    table_format = choose_format({"csv": as_csv, "parquet": as_parquet, "latex": as_latex})
    if table_format is None and out is not None:
        raise UserError("--out requires --csv, --parquet or --latex")
    if table_format is not None and json_wanted:
        raise UserError(f"--json and --{table_format} exclude each other: give one of them")
    if table_format is not None and (band, is_log, width) != ("ci", False, "page"):
        raise UserError(f"--band, --log and --width are for figures, and --{table_format} draws none: leave them out")
    if table_format is not None and names:
        raise UserError(f"--problem and --{table_format} exclude each other: give one of them")
    extras.require("report")
    from maskedbandits.experiments.results import load

    results = load(folder)
    if not results.cells:
        raise UserError(f"{folder}: no cell is finished yet; continue with: {results.manifest.command}")
    if table_format is None:
        check_problems(names, results)
        from maskedbandits.report.style import FigureOptions

        chosen = FigureOptions(BANDS[band], is_log=is_log, is_column=width == "column")
        show(results, folder, json_wanted, names, chosen)
    else:
        write_table(results, table_format, out)


def choose_format(given: Mapping[str, bool]) -> str | None:
    """Return the format of the table that is asked for, if one is."""
    formats = [name for name, wanted in given.items() if wanted]
    if len(formats) > 1:
        raise UserError(f"--{formats[0]} and --{formats[1]} exclude each other: give one of them")
    return formats[0] if formats else None


def check_problems(names: Sequence[str], results: Results) -> None:
    """Raise an error for problems that the results do not have."""
    known = dict.fromkeys(cell.label.problem for cell in results.cells)
    for name in names:
        if name not in known:
            raise UserError(f"--problem {name}: no such problem{suggest_nearest(name, known)}")


def write_table(results: Results, table_format: str, out: Path | None) -> None:
    """Write one table to a file, atomically, or to standard output."""
    from maskedbandits._util.files import write_whole

    write = choose_writer(results, table_format)
    if missing := describe_unfinished(results):
        click.echo(safe_text.format_line(f"maskedbandits: {missing}", sys.stderr), err=True)
    if out is not None:
        write_whole(out, write)
        return
    stream = sys.stdout.buffer  # UTF-8 in any terminal, because a table is data
    if table_format == "parquet" and stream.isatty():
        raise UserError("--parquet writes binary data, which a terminal cannot show: give --out FILE")
    write(stream)
    stream.flush()


def choose_writer(results: Results, table_format: str) -> Callable[[IO[bytes]], object]:
    """Return the function that writes a table of a format."""
    if table_format == "latex":
        from maskedbandits.report.tables import to_latex

        return lambda stream: stream.write(to_latex(results.cells).encode())
    from maskedbandits.experiments import dataframe

    if table_format == "parquet":
        extras.require("--parquet", extras.PARQUET, "parquet")
        return lambda stream: dataframe.write_parquet(results.cells, stream)
    return lambda stream: dataframe.write_csv(results.cells, stream)


def show(
    results: Results,
    folder: Path,
    json_wanted: bool,
    problems: Sequence[str] = (),
    options: FigureOptions | None = None,
) -> None:
    """Print the table or the JSON document, and write the figures and the page, of these problems or of all.

    The table comes first, because drawing may fail.
    """
    from maskedbandits.report import to_json

    if not json_wanted:
        print_tables(results, problems)
    try:
        report = draw_report(results, folder, problems, options)
    except Failure:
        if json_wanted:
            echo_json({**to_json(results), "page": None, "figures": []})
        raise
    if json_wanted:
        files = {"page": str(report.page), "figures": [str(path) for path in report.figures]}
        echo_json({**to_json(results), **files})
        return
    echo(f"Page:    {report.page}")
    if report.figures:
        echo(f"Figures: {folder / 'figures'} ({len(report.figures)} files: png, pdf and svg)")
    else:
        echo(f"Figures: none for so many cells; `maskedbandits report {folder} --problem NAME` draws a problem")


def print_tables(results: Results, wanted: Sequence[str]) -> None:
    """Print a table for each problem, or a summary if there are very many, and the number of unfinished cells."""
    from maskedbandits.report import build_table, group_by_problem, has_many_cells, summary, tables

    console = open_console()
    if has_many_cells(results.cells) and not wanted:
        echo(f"{summary.describe_run(results)} {summary.summarize(results)}")
        echo()
    else:
        for problem, groups in group_by_problem(results.cells):
            if not wanted or problem in wanted:
                console.print(build_table(problem, groups, console.width, console.encoding))
                if tables.fits_groups(groups[0]):
                    columns = tables.list_group_columns([cell for group in groups for cell in group])
                    console.print(build_table(problem, groups, console.width, console.encoding, columns))
                console.print()
    if pairs := summary.pair_contexts(results.cells):
        echo(summary.summarize_context(pairs))
    if missing := describe_unfinished(results):
        echo(missing)


def describe_unfinished(results: Results) -> str:
    """Return the number of unfinished cells and how to continue; an empty text if all are finished."""
    missing = len(results.manifest.labels) - len(results.cells)
    if not missing:
        return ""
    return (
        f"{missing} of {len(results.manifest.labels)} cells are not finished; continue with: {results.manifest.command}"
    )


def draw_report(results: Results, folder: Path, problems: Sequence[str], options: FigureOptions | None) -> ReportFiles:
    """Write figures and the page; an error says that the cells are not lost."""
    from maskedbandits.report import style, write_report

    if sys.stderr.isatty():
        click.echo("Drawing the figures and the page ...", err=True)  # it takes some seconds
    with translate_drawing_errors(f"the cells are saved in {folder}: `maskedbandits report {folder}` draws them again"):
        return write_report(results, folder, problems, options or style.USUAL)
