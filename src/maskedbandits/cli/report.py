"""`maskedbandits report`: figures, page and table of results, drawn from what is saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from maskedbandits import extras
from maskedbandits.cli.output import console, echo, echo_json
from maskedbandits.cli.verb import Failure, Interrupted, Verb, as_json, reason
from maskedbandits.errors import UserError

if TYPE_CHECKING:
    from maskedbandits.experiments.results import Results
    from maskedbandits.report import Report


@click.command(cls=Verb, examples=["maskedbandits report results/paper"])
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@as_json
def report(folder: Path, json_wanted: bool) -> None:
    """Draw the figures and the page of a results folder DIR again, and print its table."""
    extras.need("report")
    from maskedbandits.experiments.results import load

    results = load(folder)
    if not results.cells:
        raise UserError(f"{folder}: no cell is finished yet; go on with: {results.plan.command}")
    show(results, folder, json_wanted)


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
    echo(f"Figures: {folder / 'figures'} ({len(written.figures)} files, png and pdf)")


def print_tables(results: Results) -> None:
    """Print a table for each problem, and what is missing."""
    from maskedbandits.report import as_table, problems

    out = console()
    for problem, groups in problems(results.cells):
        out.print(as_table(problem, groups, out.width, out.encoding))
        out.print()
    missing = len(results.plan.labels) - len(results.cells)
    if missing:
        unfinished = f"{missing} of {len(results.plan.labels)} cells are not finished"
        echo(f"{unfinished}; go on with: {results.plan.command}")


def drawn(results: Results, folder: Path) -> Report:
    """Write the figures and the page; where that fails, say that nothing else is lost."""
    from maskedbandits.report import write

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
