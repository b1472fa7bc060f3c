"""`maskedbandits report`: figures, page and table of results, drawn from what is saved, or one table to go on with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from maskedbandits import extras, readable
from maskedbandits.cli.output import console, echo, echo_json
from maskedbandits.cli.verb import Failure, Interrupted, Verb, as_json, reason
from maskedbandits.errors import UserError

if TYPE_CHECKING:
    from maskedbandits.experiments.results import Results
    from maskedbandits.report import Report


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits report results/paper",
        "maskedbandits report results/paper --csv --out paper.csv",
        "maskedbandits report results/paper --latex --out table.tex",
    ],
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--csv", "form", flag_value="csv", help="Write a row for each run and checkpoint instead, as CSV.")
@click.option("--parquet", "form", flag_value="parquet", help="The same as a Parquet file; needs pyarrow.")
@click.option("--latex", "form", flag_value="latex", help="Write the final regrets instead, as a LaTeX table.")
@click.option("--out", type=click.Path(path_type=Path), help="File for that table.  [default: standard output]")
@as_json
def report(folder: Path, form: str | None, out: Path | None, json_wanted: bool) -> None:
    """Draw the figures and the page of a results folder DIR again, and print its table.

    With --csv, --parquet or --latex nothing is drawn: that table is written, and nothing else.
    """
    if form is None and out is not None:
        raise UserError("--out is for a table: say which, with --csv, --parquet or --latex")
    if form is not None and json_wanted:
        raise UserError(f"--json and --{form} are two documents: ask for one of them")
    extras.need("report")
    from maskedbandits.experiments.results import load

    results = load(folder)
    if not results.cells:
        raise UserError(f"{folder}: no cell is finished yet; go on with: {results.plan.command}")
    if form is None:
        show(results, folder, json_wanted)
    else:
        write_table(results, form, out)


def write_table(results: Results, form: str, out: Path | None) -> None:
    """Write one table to a file, whole or not at all, or to standard output."""
    from maskedbandits.files import write_whole

    write = writer(results, form)
    if missing := unfinished(results):
        click.echo(readable.printed(f"maskedbandits: {missing}", sys.stderr), err=True)
    if out is not None:
        write_whole(out, write)
        return
    stream = sys.stdout.buffer  # UTF-8 whatever the terminal's encoding: a table is data
    if form == "parquet" and stream.isatty():
        raise UserError("--parquet is not for reading: name a file with --out FILE")
    write(stream)
    stream.flush()


def writer(results: Results, form: str) -> Callable[[IO[bytes]], object]:
    """Return what writes a table of some form."""
    if form == "latex":
        from maskedbandits.report.latex import as_latex

        return lambda stream: stream.write(as_latex(results.cells).encode())
    from maskedbandits.experiments import frame

    if form == "parquet":
        extras.need("--parquet", extras.PARQUET, "parquet")
        return lambda stream: frame.write_parquet(results.cells, stream)
    return lambda stream: frame.write_csv(results.cells, stream)


def show(results: Results, folder: Path, json_wanted: bool) -> None:
    """Print the table or the JSON document, and write the figures and the page.

    The table comes first: whatever keeps figures from being drawn does not keep anybody from the numbers.
    """
    from maskedbandits.report import as_json as as_document

    if not json_wanted:
        print_tables(results)
    try:
        written = drawn(results, folder)
    except Failure:
        if json_wanted:
            echo_json({**as_document(results), "page": None, "figures": []})
        raise
    if json_wanted:
        files = {"page": str(written.page), "figures": [str(path) for path in written.figures]}
        echo_json({**as_document(results), **files})
        return
    echo(f"Page:    {written.page}")
    echo(f"Figures: {folder / 'figures'} ({len(written.figures)} files: png, pdf and svg)")


def print_tables(results: Results) -> None:
    """Print a table for each problem, and what is missing."""
    from maskedbandits.report import as_table, problems

    out = console()
    for problem, groups in problems(results.cells):
        out.print(as_table(problem, groups, out.width, out.encoding))
        out.print()
    if missing := unfinished(results):
        echo(missing)


def unfinished(results: Results) -> str:
    """Return what is missing and how to go on, in a line; nothing where nothing is."""
    missing = len(results.plan.labels) - len(results.cells)
    if not missing:
        return ""
    return f"{missing} of {len(results.plan.labels)} cells are not finished; go on with: {results.plan.command}"


def drawn(results: Results, folder: Path) -> Report:
    """Write the figures and the page; where that fails, say that nothing else is lost."""
    from maskedbandits.report import write

    if sys.stderr.isatty():
        click.echo("Drawing the figures and the page ...", err=True)  # which takes some seconds
    with drawing(f"the cells are kept in {folder}: `maskedbandits report {folder}` draws them again"):
        return write(results, folder)


@contextmanager
def drawing(kept: str) -> Iterator[None]:
    """Turn whatever keeps figures from being drawn or written into one line, which ends with what is not lost."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted while drawing; {kept}") from None
    except OSError as error:
        raise Failure(f"{reason(error)}; {kept}") from error
    except (RuntimeError, ValueError) as error:  # what matplotlib raises for a font that it cannot find or read
        complaint = " ".join(str(error).split()) or type(error).__name__
        raise Failure(f"figures cannot be drawn: {complaint}; {kept}") from error
