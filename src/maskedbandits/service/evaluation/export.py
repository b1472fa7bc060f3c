"""A log as a file, for other tools and for `evaluate`: a row for each event, without ids of decisions.

seq          number of the event in its experiment, from 1 on
hour         time of the event, in whole hours since 1970 (UTC)
kind         report, create, arm, payload, retire, config or status; base in the first row of a log whose first
             events were removed: the settings and arms after event seq, and the hash of the log up to it
arm          index of the arm
name         name of the arm
bit          the masked report
epsilon      of the mask
probability  of the arm at the decision; an exact multiple of 1/65,536
flags        the sum of 1 (shown for the arm's floor), 2 (held out), 4 (eligible arms were given), 16 (held back)
detail       the change that an event other than a report made, as JSON without payloads
config       version of the configuration at the decision, modulo 65,536
question     in experiments with groups: the arm and, if there are signs, the sign of each group, as JSON; bit is the
             answer then, and neither arm nor probability is known
"""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from maskedbandits._util import extras
from maskedbandits._util.files import write_whole
from maskedbandits.contextual import Contextual
from maskedbandits.contextual.hierarchy import Grouping
from maskedbandits.data.readers import open_csv, open_file
from maskedbandits.errors import UserError, check_int
from maskedbandits.service.arm_selection import WHOLE
from maskedbandits.service.config import DAMAGE
from maskedbandits.service.evaluation.log import BASE_EVENT
from maskedbandits.service.event_columns import Ints
from maskedbandits.service.group_queries import has_signs, pack_question, unpack_questions
from maskedbandits.service.log_hash import format_detail
from maskedbandits.service.schemas import MILLION
from maskedbandits.service.state import build_policy
from maskedbandits.service.storage.models import EventRow


class ExportColumn(NamedTuple):
    """A column of a file."""

    type: str = "int64"  # of Arrow
    parts: int = 1  # of one, that the stored integer counts
    is_required: bool = False  # every row has a value
    is_original: bool = True  # files of the first release have it


# All columns, in the order of the file. Those that are not computed below are columns of ``EventRow``.
COLUMNS = {
    "seq": ExportColumn(is_required=True),
    "hour": ExportColumn(is_required=True),
    "kind": ExportColumn("string", is_required=True),
    "arm": ExportColumn(),
    "name": ExportColumn("string"),
    "bit": ExportColumn(),
    "epsilon": ExportColumn("float64", MILLION),
    "probability": ExportColumn("float64", WHOLE),
    "flags": ExportColumn(),
    "detail": ExportColumn("string"),
    "config": ExportColumn(is_original=False),
    "question": ExportColumn("string", is_original=False),
}
READ_COLUMNS = [name for name in COLUMNS if name in EventRow._fields and name != "question"]
FORMATS = (".csv", ".jsonl", ".parquet")
ROWS_PER_GROUP = 10_000  # of a Parquet file
EXPECTED = "give a file written by maskedbandits export"
MAX_FIELD_CHARS = 1 << 27  # a detail names all arms

ExportRow = dict[str, Any]


def get_format(file: Path) -> str:
    """Return the format that the name of a file says."""
    if file.suffix not in FORMATS:
        raise UserError(f"{file}: unknown format: use a name that ends in .csv, .jsonl or .parquet")
    if file.suffix == ".parquet":
        extras.require("a Parquet file", extras.PARQUET, "parquet")
    return file.suffix


def export(events: Iterable[EventRow], file: Path) -> None:
    """Write events to a file that its owner alone can read, completely or not at all."""
    write = {".csv": _write_csv, ".jsonl": _write_jsonl, ".parquet": _write_parquet}[get_format(file)]
    write_whole(file, lambda stream: write(to_rows(events), stream), private=True)


def to_rows(events: Iterable[EventRow]) -> Iterator[ExportRow]:
    """Yield events as rows, with the names of arms."""
    names: list[str] = []
    grouping: Grouping | None = None
    for event in events:
        try:
            detail = json.loads(event.detail) if event.detail else {}
            if event.kind in ("create", BASE_EVENT):
                names = [arm["name"] for arm in detail["arms"]]
                grouping = build_grouping(detail["config"], len(names))
            elif event.kind == "arm":
                names.append(detail["name"])
        except DAMAGE:
            raise UserError(f"event {event.seq} is damaged: restore a backup") from None
        computed = {
            "name": None if event.arm is None else names[event.arm],
            "detail": format_detail(event.kind, detail),
            "question": None if event.question is None else _format_question(event.question, grouping),
        }
        yield {
            name: computed[name] if name in computed else _divide(getattr(event, name), column.parts)
            for name, column in COLUMNS.items()
        }


def _divide(value: Any, parts: int) -> Any:
    return value if value is None or parts == 1 else value / parts


def build_grouping(config: dict[str, Any], arms: int) -> Grouping | None:
    """Return the grouping of an experiment; None without groups."""
    policy = build_policy(config, arms) if config.get("groups") else None
    return policy.grouping if isinstance(policy, Contextual) else None


def _format_question(question: bytes, grouping: Grouping | None) -> str:
    """Return a question in JSON, with the indexes of arms."""
    if grouping is None:
        raise UserError("the log has a question, but its experiment has no groups: restore a backup")
    levels, tables, signs = unpack_questions([question], grouping.sizes)
    part = grouping.parts[levels[0]]
    document: dict[str, Any] = {"level": int(levels[0]), "arms": tables[0][part].tolist()}
    if has_signs(question):
        document["signs"] = signs[0][part].tolist()
    return json.dumps(document)


def _write_csv(rows: Iterator[ExportRow], stream: IO[bytes]) -> None:
    text = io.TextIOWrapper(stream, "utf-8", newline="")
    writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    text.detach()


def _write_jsonl(rows: Iterator[ExportRow], stream: IO[bytes]) -> None:
    for row in rows:
        values = {name: value for name, value in row.items() if value is not None}
        stream.write((json.dumps(values, ensure_ascii=False) + "\n").encode())


def _write_parquet(rows: Iterator[ExportRow], stream: IO[bytes]) -> None:
    arrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    schema = arrow.schema([(name, getattr(arrow, column.type)()) for name, column in COLUMNS.items()])
    with parquet.ParquetWriter(stream, schema) as writer:
        while group := list(islice(rows, ROWS_PER_GROUP)):
            writer.write_table(arrow.Table.from_pylist(group, schema))


def read_export(file: Path, *, is_exact: bool = False) -> Iterator[EventRow]:
    """Read the events of a file that ``export`` has written.

    Parameters
    ----------
    file
        A file whose name ends in .csv, .jsonl or .parquet.
    is_exact
        Whether to read questions to groups, and to check the names of arms. Evaluation does not need them.

    Yields
    ------
    EventRow
        The events in order.

    Raises
    ------
    UserError
        If the file cannot be read, or has a row that is not an event.

    """
    read: Callable[[Path], Iterator[Mapping[str, Any]]]
    read = {".csv": _read_csv, ".jsonl": _read_jsonl, ".parquet": _read_parquet}[get_format(file)]
    copy = _ExactReader()
    for number, row in enumerate(read(file), 1):
        try:
            event = _read_event(row)
            yield copy.read(event, row) if is_exact else event
        except DAMAGE:
            raise UserError(f"{file}: row {number} is not an event: {EXPECTED}") from None


class _ExactReader:
    """Reads everything in a row that the log has: questions, and the names of arms, which must be those of the log."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._grouping: Grouping | None = None

    def read(self, event: EventRow, row: Mapping[str, Any]) -> EventRow:
        """Return an event with its question."""
        detail = json.loads(event.detail or "{}")
        if event.kind in ("create", BASE_EVENT):
            self._names = [arm["name"] for arm in detail["arms"]]
            self._grouping = build_grouping(detail["config"], len(self._names))
        elif event.kind == "arm":
            self._names.append(detail["name"])
        name = row.get("name")
        if (None if _is_blank(name) else name) != (None if event.arm is None else self._names[event.arm]):
            raise ValueError("another name")
        if _is_blank(row.get("question")):
            return event
        return event._replace(question=_pack_question(row["question"], self._grouping))


def _read_event(row: Mapping[str, Any]) -> EventRow:
    return EventRow(**{name: _read_value(name, COLUMNS[name], row) for name in READ_COLUMNS}, expires=None)


def _pack_question(text: str, grouping: Grouping | None) -> bytes:
    """Return the bytes of a question in the log."""
    if grouping is None:
        raise ValueError("its experiment has no groups")
    question = json.loads(text)
    level = check_int("level", question["level"], 0, len(grouping.sizes) - 1)

    def by_part(values: list[int]) -> Ints:
        found = np.zeros(grouping.sizes[level], dtype=np.int64)
        found[grouping.parts[level]] = values
        return found

    return pack_question(level, by_part(question["arms"]), by_part(question["signs"]) if "signs" in question else None)


def _read_value(name: str, column: ExportColumn, row: Mapping[str, Any]) -> Any:
    """Return the stored value of a column."""
    value = row[name] if column.is_required else row.get(name)
    if _is_blank(value) and not column.is_required:
        return None
    if column.type == "string":
        return str(value) if column.is_required else value
    return _count_parts(value, column.parts) if column.parts > 1 else _read_int(name, value)


def _is_blank(value: Any) -> bool:
    return value in (None, "") or value != value  # NaN: a missing value of a data frame


def _read_int(name: str, value: Any) -> int:
    """Return a whole number; refuse any other, which would be rounded."""
    return check_int(name, int(value) if isinstance(value, str) else value, 0)


def _count_parts(value: Any, parts: int) -> int:
    """Return a number as a whole number of parts; refuse any other."""
    found = round(float(value) * parts)
    if found / parts != float(value):
        raise ValueError("not a whole number of parts")
    return found


def _read_csv(file: Path) -> Iterator[Mapping[str, Any]]:
    usual = csv.field_size_limit(MAX_FIELD_CHARS)
    try:
        with open_file(file) as stream, open_csv(stream, str(file)) as (heading, picked):
            columns = [name for name, column in COLUMNS.items() if column.is_original or name in heading]
            for _, fields in picked(columns):
                yield dict(zip(columns, fields, strict=True))
    finally:
        csv.field_size_limit(usual)


def _read_jsonl(file: Path) -> Iterator[Mapping[str, Any]]:
    with open_file(file) as stream:
        for number, line in enumerate(stream, 1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):  # not UTF-8, not JSON, or nested too deeply
                row = None
            if not isinstance(row, dict):
                raise UserError(f"{file}: line {number} is not a JSON object: {EXPECTED}")
            yield row


def _read_parquet(file: Path) -> Iterator[Mapping[str, Any]]:
    arrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    try:
        with parquet.ParquetFile(file) as stored:
            for group in stored.iter_batches(ROWS_PER_GROUP):
                yield from group.to_pylist()
    except (OSError, arrow.ArrowException) as error:
        raise UserError(f"{file}: cannot be read: {str(error).splitlines()[0]}") from error
