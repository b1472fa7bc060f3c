"""Checks of parameters: each returns the value as it is kept, or says in one line what is to be given instead."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

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
