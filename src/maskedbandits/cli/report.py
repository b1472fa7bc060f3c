"""`maskedbandits report`: figures, page and table of results, drawn from what is saved, or one table to go on with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from maskedbandits._util import extras, safe_text
from maskedbandits.cli.output import console, echo, echo_json
from maskedbandits.cli.verb import Failure, Interrupted, Verb, as_json, reason
from maskedbandits.errors import UserError, nearest

if TYPE_CHECKING:
    from maskedbandits.experiments.results import Results
    from maskedbandits.report import Report


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
@click.option("--csv", "as_csv", is_flag=True, help="Write a row for each run and checkpoint instead, as CSV.")
@click.option("--parquet", "as_parquet", is_flag=True, help="The same as a Parquet file; needs pyarrow.")
@click.option("--latex", "as_latex", is_flag=True, help="Write the final regrets instead, as a LaTeX table.")
@click.option("--out", type=click.Path(path_type=Path), help="File for that table.  [default: standard output]")
@click.option("--problem", "names", multiple=True, help="Print and draw this problem; may be given several times.")
@as_json
def report(
    folder: Path,
    as_csv: bool,
    as_parquet: bool,
    as_latex: bool,
    out: Path | None,
    names: tuple[str, ...],
    json_wanted: bool,
) -> None:
    """Draw the figures and the page of a results folder DIR again, and print its table.

    With --csv, --parquet or --latex nothing is drawn: that table is written, and nothing else.
    """
    form = form_of({"csv": as_csv, "parquet": as_parquet, "latex": as_latex})
    if form is None and out is not None:
        raise UserError("--out is for a table: say which, with --csv, --parquet or --latex")
    if form is not None and json_wanted:
        raise UserError(f"--json and --{form} are two documents: ask for one of them")
    if form is not None and names:
        raise UserError(f"--problem is for what is drawn, and --{form} draws nothing: leave one of them out")
    extras.need("report")
    from maskedbandits.experiments.results import load

    results = load(folder)
    if not results.cells:
        raise UserError(f"{folder}: no cell is finished yet; go on with: {results.plan.command}")
    if form is None:
        refuse_unknown(names, results)
        show(results, folder, json_wanted, names)
    else:
        write_table(results, form, out)


def form_of(given: Mapping[str, bool]) -> str | None:
    """Return which table is asked for, if one is."""
    forms = [form for form, wanted in given.items() if wanted]
    if len(forms) > 1:
        raise UserError(f"--{forms[0]} and --{forms[1]} are two tables: ask for one of them")
    return forms[0] if forms else None


def refuse_unknown(names: Sequence[str], results: Results) -> None:
    """Refuse problems that the results do not have."""
    known = dict.fromkeys(cell.label.problem for cell in results.cells)
    for name in names:
        if name not in known:
            raise UserError(f"--problem {name}: there is none of this name{nearest(name, known)}")


def write_table(results: Results, form: str, out: Path | None) -> None:
    """Write one table to a file, whole or not at all, or to standard output."""
    from maskedbandits._util.files import write_whole

    write = writer(results, form)
    if missing := unfinished(results):
        click.echo(safe_text.printed(f"maskedbandits: {missing}", sys.stderr), err=True)
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
    from maskedbandits.experiments import dataframe

    if form == "parquet":
        extras.need("--parquet", extras.PARQUET, "parquet")
        return lambda stream: dataframe.write_parquet(results.cells, stream)
    return lambda stream: dataframe.write_csv(results.cells, stream)


def show(results: Results, folder: Path, json_wanted: bool, problems: Sequence[str] = ()) -> None:
    """Print the table or the JSON document, and write the figures and the page; of these problems, or of all.

    The table comes first: whatever keeps figures from being drawn does not keep anybody from the numbers.
    """
    from maskedbandits.report import as_json as as_document

    if not json_wanted:
        print_tables(results, problems)
    try:
        written = drawn(results, folder, problems)
    except Failure:
        if json_wanted:
            echo_json({**as_document(results), "page": None, "figures": []})
        raise
    if json_wanted:
        files = {"page": str(written.page), "figures": [str(path) for path in written.figures]}
        echo_json({**as_document(results), **files})
        return
    echo(f"Page:    {written.page}")
    if written.figures:
        echo(f"Figures: {folder / 'figures'} ({len(written.figures)} files: png, pdf and svg)")
    else:
        echo(f"Figures: none, of so many; `maskedbandits report {folder} --problem NAME` draws those of a problem")


def print_tables(results: Results, wanted: Sequence[str]) -> None:
    """Print a table for each problem, or what came out in words if there are very many, and what is missing."""
    from maskedbandits.report import are_many, as_table, problems, summary
    from maskedbandits.report.plots import context, regret_by_group

    out = console()
    if are_many(results.cells) and not wanted:
        echo(f"{summary.what_was_run(results)} {summary.overall(results)}")
        echo()
    else:
        for problem, groups in problems(results.cells):
            if not wanted or problem in wanted:
                out.print(as_table(problem, groups, out.width, out.encoding))
                if regret_by_group.are_few(groups[0]):
                    columns = regret_by_group.columns([cell for group in groups for cell in group])
                    out.print(as_table(problem, groups, out.width, out.encoding, columns))
                out.print()
    if compared := context.pairs(results.cells):
        echo(context.sentence(compared))
    if missing := unfinished(results):
        echo(missing)


def unfinished(results: Results) -> str:
    """Return what is missing and how to go on, in a line; nothing where nothing is."""
    missing = len(results.plan.labels) - len(results.cells)
    if not missing:
        return ""
    return f"{missing} of {len(results.plan.labels)} cells are not finished; go on with: {results.plan.command}"


def drawn(results: Results, folder: Path, problems: Sequence[str]) -> Report:
    """Write figures and the page; where that fails, say that nothing else is lost."""
    from maskedbandits.report import write

    if sys.stderr.isatty():
        click.echo("Drawing the figures and the page ...", err=True)  # which takes some seconds
    with drawing(f"the cells are kept in {folder}: `maskedbandits report {folder}` draws them again"):
        return write(results, folder, problems)


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
