"""A table of one's own, CSV or Parquet: a row for each round and a column for each arm, or a log of choices."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from maskedbandits import extras
from maskedbandits.data.delimited import Tell, heading_of, number_of, opened, place_of, rows, silent, time_of
from maskedbandits.data.tables import Ints, Log, Rounds, periods_of
from maskedbandits.errors import UserError, shown

PARQUET = ".parquet"
PARTS = 10  # periods of a table without dates
CALENDAR = (  # the periods of dates that range over more than this, and how they are labelled
    (timedelta(days=62), "a month", "%Y-%m"),
    (timedelta(days=2), "a day", "%Y-%m-%d"),
    (timedelta(), "an hour", "%Y-%m-%d %H:00"),
)

Row = tuple[int, list[str]]  # its number, and its fields
Periods = tuple[Ints, str, tuple[str, ...]]  # where they start, what they are, what they are called


def read_csv(
    path: str | os.PathLike[str],
    *,
    time: str | None = None,
    arm: str | None = None,
    reward: str | None = None,
    tell: Tell = silent,
) -> Rounds | Log:
    """Read a table of your own: all its columns are arms, or `arm` and `reward` name those of a log.

    `time` names a column of dates, times or numbers: rows are put in its order, and dates cut them into months, days or
    hours. Without dates, rows are cut into tenths. Outcomes are numbers in [0, 1]. A file whose name ends in .parquet
    is read with pyarrow.
    """
    file = Path(path)
    if (arm is None) != (reward is None):
        raise UserError(f"{file}: a log has a column of arms and one of rewards: name both, or neither")
    heading = _heading(file)
    named = [name for name in (arm, reward, time) if name is not None]
    if len({*named}) < len(named):
        raise UserError(f"{file}: time, arm and reward are columns of their own: name each once")
    for name in named or heading:
        place_of(name, heading, str(file))
    columns = named if arm is not None else [name for name in heading if name != time] + named
    found = list(_rows(file, columns, tell))
    order, periods = _ordered(found, time, file)
    if arm is not None:
        return _log(found, columns, file, order, periods)
    return _rounds(found, [name for name in columns if name != time], file, order, periods)


def _log(found: Sequence[Row], columns: Sequence[str], file: Path, order: Ints, periods: Periods) -> Log:
    """Return a row for each choice; the arms are sorted, numbers by their size."""
    names = sorted({fields[0] for _, fields in found}, key=_by_size)
    number = {name: place for place, name in enumerate(names)}
    chosen = np.array([number[fields[0]] for _, fields in found], dtype=np.int64)
    rewards = np.array([_share(fields[1], columns[1], file, row) for row, fields in found])
    with _named(file):
        return Log(tuple(names), chosen[order], rewards[order], *periods)


def _rounds(found: Sequence[Row], arms: Sequence[str], file: Path, order: Ints, periods: Periods) -> Rounds:
    """Return a row for each round; the time, if there is one, is the field after those of the arms."""
    outcomes = np.array(
        [[_share(fields[place], arm, file, row) for place, arm in enumerate(arms)] for row, fields in found]
    )
    with _named(file):
        return Rounds(tuple(arms), outcomes.reshape(len(found), len(arms))[order], *periods)


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Let a complaint about a table name its file."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


def _by_size(name: str) -> tuple[bool, int, str, str]:
    """Return what sorts arms: numbers by their size, and before all other names."""
    digits = name.lstrip("0") if name.isascii() and name.isdecimal() else ""
    return not (digits or name.strip("0") == ""), len(digits), digits, name


def _share(text: str, name: str, file: Path, row: int) -> float:
    """Return a number in [0, 1]."""
    value = number_of(text, name, str(file), row)
    if not 0.0 <= value <= 1.0:
        raise UserError(f"{file}: row {row}: {name} = {shown(text)}: give a number in [0, 1]")
    return value


# Order and periods


def _ordered(found: Sequence[Row], time: str | None, file: Path) -> tuple[Ints, Periods]:
    """Return the order of the rows in time, and their periods; the time is the last field of a row."""
    order, parts = np.arange(len(found)), _tenths(len(found))
    if time is None or not found:
        return order, parts
    if all(_is_number(fields[-1]) for _, fields in found):
        return np.argsort([float(fields[-1]) for _, fields in found], kind="stable"), parts
    times = [time_of(fields[-1], time, str(file), row) for row, fields in found]
    if len({moment.tzinfo is None for moment in times}) > 1:
        raise UserError(f"{file}: some times of column {time!r} have a time zone and some have none: give all the same")
    try:
        utc = [moment if moment.tzinfo is None else moment.astimezone(UTC) for moment in times]
    except OverflowError:
        raise UserError(f"{file}: column {time!r} holds a time at the end of the calendar: drop it") from None
    order = np.array(sorted(range(len(utc)), key=utc.__getitem__), dtype=np.int64)
    return order, _calendar([utc[place] for place in order])


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _tenths(count: int) -> Periods:
    """Cut rows into ten parts that are equally long, as nearly as can be."""
    parts = min(PARTS, count)
    starts = np.array([count * part // parts for part in range(parts)], dtype=np.int64)
    return starts, "a tenth", tuple(f"{part + 1} of {parts}" for part in range(parts))


def _calendar(times: Sequence[datetime]) -> Periods:
    """Cut times, which are in order, into months, days or hours."""
    span = times[-1] - times[0]
    period, label = next((period, label) for least, period, label in CALENDAR if span >= least)
    starts, labels = periods_of([moment.strftime(label) for moment in times])
    return starts, period, labels


# Files


def _heading(file: Path) -> list[str]:
    """Return the names of the columns."""
    if file.suffix == PARQUET:
        return [str(name) for name in _parquet(file).schema.names]
    with opened(file) as stream:
        return heading_of(stream, str(file))


def _rows(file: Path, columns: Sequence[str], tell: Tell) -> Iterator[Row]:
    """Yield the rows of a file of either format."""
    if file.suffix == PARQUET:
        table = _parquet(file).read(columns=list(columns))
        yield from enumerate(([_as_text(value) for value in row] for row in _transposed(table, columns)), 1)
        return
    with opened(file) as stream:
        yield from rows(stream, columns, str(file), tell)


def _parquet(file: Path) -> Any:
    """Return a Parquet file, opened."""
    extras.need("a Parquet file", ("pyarrow",), extra="parquet")
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(file)
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{file}: cannot be read: {error}") from error


def _transposed(table: Any, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(table.column(name).to_pylist() for name in columns), strict=True)


def _as_text(value: object) -> str:
    """Return a value as a CSV file would hold it."""
    return "" if value is None else str(int(value)) if isinstance(value, bool) else str(value)
