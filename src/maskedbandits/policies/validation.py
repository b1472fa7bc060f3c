"""Checks of parameters, arms and feedbacks, made before compiled code sees them.

Checks of parameters: each returns the value as it is kept, or says in one line what is to be given instead.

Arms and feedbacks as callers give them: numbers of many kinds, alone or in arrays, checked before compiled code.
"""

import math
import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any, SupportsIndex

import numpy as np

from maskedbandits._numba.state import Floats, Ints
from maskedbandits.errors import UserError, WrongValueError, check_int, number, number_words

Check = Callable[[str, Any], Any]

MOST = 1 << 62


def told(words: str) -> Callable[[Check], Check]:
    """Say in words what a check lets pass."""

    def decorate(check: Check) -> Check:
        check.words = words  # type: ignore[attr-defined]
        return check

    return decorate


def between(least: float, most: float, *, above: bool = False, below: bool = False) -> Check:
    """Return a check for numbers in an interval."""

    @told(number_words(least, most, above, below))
    def check(name: str, value: Any) -> float:
        return number(name, value, least, most, above=above, below=below)

    return check


def perhaps(check: Check) -> Check:
    """Return a check that also lets nothing pass, where something is to be found out."""

    @told(f"{check.words}, or nothing")  # type: ignore[attr-defined]
    def either(name: str, value: Any) -> Any:
        return None if value is None else check(name, value)

    return either


def one_of(*words: str) -> Check:
    """Return a check for one of some words."""
    listed = " or ".join(repr(word) for word in words)

    @told(listed)
    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise WrongValueError(name, value, listed)
        return value

    return check


@told("a whole number, 1 or more")
def count(name: str, value: Any) -> int:
    """Check a number of things."""
    return check_int(name, value)


@told("a whole number, 1 or more, or nothing where it is not known")
def perhaps_count(name: str, value: Any) -> int | None:
    """Check a number of things that may be unknown."""
    return None if value is None else check_int(name, value)


@told("true or false")
def flag(name: str, value: Any) -> bool:
    """Check a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise WrongValueError(name, value, "True or False")
    return bool(value)


@told("a whole number, or infinity for no limit")
def window(name: str, value: Any) -> float:
    """Check how many observations are remembered."""
    if isinstance(value, float) and value == math.inf:
        return math.inf
    steps = check_int(name, value)
    if steps > 1 << 32:
        raise UserError(f"{name} {steps} is more than can be kept in memory: for no limit give math.inf")
    return steps


def _listed(name: str, value: Any, such_as: str) -> list[int]:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise WrongValueError(name, value, such_as)
    return [min(check_int(f"{name}[{place}]", each, 0), MOST) for place, each in enumerate(value)]


@told("increasing times such as [0, 5000], 'doubling', or nothing")
def restarts(name: str, value: Any) -> list[int] | str | None:
    """Check times at which to forget everything."""
    if value is None or (isinstance(value, str) and value == "doubling"):
        return value
    times = _listed(name, value, "times such as [0, 5000], 'doubling' or None")
    if any(later <= earlier for earlier, later in pairwise(times)):
        raise WrongValueError(name, value, "increasing times")
    return times


@told("an arm for every segment, such as [0, 2]")
def best_arms(name: str, value: Any) -> list[int]:
    """Check the best arm of every segment; means are not arms, even where they are 0 and 1."""
    such_as = "the best arm of every segment, such as [0, 2]"
    listed = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(listed, (list, tuple)) and any(isinstance(each, float) for each in listed):
        raise WrongValueError(name, listed, f"{such_as}: problem.best_arms holds arms, and problem.best their means")
    return _listed(name, value, such_as)


@told("a number above 0, or infinity for no noise")
def epsilon(name: str, value: Any) -> float:
    """Check a privacy loss."""
    return number(name, value, 0.0, above=True, infinite=True)


@told("a share, from 0 to below 1")
def share_of_lies(name: str, value: Any) -> float:
    """Check the share of reports that may be lies."""
    return number(name, value, 0.0, 1.0, below=True)


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


def check_arm(arm: Any, arms: int) -> int:
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
