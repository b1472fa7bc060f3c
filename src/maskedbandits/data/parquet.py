"""Chosen columns of a Parquet file, row by row, as the texts that a CSV file would hold: so one check serves both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maskedbandits._util import extras
from maskedbandits.data.delimited import Picked, Tell, counted, opened
from maskedbandits.errors import UserError

MAGIC = b"PAR1"  # how such a file begins
ROWS = 1 << 14  # that are read at once


def is_one(file: Path) -> bool:
    """Tell whether a file is one, by its name or by how it begins; a pipe is not looked into."""
    if file.suffix.lower() == ".parquet":
        return True
    if not file.is_file():
        return False
    with opened(file) as stream:
        return stream.read(len(MAGIC)) == MAGIC


@contextmanager
def table(file: Path, tell: Tell) -> Iterator[tuple[list[str], Picked]]:
    """Yield the names of the columns, and what picks rows."""
    extras.need("a Parquet file", extras.PARQUET, extra="parquet")
    from pyarrow import parquet

    with opened(file) as stream:
        with _as_table(file):
            found = parquet.ParquetFile(stream)
            heading = [str(name) for name in found.schema_arrow.names]
        yield heading, lambda wanted: counted(_rows(file, found, wanted), tell)


def _rows(file: Path, found: Any, wanted: Sequence[str]) -> Iterator[list[str]]:
    with _as_table(file):
        for batch in found.iter_batches(ROWS, columns=list(wanted)):
            columns = [_values(batch.column(name), f"{file}: column {name!r}") for name in wanted]
            yield from ([_as_text(value) for value in row] for row in zip(*columns, strict=True))


def _values(column: Any, where: str) -> list[Any]:
    """Return the values of a column; Python's times have no nanoseconds, and end with the year 9999."""
    import pyarrow

    if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError) as error:
        raise UserError(f"{where} holds what Python cannot, such as a time beyond the calendar: drop it") from error


@contextmanager
def _as_table(file: Path) -> Iterator[None]:
    """Say in one line what cannot be read: another format, a damaged file."""
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
