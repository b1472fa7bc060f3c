"""Chosen columns of a delimited text, row by row: with progress, and with complaints that name the row."""

from __future__ import annotations

import codecs
import csv
import io
import lzma
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from maskedbandits.errors import UserError, nearest, shown

Tell = Callable[[str], None]
EVERY = 2.0  # seconds between two lines of progress


def silent(_: str) -> None:
    """Keep a line of progress to itself."""


def rows(
    stream: IO[bytes], wanted: Sequence[str], where: str, tell: Tell = silent, *, delimiter: str = ","
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each row and its wanted fields; the row under the heading is number 1.

    A text that is delimited by tabs has no quotes.
    """
    said = time.monotonic()
    with _as_table(where):
        reader = _reader(stream, delimiter)
        heading = next(reader, [])
        places = [place_of(name, heading, where) for name in wanted]
        for number, fields in enumerate(reader, 1):
            if len(fields) != len(heading):
                raise UserError(f"{where}: row {number} has {len(fields)} fields, the heading {len(heading)}")
            yield number, [fields[place] for place in places]
            if number % 1000 == 0 and time.monotonic() - said > EVERY:
                said = time.monotonic()
                tell(f"{number:,} rows read ...")


def opened(file: Path) -> io.BufferedReader:
    """Return a user's file, opened."""
    try:
        return file.open("rb")
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from error


def heading_of(stream: IO[bytes], where: str) -> list[str]:
    """Return the names of the columns."""
    with _as_table(where):
        return next(_reader(stream, ","), [])


def _reader(stream: IO[bytes], delimiter: str) -> Iterator[list[str]]:
    text = codecs.iterdecode(stream, "utf-8-sig")  # a wrapper of the stream would close it
    return csv.reader(text, delimiter=delimiter, quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL)


@contextmanager
def _as_table(where: str) -> Iterator[None]:
    """Say in one line what is no table: another format, another encoding, a file that is cut off."""
    try:
        yield
    except (csv.Error, UnicodeDecodeError, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{where}: cannot be read as a table: {error}") from error


def place_of(name: str, heading: Sequence[str], where: str) -> int:
    """Return which column has this name."""
    if heading.count(name) == 1:
        return heading.index(name)
    if name in heading:
        raise UserError(f"{where}: column {name!r} is there twice: rename one")
    raise UserError(f"{where}: there is no column {name!r}{nearest(name, heading)}")


def number_of(text: str, name: str, where: str, row: int) -> float:
    """Return the number that a field holds."""
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{where}: row {row}: {name} = {shown(text)}: give a number") from None


def count_of(text: str, name: str, where: str, row: int) -> int:
    """Return the whole number of at least 0 that a field holds."""
    count = number_of(text, name, where, row)
    if not (count >= 0.0 and count.is_integer()):
        raise UserError(f"{where}: row {row}: {name} = {shown(text)}: give a whole number of at least 0")
    return int(count)


def time_of(text: str, name: str, where: str, row: int) -> datetime:
    """Return the time that a field holds, in the manner of ISO 8601."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{where}: row {row}: {name} = {shown(text)}: give a time such as 2019-11-24 08:30") from None
