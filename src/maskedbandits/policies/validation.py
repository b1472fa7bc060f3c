"""Checks of parameters, arms and feedbacks, made before compiled code sees them.

A check returns the value to use, or raises an error that says in one line what to give instead.
"""

import math
import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any, SupportsIndex

import numpy as np

from maskedbandits._numba.state import Floats, Ints
from maskedbandits.errors import UserError, WrongValueError, check_int, check_number, describe_range

Check = Callable[[str, Any], Any]

MAX_TIME = 1 << 62


def described_as(words: str) -> Callable[[Check], Check]:
    """Attach a description of the accepted values to a check."""

    def decorate(check: Check) -> Check:
        check.words = words  # type: ignore[attr-defined]
        return check

    return decorate


def between(least: float, most: float, *, above: bool = False, below: bool = False) -> Check:
    """Return a check for numbers in an interval."""

    @described_as(describe_range(least, most, above, below))
    def check(name: str, value: Any) -> float:
        return check_number(name, value, least, most, above=above, below=below)

    return check


def perhaps(check: Check) -> Check:
    """Return a check that also accepts None, for a value to be determined later."""

    @described_as(f"{check.words}, or nothing")  # type: ignore[attr-defined]
    def either(name: str, value: Any) -> Any:
        return None if value is None else check(name, value)

    return either


def one_of(*words: str) -> Check:
    """Return a check for one of some words."""
    listed = " or ".join(repr(word) for word in words)

    @described_as(listed)
    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise WrongValueError(name, value, listed)
        return value

    return check


@described_as("a whole number, 1 or more")
def count(name: str, value: Any) -> int:
    """Check a positive integer."""
    return check_int(name, value)


@described_as("a whole number, 1 or more; leave out if unknown")
def perhaps_count(name: str, value: Any) -> int | None:
    """Check a positive integer, or None if it is unknown."""
    return None if value is None else check_int(name, value)


@described_as("true or false")
def flag(name: str, value: Any) -> bool:
    """Check a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise WrongValueError(name, value, "True or False")
    return bool(value)


@described_as("a whole number, or infinity for no limit")
def window(name: str, value: Any) -> float:
    """Check the number of observations to remember."""
    if isinstance(value, float) and value == math.inf:
        return math.inf
    steps = check_int(name, value)
    if steps > 1 << 32:
        raise UserError(f"{name} {steps} does not fit into memory: give math.inf for no limit")
    return steps


def _check_list(name: str, value: Any, such_as: str) -> list[int]:
    """Check a list of integers from 0 on."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise WrongValueError(name, value, such_as)
    return [min(check_int(f"{name}[{index}]", each, 0), MAX_TIME) for index, each in enumerate(value)]


@described_as("increasing times such as [0, 5000], 'doubling', or nothing")
def restarts(name: str, value: Any) -> list[int] | str | None:
    """Check times at which to forget everything."""
    if value is None or (isinstance(value, str) and value == "doubling"):
        return value
    times = _check_list(name, value, "times such as [0, 5000], 'doubling' or None")
    if any(later <= earlier for earlier, later in pairwise(times)):
        raise WrongValueError(name, value, "increasing times")
    return times


@described_as("an arm for every segment, such as [0, 2]")
def best_arms(name: str, value: Any) -> list[int]:
    """Check the best arm of every segment; refuse means, even if they are 0 and 1."""
    such_as = "the best arm of every segment, such as [0, 2]"
    listed = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(listed, (list, tuple)) and any(isinstance(each, float) for each in listed):
        raise WrongValueError(name, listed, f"{such_as}: problem.best_arms has arms, problem.best their means")
    return _check_list(name, value, such_as)


@described_as("a number above 0, or infinity for no noise")
def epsilon(name: str, value: Any) -> float:
    """Check a privacy loss."""
    return check_number(name, value, 0.0, above=True, infinite=True)


@described_as("a share, from 0 to below 1")
def share_of_lies(name: str, value: Any) -> float:
    """Check the share of reports that may be lies."""
    return check_number(name, value, 0.0, 1.0, below=True)


def plain_numbers(arm: Any, feedback: Any) -> tuple[int, float]:
    """Return an arm and a feedback of any numeric type as plain numbers; refuse text and booleans as arms."""
    if isinstance(arm, (list, tuple)) or np.ndim(arm) > 0:
        raise UserError("several arms instead of one: give many reports to observe_many")
    if isinstance(arm, (bool, np.bool_)) or not isinstance(arm, SupportsIndex):
        raise UserError(f"arm {arm!r} is not a whole number: arms are numbered from 0")
    if not isinstance(feedback, (Real, np.bool_)):
        raise UserError(f"feedback {feedback!r} is not a number: give one in [0, 1]")
    return operator.index(arm), float(feedback)


def no_such_arm(arm: int, arms: int) -> UserError:
    """Return the error for an arm that does not exist."""
    return UserError(f"arm {arm} does not exist: arms are numbered 0 to {arms - 1}")


MAX_FEEDBACK = 1e9  # of unbounded feedback: sums of larger ones would lose all precision


def no_feedback(feedback: float, most: float) -> UserError:
    """Return the error for a feedback out of range."""
    least = 0 if most == 1.0 else -most
    return UserError(f"feedback {feedback} is out of range: give a number in [{least:g}, {most:g}]")


def check_arm(arm: Any, arms: int) -> int:
    """Return an arm; refuse one that does not exist."""
    index, _ = plain_numbers(arm, 0.0)
    if not 0 <= index < arms:
        raise no_such_arm(index, arms)
    return index


def many(arms: Any, feedbacks: Any, known: int, most: float) -> tuple[Ints, Floats]:
    """Return the arms and feedbacks of many reports as arrays; refuse unknown arms and feedbacks out of range."""
    try:
        pulled, seen = np.asarray(arms), np.asarray(feedbacks)
    except ValueError:  # lists of several lengths in one
        raise UserError("arms or feedbacks are not lists of numbers: give two lists of the same length") from None
    if pulled.ndim != 1 or pulled.shape != seen.shape:
        raise UserError(
            f"arms of shape {pulled.shape} and feedbacks of {seen.shape}: give two lists of the same length"
        )
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
    """Return some of the arms as an array; refuse an empty list and unknown arms."""
    try:
        arms = np.asarray(given)
    except ValueError:
        arms = np.zeros(0)
    if arms.ndim != 1 or not arms.size or arms.dtype.kind not in "iu":
        raise UserError(f"{name}: give a list of arms, at least one; they are numbered 0 to {known - 1}")
    absent = (arms < 0) | (arms >= known)
    if absent.any():
        raise no_such_arm(int(arms[absent][0]), known)
    return arms.astype(np.int64)


def counts(name: str, given: Any, known: int, most: int) -> Ints:
    """Return a number for each arm as an array; refuse numbers out of range."""
    try:
        values = np.asarray(given)
    except ValueError:
        values = np.zeros(0)
    fits = values.shape == (known,) and values.dtype.kind in "iu"
    if not fits or np.any(values < 0) or np.any(values > most):
        raise UserError(f"{name}: give {known} whole numbers from 0 to {most}, one for each arm")
    return values.astype(np.int64)
