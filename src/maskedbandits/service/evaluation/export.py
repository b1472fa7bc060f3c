"""A log as a file, for other tools and for `evaluate`: a row for each event, and nothing that names a decision.

seq          number of the event in its experiment, from 1 on
hour         when it was written down, in whole hours since 1970 (UTC)
kind         report, create, arm, retire, config or status
arm          place of the arm
name         name of the arm
bit          the report, masked
epsilon      with which it was masked
probability  of the arm, when it was chosen; a whole number of 65,536ths, so nothing is rounded
flags        the sum of 1 (shown for the arm's floor), 2 (held out), 4 (eligible arms were given), 16 (held back)
detail       of what is no report: what was changed, as JSON, without payloads
config       under which version of its configuration it was decided, modulo 65,536
question     where there are groups: the arm of each, and its sign, if there are signs, as JSON; bit is the answer then,
             and neither arm nor probability is known
"""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any

from maskedbandits._util import extras
from maskedbandits._util.files import write_whole
from maskedbandits.contextual import Contextual
from maskedbandits.contextual.hierarchy import Grouping
from maskedbandits.data.delimited import opened, table
from maskedbandits.errors import UserError, check_int
from maskedbandits.service.arm_selection import WHOLE
from maskedbandits.service.config import DAMAGE
from maskedbandits.service.group_queries import has_signs, unpacked
from maskedbandits.service.schemas import MILLION
from maskedbandits.service.state import made
from maskedbandits.service.storage.models import EventRow

COLUMNS = ("seq", "hour", "kind", "arm", "name", "bit", "epsilon", "probability", "flags", "detail")
ADDED = ("config", "question")  # which files of earlier releases have not
TEXTS = ("kind", "name", "detail", "question")
SHARES = ("epsilon", "probability")
FORMATS = (".csv", ".jsonl", ".parquet")
AT_ONCE = 10_000  # rows of a group in a Parquet file
EXPECTED = "give a file that maskedbandits export has made"
LONGEST = 1 << 27  # letters of a detail: it names all arms

Row = dict[str, Any]


def format_of(file: Path) -> str:
    """Return in which format a file is, by its name."""
    if file.suffix not in FORMATS:
        raise UserError(f"{file}: its name must say the format: end it in .csv, .jsonl or .parquet")
    if file.suffix == ".parquet":
        extras.need("a Parquet file", extras.PARQUET, "parquet")
    return file.suffix


def export(events: Iterable[EventRow], file: Path) -> None:
    """Write events to a file that only its owner can read, whole or not at all."""
    write = {".csv": _write_csv, ".jsonl": _write_jsonl, ".parquet": _write_parquet}[format_of(file)]
    write_whole(file, lambda stream: write(as_rows(events), stream), private=True)


def as_rows(events: Iterable[EventRow]) -> Iterator[Row]:
    """Yield events as rows, arms by their names."""
    names: list[str] = []
    grouping: Grouping | None = None
    for event in events:
        try:
            told = json.loads(event.detail) if event.detail else {}
            if event.kind == "create":
                names = [arm["name"] for arm in told["arms"]]
                grouping = _grouping(told["config"], len(names))
                told["arms"] = [{"name": name} for name in names]
            elif event.kind == "arm":
                names.append(told["name"])
            told.pop("payload", None)
        except DAMAGE:
            raise UserError(
                f"event {event.seq} is damaged, and does not say what it changes: restore a backup"
            ) from None
        yield {
            "seq": event.seq,
            "hour": event.hour,
            "kind": event.kind,
            "arm": event.arm,
            "name": None if event.arm is None else names[event.arm],
            "bit": event.bit,
            "epsilon": None if event.epsilon is None else event.epsilon / MILLION,
            "probability": None if event.probability is None else event.probability / WHOLE,
            "flags": event.flags,
            "detail": json.dumps(told, ensure_ascii=False) if told else None,
            "config": event.config,
            "question": None if event.question is None else _told(event.question, grouping),
        }


def _grouping(config: dict[str, Any], arms: int) -> Grouping | None:
    """Return how an experiment asks; None if it has no groups."""
    policy = made(config, arms) if config.get("groups") else None
    return policy.grouping if isinstance(policy, Contextual) else None


def _told(question: bytes, grouping: Grouping | None) -> str:
    """Return a question in JSON; arms are told by their places."""
    if grouping is None:
        raise UserError("the log has a question, and its experiment no groups: restore a backup")
    grains, tables, signs = unpacked([question], grouping.sizes)
    part = grouping.parts[grains[0]]
    asked: dict[str, Any] = {"grain": int(grains[0]), "arms": tables[0][part].tolist()}
    if has_signs(question):
        asked["signs"] = signs[0][part].tolist()
    return json.dumps(asked)


def _write_csv(rows: Iterator[Row], stream: IO[bytes]) -> None:
    text = io.TextIOWrapper(stream, "utf-8", newline="")
    writer = csv.DictWriter(text, (*COLUMNS, *ADDED), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    text.detach()


def _write_jsonl(rows: Iterator[Row], stream: IO[bytes]) -> None:
    for row in rows:
        told = {name: value for name, value in row.items() if value is not None}
        stream.write((json.dumps(told, ensure_ascii=False) + "\n").encode())


def _write_parquet(rows: Iterator[Row], stream: IO[bytes]) -> None:
    arrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    kinds = {name: arrow.string() for name in TEXTS} | {name: arrow.float64() for name in SHARES}
    schema = arrow.schema([(name, kinds.get(name, arrow.int64())) for name in (*COLUMNS, *ADDED)])
    with parquet.ParquetWriter(stream, schema) as writer:
        while group := list(islice(rows, AT_ONCE)):
            writer.write_table(arrow.Table.from_pylist(group, schema))


def exported(file: Path) -> Iterator[EventRow]:
    """Yield the events of a file; of questions nothing is read, as whoever judges by a log needs its arms."""
    read: Callable[[Path], Iterator[Mapping[str, Any]]]
    read = {".csv": _read_csv, ".jsonl": _read_jsonl, ".parquet": _read_parquet}[format_of(file)]
    for number, row in enumerate(read(file), 1):
        try:
            yield _event(row)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise UserError(f"{file}: row {number} is no event: {EXPECTED}") from None


def _event(row: Mapping[str, Any]) -> EventRow:
    """Return the event of a row."""
    arm, bit, flags = (_whole(name, row.get(name)) for name in ("arm", "bit", "flags"))
    epsilon, probability = _parts(row.get("epsilon"), MILLION), _parts(row.get("probability"), WHOLE)
    seq, hour, detail = _number("seq", row["seq"]), _number("hour", row["hour"]), row.get("detail") or None
    config = _whole("config", row.get("config"))
    return EventRow(seq, str(row["kind"]), arm, bit, epsilon, probability, flags, None, hour, detail, config)


def _is_blank(value: Any) -> bool:
    return value in (None, "") or value != value  # a frame's NaN, where a row has nothing


def _whole(name: str, value: Any) -> int | None:
    return None if _is_blank(value) else _number(name, value)


def _number(name: str, value: Any) -> int:
    """Return a whole number; refuse any other, which would be cut."""
    return check_int(name, int(value) if isinstance(value, str) else value, 0)


def _parts(value: Any, parts: int) -> int | None:
    """Return a number as a whole number of parts; refuse one that is none."""
    if _is_blank(value):
        return None
    found = round(float(value) * parts)
    if found / parts != float(value):
        raise ValueError("not a whole number of parts")
    return found


def _read_csv(file: Path) -> Iterator[Mapping[str, Any]]:
    usual = csv.field_size_limit(LONGEST)
    try:
        with opened(file) as stream, table(stream, str(file)) as (heading, picked):
            columns = [*COLUMNS, *(name for name in ADDED if name in heading)]
            for _, fields in picked(columns):
                yield dict(zip(columns, fields, strict=True))
    finally:
        csv.field_size_limit(usual)


def _read_jsonl(file: Path) -> Iterator[Mapping[str, Any]]:
    with opened(file) as stream:
        for number, line in enumerate(stream, 1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):  # not UTF-8, not JSON, or nested too deeply
                row = None
            if not isinstance(row, dict):
                raise UserError(f"{file}: line {number} is no JSON object: {EXPECTED}")
            yield row


def _read_parquet(file: Path) -> Iterator[Mapping[str, Any]]:
    arrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    try:
        with parquet.ParquetFile(file) as stored:
            for group in stored.iter_batches(AT_ONCE):
                yield from group.to_pylist()
    except (OSError, arrow.ArrowException) as error:
        raise UserError(f"{file}: cannot be read: {str(error).splitlines()[0]}") from error
