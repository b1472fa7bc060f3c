"""Checks of arrays: shares in [0, 1], integers, and the starts of the parts of a sequence.

``errors.py`` checks plain values without numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits.errors import UserError, abbreviate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def check_table(name: str, numbers: ArrayLike, row: str, *, one_row: bool = False) -> Floats:
    """Return a table of numbers in [0, 1], a row for each segment or round and a column for each arm.

    With ``one_row``, a plain list is a table of one row.
    """
    values = _to_floats(name, numbers, f"not a table of numbers: give one row per {row}, all equally long")
    if values.ndim == 1 and one_row:
        values = values[None, :]
    if values.ndim != 2 or values.shape[0] < 1 or values.shape[1] < 1:
        raise UserError(f"{name} have shape {values.shape}: give ({row}s, arms), at least one of each")
    if (wrong := _find_outside(values)) is not None:
        index, arm = wrong
        raise UserError(f"{name}: arm {arm} has {values[index, arm]} in {row} {index}: give numbers in [0, 1]")
    return values


def check_shares(name: str, numbers: ArrayLike, row: str) -> Floats:
    """Return a list of numbers in [0, 1], one for each round."""
    values = _to_floats(name, numbers, f"not a list of numbers: give one per {row}")
    if values.ndim != 1 or values.size < 1:
        raise UserError(f"{name} have shape {values.shape}: give a list, one per {row}")
    if (wrong := _find_outside(values)) is not None:
        raise UserError(f"{name}: {values[wrong]} in {row} {wrong[0]}: give numbers in [0, 1]")
    return values


def check_cube(name: str, numbers: ArrayLike) -> Floats:
    """Return numbers in [0, 1] by segment, group and arm; a table of groups and arms is one segment."""
    values = _split_segments(name, numbers, "group", "arm")
    if (wrong := _find_outside(values)) is not None:
        raise UserError(f"{name}: {values[wrong]} at {wrong}: give numbers in [0, 1]")
    return values


def check_weights(name: str, numbers: ArrayLike) -> Floats:
    """Return finite numbers by segment, arm and feature; a table of arms and features is one segment."""
    values = _split_segments(name, numbers, "arm", "feature")
    if not np.isfinite(values).all():
        raise UserError(f"{name} are not all finite: give finite numbers")
    return values


def _split_segments(name: str, numbers: ArrayLike, row: str, column: str) -> Floats:
    """Return numbers by segment, row and column; a table is one segment."""
    values = _to_floats(
        name, numbers, f"not a table of numbers by segment, {row} and {column}: give every {row} equally many {column}s"
    )
    if values.ndim == 2:
        values = values[None]
    if values.ndim != 3 or 0 in values.shape:
        raise UserError(f"{name} have shape {values.shape}: give (segments, {row}s, {column}s), at least one of each")
    return values


def check_parts_of_one(name: str, numbers: ArrayLike, count: int, noun: str = "group") -> Floats:
    """Return ``count`` numbers above 0 that add up to 1."""
    values = check_shares(name, numbers, noun)
    total = float(values.sum())
    if values.size != count or values.min() <= 0.0 or abs(total - 1.0) > 1e-6:
        raise UserError(
            f"{name} = {abbreviate(numbers)}: give {count} numbers above 0 that add up to 1, one for each {noun}"
        )
    return np.asarray(values / total)


def check_vector(name: str, numbers: ArrayLike, count: int, most: float) -> Floats:
    """Return ``count`` numbers, each of at most this magnitude."""
    values = _to_floats(name, numbers, f"not a list of numbers: give {count}")
    if values.shape != (count,):
        raise UserError(f"{name} have shape {values.shape}: give a list of {count} numbers")
    if not np.all(np.abs(values) <= most):  # false for NaN
        index = int(np.argmin(np.abs(values) <= most))
        raise UserError(
            f"{name}: number {index} is {values[index]}: give numbers from {-most:g} to {most:g}; scale them"
        )
    return values


def check_ints(name: str, numbers: ArrayLike) -> Ints:
    """Return an array of integers; 1.0 is accepted, True is not."""
    try:
        original = np.asarray(numbers)
        with np.errstate(invalid="ignore"):  # NaN turns into a number that differs
            values = original.astype(np.int64)
        same = bool(np.all(values == original)) and original.dtype != np.bool_
    except (TypeError, ValueError, OverflowError):
        same = False
    if not same:
        raise UserError(f"{name} = {abbreviate(numbers)}: give whole numbers below 2^63")
    return values


def check_arms(name: str, numbers: ArrayLike, count: int, row: str) -> Ints:
    """Return a list of arms below ``count``."""
    values = check_ints(name, numbers)
    unknown = np.argwhere((values < 0) | (values >= count))
    if len(unknown):
        index = tuple(int(each) for each in unknown[0])
        raise UserError(f"{name}: {row} {index[0]} has arm {values[index]}: give arms from 0 to {count - 1}")
    return values


def check_starts(name: str, numbers: ArrayLike, end: int) -> Ints:
    """Return the starts of the parts of a sequence of this length; no part may be empty."""
    values = check_ints(name, numbers)
    if values.ndim != 1 or not values.size or values[0] != 0 or np.any(np.diff(values) <= 0):
        raise UserError(f"{name} = {abbreviate(numbers)}: give increasing numbers that begin with 0")
    if values[-1] >= end:
        raise UserError(f"{name}: {values[-1]} is not before the end, {end}: drop it")
    return values


def refuse_other_lengths(name: str, one: NDArray[Any], other_name: str, other: NDArray[Any]) -> None:
    """Refuse two lists of different lengths."""
    if one.shape != other.shape:
        raise UserError(f"{name} have shape {one.shape}, {other_name} {other.shape}: give two lists of one length")


def _to_floats(name: str, numbers: ArrayLike, complaint: str) -> Floats:
    """Return an array of floats; masked entries become NaN."""
    try:
        if isinstance(numbers, np.ma.MaskedArray):
            return np.array(np.ma.filled(np.ma.asarray(numbers, dtype=np.float64), np.nan))
        return np.array(numbers, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{name} are {complaint}") from None


def _find_outside(values: Floats) -> tuple[int, ...] | None:
    """Return the index of the first number outside [0, 1], NaN included; None if there is none."""
    inside = (values >= 0.0) & (values <= 1.0)
    return None if inside.all() else tuple(int(index) for index in np.argwhere(~inside)[0])


def restore_read_only(instance: object, state: dict[str, object]) -> None:
    """Restore an unpickled or copied object, whose arrays are read-only as they were."""
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(instance, name, value)
