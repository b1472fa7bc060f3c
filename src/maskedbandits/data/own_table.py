"""A table of one's own, CSV or Parquet: a row for each round and a column for each arm, or a log of choices."""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from maskedbandits._validation import Ints
from maskedbandits.data import parquet
from maskedbandits.data.delimited import Picked, Row, Tell, number_of, opened, place_of, silent, table, time_of
from maskedbandits.data.tables import Log, Rounds, periods_of
from maskedbandits.errors import UserError, WrongValueError, line, shown

TRUTH = {"True": 1.0, "true": 1.0, "TRUE": 1.0, "False": 0.0, "false": 0.0, "FALSE": 0.0}  # as programs write it
PARTS = 10  # periods of a table without dates
CALENDAR = (  # the periods of dates that range over more than this, and how they are labelled
    (timedelta(days=62), "a month", "%Y-%m"),
    (timedelta(days=2), "a day", "%Y-%m-%d"),
    (timedelta(), "an hour", "%Y-%m-%d %H:00"),
)

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
    hours. Without dates, rows are cut into tenths. Outcomes are numbers in [0, 1], or true and false. Parquet is read
    with pyarrow.
    """
    file = Path(path)
    if (arm is None) != (reward is None):
        raise UserError(f"{file}: a log has a column of arms and one of rewards: name both, or neither")
    named = [name for name in (arm, reward, time) if name is not None]
    if len({*named}) < len(named):
        raise UserError(f"{file}: time, arm and reward are columns of their own: name each once")
    with _opened(file, tell) as (heading, picked):
        for name in named or heading:
            place_of(name, heading, str(file))
        if arm is not None:
            return _log(picked(named), named, time, file)
        arms = [name for name in heading if name != time]
        if "" in arms:
            raise UserError(f"{file}: column {heading.index('') + 1} has no name: give it one, or leave it out")
        return _rounds(picked([*arms, *named]), arms, time, file)


@contextmanager
def _opened(file: Path, tell: Tell) -> Iterator[tuple[list[str], Picked]]:
    """Yield the columns and rows of a file of either format, which is opened once: it may be a pipe."""
    if parquet.is_one(file):
        with parquet.table(file, tell) as found:
            yield found
    else:
        with opened(file) as stream, table(stream, str(file), tell) as found:
            yield found


def _log(rows: Iterable[Row], columns: Sequence[str], time: str | None, file: Path) -> Log:
    """Return a row for each choice; the arms are sorted, numbers by their size."""
    found, rewards, whens = [], array("d"), []
    for row, fields in rows:
        found.append(_arm(fields[0], columns[0], file, row))
        rewards.append(_share(fields[1], columns[1], file, row))
        whens.append((row, fields[-1]))
    names = sorted({*found}, key=_by_size)
    number = {name: place for place, name in enumerate(names)}
    chosen = np.array([number[name] for name in found], dtype=np.int64)
    order, periods = _ordered(whens, time, file)
    with _named(file):
        return Log(tuple(names), chosen[order], np.array(rewards)[order], *periods)


def _rounds(rows: Iterable[Row], arms: Sequence[str], time: str | None, file: Path) -> Rounds:
    """Return a row for each round; the time, if there is one, is the field after those of the arms."""
    outcomes, whens = array("d"), []
    for row, fields in rows:
        outcomes.extend(_share(text, arm, file, row) for text, arm in zip(fields, arms, strict=False))
        whens.append((row, fields[-1]))
    order, periods = _ordered(whens, time, file)
    with _named(file):
        return Rounds(tuple(arms), np.array(outcomes).reshape(len(whens), len(arms))[order], *periods)


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


def _arm(text: str, name: str, file: Path, row: int) -> str:
    """Return the name of an arm; blanks around it are none of it."""
    try:
        return line(name, text.strip())
    except WrongValueError as error:
        raise UserError(f"{file}: row {row}: {error}") from None


def _share(text: str, name: str, file: Path, row: int) -> float:
    """Return a number in [0, 1], or a truth value as one."""
    if text in TRUTH:
        return TRUTH[text]
    value = number_of(text, name, str(file), row)
    if not 0.0 <= value <= 1.0:
        raise UserError(f"{file}: row {row}: {name} = {shown(text)}: give a number in [0, 1]")
    return value


# Order and periods


def _ordered(whens: Sequence[tuple[int, str]], time: str | None, file: Path) -> tuple[Ints, Periods]:
    """Return the order of the rows in time, and their periods, given the number and the time of each."""
    if not whens:
        raise UserError(f"{file}: there is not a single row under its heading: give at least one")
    parts = _tenths(len(whens))
    if time is None:
        return np.arange(len(whens)), parts
    if all(_is_number(text) for _, text in whens):
        exact = [Decimal(text.strip()) for _, text in whens]  # nanoseconds since 1970 are too long for a float
        return _sorted(exact), parts
    times = [time_of(text, time, str(file), row) for row, text in whens]
    if len({moment.tzinfo is None for moment in times}) > 1:
        raise UserError(f"{file}: some times of column {time!r} have a time zone and some have none: give all the same")
    try:
        utc = [moment if moment.tzinfo is None else moment.astimezone(UTC) for moment in times]
    except OverflowError:
        raise UserError(f"{file}: column {time!r} holds a time at the end of the calendar: drop it") from None
    order = _sorted(utc)
    return order, _calendar([utc[place] for place in order])


def _sorted(keys: Sequence[Any]) -> Ints:
    """Return the order of keys; those that are alike stay as they are."""
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text.replace("_", "?")))
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
