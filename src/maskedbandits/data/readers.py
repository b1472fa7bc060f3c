"""Read tables, CSV or Parquet, column by column and row by row.

``read_csv`` reads a user's own file. The parsers of the named data sets share ``read_rows`` and the field parsers. All
errors are one line and name the file, and where there is one, the row and the column.
"""

from __future__ import annotations

import csv
import io
import lzma
import math
import os
import time as clock
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from maskedbandits._util import extras
from maskedbandits._validation import Ints
from maskedbandits.data.tables import Log, Rounds, find_periods
from maskedbandits.errors import UserError, WrongValueError, abbreviate, check_line, suggest_nearest

Progress = Callable[[str], None]  # receives a line for the user
Row = tuple[int, list[str]]  # its number and its fields
SelectColumns = Callable[[Sequence[str]], Iterator[Row]]  # returns the rows of a table with the named columns only
Periods = tuple[Ints, str, tuple[str, ...]]  # starts, kind, labels
Item = TypeVar("Item")

PROGRESS_INTERVAL_S = 2.0
OTHER_DELIMITERS = ";\t|"
PACKED_FORMATS = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip, or a spreadsheet", b"\xfd7zXZ": "xz", b"BZh": "bzip2"}
PARQUET_MAGIC = b"PAR1"
PARQUET_BATCH_ROWS = 1 << 14
TRUTH_VALUES = {"True": 1.0, "true": 1.0, "TRUE": 1.0, "False": 0.0, "false": 0.0, "FALSE": 0.0}
UNDATED_PERIODS = 10  # of a table without dates
CALENDAR = (  # the period and label of dates that range over at least this
    (timedelta(days=62), "a month", "%Y-%m"),
    (timedelta(days=2), "a day", "%Y-%m-%d"),
    (timedelta(), "an hour", "%Y-%m-%d %H:00"),
)


def read_csv(
    path: str | os.PathLike[str],
    *,
    time: str | None = None,
    arm: str | None = None,
    reward: str | None = None,
    progress: Progress | None = None,
) -> Rounds | Log:
    r"""Read your own table from a CSV or Parquet file.

    Without ``arm`` and ``reward`` every column is an arm, and every row holds the outcomes of one round. With them,
    every row of the table is one choice of a log. Outcomes are numbers in [0, 1], or true and false.

    Parameters
    ----------
    path
        The file. Parquet requires pyarrow.
    time
        The column of dates, times or numbers by which rows are sorted. Dates divide the rows into months, days or
        hours. Without dates, rows are divided into tenths.
    arm, reward
        The columns of a log: the arm that was chosen, and its reward.
    progress
        Called with a line of text every two seconds.

    Returns
    -------
    Rounds or Log
        A log if ``arm`` and ``reward`` are given.

    Raises
    ------
    UserError
        The file cannot be read, or does not hold such a table.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "clicks.csv"
    ...     _ = path.write_text("plain,question\n0,1\n1,1\n")
    ...     read_csv(path).arms
    ('plain', 'question')

    """
    file = Path(path)
    if (arm is None) != (reward is None):
        raise UserError(f"{file}: a log requires both arm and reward: name both columns, or neither")
    named = [name for name in (arm, reward, time) if name is not None]
    if len({*named}) < len(named):
        raise UserError(f"{file}: time, arm and reward must be different columns")
    with _open_table(file, progress or ignore_progress) as (heading, select):
        for name in named or heading:
            find_column(name, heading, str(file))
        if arm is not None:
            return _read_log(select(named), named, time, file)
        arms = [name for name in heading if name != time]
        if "" in arms:
            raise UserError(f"{file}: column {heading.index('') + 1} has no name: give it one, or leave it out")
        return _read_rounds(select([*arms, *named]), arms, time, file)


@contextmanager
def _open_table(file: Path, progress: Progress) -> Iterator[tuple[list[str], SelectColumns]]:
    """Open a file of either format, once, because it may be a pipe."""
    if is_parquet(file):
        with open_parquet(file, progress) as found:
            yield found
    else:
        with open_file(file) as stream, open_csv(stream, str(file), progress) as found:
            yield found


def _read_log(rows: Iterable[Row], columns: Sequence[str], time: str | None, file: Path) -> Log:
    """Return a row for each choice. Arms are sorted, those that are numbers by size."""
    chosen_names, rewards, times = [], array("d"), []
    for row, fields in rows:
        chosen_names.append(_parse_arm(fields[0], columns[0], file, row))
        rewards.append(_parse_share(fields[1], columns[1], file, row))
        times.append((row, fields[-1]))
    names = sorted({*chosen_names}, key=_sort_key)
    index = {name: arm for arm, name in enumerate(names)}
    chosen = np.array([index[name] for name in chosen_names], dtype=np.int64)
    order, periods = _sort_rows(times, time, file)
    with _prefix_errors(file):
        return Log(tuple(names), chosen[order], np.array(rewards)[order], *periods)


def _read_rounds(rows: Iterable[Row], arms: Sequence[str], time: str | None, file: Path) -> Rounds:
    """Return a row for each round. The time, if there is one, is the field after those of the arms."""
    outcomes, times = array("d"), []
    for row, fields in rows:
        outcomes.extend(_parse_share(text, arm, file, row) for text, arm in zip(fields, arms, strict=False))
        times.append((row, fields[-1]))
    order, periods = _sort_rows(times, time, file)
    with _prefix_errors(file):
        return Rounds(tuple(arms), np.array(outcomes).reshape(len(times), len(arms))[order], *periods)


@contextmanager
def _prefix_errors(file: Path) -> Iterator[None]:
    """Add the name of the file to errors about its table."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


# CSV


def read_rows(
    stream: IO[bytes], columns: Sequence[str], where: str, progress: Progress, *, delimiter: str = ","
) -> Iterator[Row]:
    """Yield the number of each row and the fields of the columns; the row after the heading is number 1.

    Text delimited by tabs has no quotes.
    """
    with open_csv(stream, where, progress, delimiter=delimiter) as (_, select):
        yield from select(columns)


@contextmanager
def open_csv(
    stream: IO[bytes], where: str, progress: Progress | None = None, *, delimiter: str = ","
) -> Iterator[tuple[list[str], SelectColumns]]:
    """Yield the stripped names of the columns, and a function that selects columns. Skip empty lines."""
    text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
    try:
        reader = csv.reader(
            text, delimiter=delimiter, quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        )
        with _translate_csv_errors(where):
            heading = [name.strip() for name in next(reader, [])]
        _check_heading(heading, where, delimiter)
        yield heading, lambda columns: _select(reader, heading, columns, where, progress or ignore_progress)
    finally:
        text.detach()  # otherwise it would close the caller's stream


def _check_heading(heading: Sequence[str], where: str, delimiter: str) -> None:
    if not heading:
        raise UserError(f"{where}: no heading: write the names of the columns in the first line")
    others = [sign for sign in OTHER_DELIMITERS if sign in heading[0]]
    if len(heading) == 1 and delimiter == "," and others:
        raise UserError(f"{where}: its columns seem to be separated by {others[0]!r}: separate them by commas")


def _select(
    reader: Iterator[list[str]], heading: Sequence[str], columns: Sequence[str], where: str, progress: Progress
) -> Iterator[Row]:
    indices = [find_column(name, heading, where) for name in columns]
    with _translate_csv_errors(where):
        for number, fields in number_rows(reader, progress):
            if len(fields) == len(heading):
                yield number, [fields[index] for index in indices]
            elif fields:
                raise UserError(f"{where}: row {number} has {len(fields)} fields, but the heading has {len(heading)}")


def number_rows(items: Iterable[Item], progress: Progress) -> Iterator[tuple[int, Item]]:
    """Yield items with their numbers, from 1, and report progress now and then."""
    reported = clock.monotonic()
    for number, item in enumerate(items, 1):
        yield number, item
        if number % 1000 == 0 and clock.monotonic() - reported > PROGRESS_INTERVAL_S:
            reported = clock.monotonic()
            progress(f"{number:,} rows read ...")


def ignore_progress(_: str) -> None:
    """Discard a line of progress."""


def open_file(file: Path) -> io.BufferedReader:
    """Open a user's file."""
    try:
        return file.open("rb")
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from error


@contextmanager
def _translate_csv_errors(where: str) -> Iterator[None]:
    """Describe another format, another encoding or a truncated file in one line."""
    try:
        yield
    except UnicodeDecodeError as error:
        packed = next((name for start, name in PACKED_FORMATS.items() if error.object.startswith(start)), None)
        why = f"compressed ({packed}): unpack it first" if packed else "not UTF-8: save it as CSV in UTF-8"
        raise UserError(f"{where}: cannot be read as a table: {why}") from error
    except (csv.Error, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{where}: cannot be read as a table: {error}") from error


def find_column(name: str, heading: Sequence[str], where: str) -> int:
    """Return the index of the column with this name."""
    if heading.count(name) == 1:
        return heading.index(name)
    if name in heading:
        raise UserError(f"{where}: two columns are called {name!r}: rename one")
    raise UserError(f"{where}: no column {name!r}{suggest_nearest(name, heading)}")


# Fields


def parse_number(text: str, name: str, where: str, row: int) -> float:
    """Return the number in a field."""
    try:
        return float(text.replace("_", "?"))  # Python ignores underscores between digits
    except ValueError:
        raise UserError(f"{where}: row {row}: {name} = {abbreviate(text)}: give a number") from None


def parse_count(text: str, name: str, where: str, row: int) -> int:
    """Return the whole number of at least 0 in a field."""
    count = parse_number(text, name, where, row)
    if not (count >= 0.0 and count.is_integer()):
        raise UserError(f"{where}: row {row}: {name} = {abbreviate(text)}: give a whole number of at least 0")
    return int(count)


def parse_time(text: str, name: str, where: str, row: int) -> datetime:
    """Return the ISO 8601 time in a field."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UserError(
            f"{where}: row {row}: {name} = {abbreviate(text)}: give a time such as 2019-11-24 08:30"
        ) from None


def _parse_arm(text: str, name: str, file: Path, row: int) -> str:
    """Return the stripped name of an arm."""
    try:
        return check_line(name, text.strip())
    except WrongValueError as error:
        raise UserError(f"{file}: row {row}: {error}") from None


def _parse_share(text: str, name: str, file: Path, row: int) -> float:
    """Return a number in [0, 1]; a truth value is 0 or 1."""
    if text in TRUTH_VALUES:
        return TRUTH_VALUES[text]
    value = parse_number(text, name, str(file), row)
    if not 0.0 <= value <= 1.0:
        raise UserError(f"{file}: row {row}: {name} = {abbreviate(text)}: give a number in [0, 1]")
    return value


def _sort_key(name: str) -> tuple[bool, int, str, str]:
    """Sort arms that are numbers by size, and before all other names."""
    digits = name.lstrip("0") if name.isascii() and name.isdecimal() else ""
    return not (digits or name.strip("0") == ""), len(digits), digits, name


# Order and periods


def _sort_rows(times: Sequence[tuple[int, str]], column: str | None, file: Path) -> tuple[Ints, Periods]:
    """Return the order of the rows in time and their periods, given the number and the time of each."""
    if not times:
        raise UserError(f"{file}: no rows below the heading: give at least one")
    tenths = _divide_evenly(len(times))
    if column is None:
        return np.arange(len(times)), tenths
    if all(_is_number(text) for _, text in times):
        exact = [Decimal(text.strip()) for _, text in times]  # nanoseconds since 1970 are too long for a float
        return _stable_order(exact), tenths
    parsed = [parse_time(text, column, str(file), row) for row, text in times]
    if len({moment.tzinfo is None for moment in parsed}) > 1:
        raise UserError(f"{file}: column {column!r} mixes times with and without a time zone: use one kind")
    try:
        utc = [moment if moment.tzinfo is None else moment.astimezone(UTC) for moment in parsed]
    except OverflowError:
        raise UserError(f"{file}: column {column!r} holds a time at the end of the calendar: drop it") from None
    order = _stable_order(utc)
    return order, _divide_by_calendar([utc[row] for row in order])


def _stable_order(keys: Sequence[Any]) -> Ints:
    """Return the order that sorts the keys; equal keys stay in place."""
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text.replace("_", "?")))
    except ValueError:
        return False


def _divide_evenly(count: int) -> Periods:
    """Divide rows into ten parts of almost equal length."""
    parts = min(UNDATED_PERIODS, count)
    starts = np.array([count * part // parts for part in range(parts)], dtype=np.int64)
    return starts, "a tenth", tuple(f"{part + 1} of {parts}" for part in range(parts))


def _divide_by_calendar(times: Sequence[datetime]) -> Periods:
    """Divide sorted times into months, days or hours."""
    span = times[-1] - times[0]
    period, label = next((period, label) for least, period, label in CALENDAR if span >= least)
    starts, labels = find_periods([moment.strftime(label) for moment in times])
    return starts, period, labels


# Parquet: values become the text that a CSV file would hold, so that the same checks apply.


def is_parquet(file: Path) -> bool:
    """Tell whether a file is Parquet by its name or its first bytes. Pipes are not read."""
    if file.suffix.lower() == ".parquet":
        return True
    if not file.is_file():
        return False
    with open_file(file) as stream:
        return stream.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


@contextmanager
def open_parquet(file: Path, progress: Progress) -> Iterator[tuple[list[str], SelectColumns]]:
    """Yield the names of the columns, and a function that selects columns."""
    extras.require("a Parquet file", extras.PARQUET, extra="parquet")
    from pyarrow import parquet

    with open_file(file) as stream:
        with _translate_parquet_errors(file):
            found = parquet.ParquetFile(stream)
            heading = [str(name) for name in found.schema_arrow.names]
        yield heading, lambda columns: number_rows(_select_parquet(file, found, columns), progress)


def _select_parquet(file: Path, found: Any, columns: Sequence[str]) -> Iterator[list[str]]:
    with _translate_parquet_errors(file):
        for batch in found.iter_batches(PARQUET_BATCH_ROWS, columns=list(columns)):
            values = [_column_values(batch.column(name), f"{file}: column {name!r}") for name in columns]
            yield from ([_as_text(value) for value in row] for row in zip(*values, strict=True))


def _column_values(column: Any, where: str) -> list[Any]:
    """Return the values of a column. Python's times have no nanoseconds, and end with the year 9999."""
    import pyarrow

    if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError) as error:
        raise UserError(
            f"{where} has a value that Python cannot represent, such as a time beyond the calendar: drop it"
        ) from error


@contextmanager
def _translate_parquet_errors(file: Path) -> Iterator[None]:
    """Describe another format or a damaged file in one line."""
    import pyarrow

    try:
        yield
    except (OSError, pyarrow.ArrowException) as error:
        why = " ".join(str(error).split())
        raise UserError(f"{file}: cannot be read as Parquet: {why}") from error


def _as_text(value: object) -> str:
    """Return a value as a CSV file would hold it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(int(value)) if isinstance(value, bool) else str(value)
