"""Chosen columns of a delimited text, row by row: with progress, and with complaints that name the row."""

from __future__ import annotations

import csv
import io
import lzma
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, TypeVar

from maskedbandits.errors import UserError, nearest, shown

Tell = Callable[[str], None]
Item = TypeVar("Item")
EVERY = 2.0  # seconds between two lines of progress
OTHERS = ";\t|"  # what some write between columns in place of commas
PACKED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip, or a spreadsheet", b"\xfd7zXZ": "xz", b"BZh": "bzip2"}


def silent(_: str) -> None:
    """Keep a line of progress to itself."""


def rows(
    stream: IO[bytes], wanted: Sequence[str], where: str, tell: Tell = silent, *, delimiter: str = ","
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each row and its wanted fields; the row under the heading is number 1.

    A text that is delimited by tabs has no quotes.
    """
    with table(stream, where, tell, delimiter=delimiter) as (_, picked):
        yield from picked(wanted)


Row = tuple[int, list[str]]  # its number, and its fields
Picked = Callable[[Sequence[str]], Iterator[Row]]  # the rows of a table, with these columns alone


@contextmanager
def table(
    stream: IO[bytes], where: str, tell: Tell = silent, *, delimiter: str = ","
) -> Iterator[tuple[list[str], Picked]]:
    """Yield the names of the columns, without blanks around them, and what picks rows; empty lines are left out."""
    text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
    try:
        reader = csv.reader(
            text, delimiter=delimiter, quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        )
        with _as_table(where):
            heading = [name.strip() for name in next(reader, [])]
        _check_heading(heading, where, delimiter)
        yield heading, lambda wanted: _picked(reader, heading, wanted, where, tell)
    finally:
        text.detach()  # else it would close the stream, which is somebody else's


def _check_heading(heading: Sequence[str], where: str, delimiter: str) -> None:
    if not heading:
        raise UserError(f"{where}: there is no heading: give the names of the columns in its first line")
    others = [sign for sign in OTHERS if sign in heading[0]]
    if len(heading) == 1 and delimiter == "," and others:
        raise UserError(f"{where}: its columns seem to be separated by {others[0]!r}: separate them by commas")


def _picked(
    reader: Iterator[list[str]], heading: Sequence[str], wanted: Sequence[str], where: str, tell: Tell
) -> Iterator[Row]:
    places = [place_of(name, heading, where) for name in wanted]
    with _as_table(where):
        for number, fields in counted(reader, tell):
            if len(fields) == len(heading):
                yield number, [fields[place] for place in places]
            elif fields:
                raise UserError(f"{where}: row {number} has {len(fields)} fields, the heading {len(heading)}")


def counted(items: Iterable[Item], tell: Tell) -> Iterator[tuple[int, Item]]:
    """Yield items with their numbers, from 1 on, and tell now and then how many there were."""
    said = time.monotonic()
    for number, item in enumerate(items, 1):
        yield number, item
        if number % 1000 == 0 and time.monotonic() - said > EVERY:
            said = time.monotonic()
            tell(f"{number:,} rows read ...")


def opened(file: Path) -> io.BufferedReader:
    """Return a user's file, opened."""
    try:
        return file.open("rb")
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from error


@contextmanager
def _as_table(where: str) -> Iterator[None]:
    """Say in one line what is no table: another format, another encoding, a file that is cut off."""
    try:
        yield
    except UnicodeDecodeError as error:
        found = next((what for start, what in PACKED.items() if error.object.startswith(start)), None)
        why = f"it is packed ({found}): unpack it" if found else "it is not UTF-8 text: save it as CSV, in UTF-8"
        raise UserError(f"{where}: cannot be read as a table: {why}") from error
    except (csv.Error, lzma.LZMAError, EOFError) as error:
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
        return float(text.replace("_", "?"))  # Python reads over those between digits
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
