"""Arms and feedbacks as callers give them: numbers of many kinds, alone or in arrays, checked before compiled code."""

import operator
from numbers import Real
from typing import Any, SupportsIndex

import numpy as np

from maskedbandits._numba.state import Floats, Ints
from maskedbandits.errors import UserError


def plain_numbers(arm: Any, feedback: Any) -> tuple[int, float]:
    """Return an arm and a feedback of whatever kind of number as plain ones; text and truth values are no arms."""
    if isinstance(arm, (list, tuple)) or np.ndim(arm) > 0:
        raise UserError("several arms were given where one is expected: give many reports to observe_many")
    if isinstance(arm, (bool, np.bool_)) or not isinstance(arm, SupportsIndex):
        raise UserError(f"arm {arm!r} is not a whole number: arms are numbered from 0")
    if not isinstance(feedback, (Real, np.bool_)):
        raise UserError(f"feedback {feedback!r} is not a number: give one in [0, 1]")
    return operator.index(arm), float(feedback)


def no_such_arm(arm: int, arms: int) -> UserError:
    """Return the complaint about an arm that does not exist."""
    return UserError(f"arm {arm} does not exist: arms are numbered 0 to {arms - 1}")


LARGEST = 1e9  # of a feedback that is no bit: sums of far larger ones would be all rounding


def no_feedback(feedback: float, most: float) -> UserError:
    """Return the complaint about a feedback that is none."""
    least = 0 if most == 1.0 else -most
    return UserError(f"feedback {feedback} is out of range: give a number in [{least:g}, {most:g}]")


def one_of(arm: Any, arms: int) -> int:
    """Return an arm, if it exists."""
    place, _ = plain_numbers(arm, 0.0)
    if not 0 <= place < arms:
        raise no_such_arm(place, arms)
    return place


def many(arms: Any, feedbacks: Any, known: int, most: float) -> tuple[Ints, Floats]:
    """Return arms, of which so many are known, and their feedbacks, at most so large, as arrays."""
    try:
        pulled, seen = np.asarray(arms), np.asarray(feedbacks)
    except ValueError:  # lists of several lengths in one
        raise UserError("arms or feedbacks are no lists of numbers: give two lists of one length") from None
    if pulled.ndim != 1 or pulled.shape != seen.shape:
        raise UserError(f"arms of shape {pulled.shape} and feedbacks of {seen.shape}: give two lists of one length")
    if pulled.size and pulled.dtype.kind not in "iu":
        raise UserError(f"arms of type {pulled.dtype} are not whole numbers: arms are numbered from 0")
    if pulled.size and seen.dtype.kind not in "iufb":
        raise UserError(f"feedbacks of type {seen.dtype} are not numbers: give numbers in [0, 1]")
    absent = (pulled < 0) | (pulled >= known)
    if absent.any():
        raise no_such_arm(int(pulled[absent][0]), known)
    wrong = ~((seen >= (0 if most == 1.0 else -most)) & (seen <= most))
    if wrong.any():
        raise no_feedback(float(seen[wrong][0]), most)
    return np.ascontiguousarray(pulled, dtype=np.int64), np.ascontiguousarray(seen, dtype=np.float64)


def some(name: str, given: Any, known: int) -> Ints:
    """Return some of the arms, of which so many are known: one at least."""
    try:
        places = np.asarray(given)
    except ValueError:
        places = np.zeros(0)
    if places.ndim != 1 or not places.size or places.dtype.kind not in "iu":
        raise UserError(f"{name}: give a list of arms, at least one; they are numbered 0 to {known - 1}")
    absent = (places < 0) | (places >= known)
    if absent.any():
        raise no_such_arm(int(places[absent][0]), known)
    return places.astype(np.int64)


def counts(name: str, given: Any, known: int, most: int) -> Ints:
    """Return how many there are of each arm, at most so many."""
    try:
        told = np.asarray(given)
    except ValueError:
        told = np.zeros(0)
    fits = told.shape == (known,) and told.dtype.kind in "iu"
    if not fits or np.any(told < 0) or np.any(told > most):
        raise UserError(f"{name}: give {known} whole numbers from 0 to {most}, one for each arm")
    return told.astype(np.int64)
