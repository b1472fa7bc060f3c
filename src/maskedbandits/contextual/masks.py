"""Masks of answers to groups: how each group sees a masked answer, and which kind of answer needs fewer visitors.

With shares p_k of the groups and s = (e^eps - 1) / (e^eps + 1), the masked bit, reversed again by the sign of group k,
is a one with probability ``1/2 + s p_k (mean - 1/2)``. So the mask of group k is randomised response with ``p00 = p11 =
(1 + s p_k) / 2``, and every answer informs all groups.

Of 2 G answers, with probability p of the truth and q of each other, one names group k with probability
``2 q + (p - q) p_k``, and names it with a one with probability ``q + (p - q) p_k mean``. This is a mask of slope
``(p - q) p_k / (2 q + (p - q) p_k)``, and an answer informs only the group that it names.

A report through a mask of slope c is worth c^2 of a reward, as long as rewards are nearly fair coins. So a visitor is
worth (s p_k)^2 of one whose group and reward are seen, or ((p - q) p_k)^2 / (2 q + (p - q) p_k).
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import UserError, abbreviate, suggest_nearest
from maskedbandits.privacy import as_epsilon
from maskedbandits.privacy.exact import Number

BIT, ONE_OF_MANY = "bit", "one of many"
KINDS = (BIT, ONE_OF_MANY)
MIN_SLOPE = 1e-11  # a smaller slope is hardly more than rounding

Floats = NDArray[np.float64]


def check_epsilon(epsilon: Number) -> Fraction:
    """Return an exact epsilon; refuse one that leaves nothing to learn."""
    exact = as_epsilon(epsilon)
    if math.tanh(0.5 * float(exact)) < MIN_SLOPE:
        raise UserError(
            f"epsilon = {abbreviate(epsilon)} is too small to learn from answers: give a larger one, such as 1"
        )
    return exact


def check_kind(kind: object) -> None:
    """Refuse an unknown kind of answer; None means the better kind."""
    if kind is not None and not (isinstance(kind, str) and kind in KINDS):
        raise UserError(f"answers = {abbreviate(kind)}: give {' or '.join(KINDS)}{suggest_nearest(kind, KINDS)}")


def truth_and_other(epsilon: float, groups: int) -> tuple[float, float]:
    """Return the probabilities of the true answer among 2 G, and of each other answer."""
    other = 1.0 / (math.exp(epsilon) + 2 * groups - 1)
    return 1.0 - (2 * groups - 1) * other, other


def slope(kind: str, epsilon: float, groups: int) -> float:
    """Return the slope of an answer: s for a bit, p - q for one of many."""
    if kind == BIT:
        return 2.0 * (RandomizedResponse.from_epsilon(epsilon).p11 - 0.5)
    truth, other = truth_and_other(epsilon, groups)
    return truth - other


def masks(kind: str, epsilon: float, shares: Floats) -> list[RandomizedResponse]:
    """Return the mask through which each group sees an answer."""
    each = half_slopes(kind, epsilon, shares)
    if 2.0 * each.min() < MIN_SLOPE:
        raise UserError(
            f"a share of {shares.min():g} at epsilon = {epsilon:g} leaves nothing to learn of its group: give larger "
            "shares, put small groups together, or take a larger epsilon"
        )
    return [RandomizedResponse(0.5 + float(half), 0.5 + float(half)) for half in each]


def half_slopes(kind: str, epsilon: float, shares: Floats) -> Floats:
    """Return half the slope of the mask through which each group sees an answer."""
    half = 0.5 * slope(kind, epsilon, shares.size) * shares
    return np.asarray(half / naming_probabilities(epsilon, shares) if kind == ONE_OF_MANY else half)


def naming_probabilities(epsilon: float, shares: Floats) -> Floats:
    """Return the probability that a one-of-many answer names each group."""
    truth, other = truth_and_other(epsilon, shares.size)
    return np.asarray(2.0 * other + (truth - other) * shares)


def worth(kind: str, epsilon: float, shares: Floats) -> Floats:
    """Return the information of a visitor about each group, relative to one whose group and reward are seen."""
    squared = (slope(kind, epsilon, shares.size) * shares) ** 2
    return squared / shares if kind == BIT else squared / (shares * naming_probabilities(epsilon, shares))


def better_kind(epsilon: float, shares: Floats) -> str:
    """Return the kind of answer that needs fewer visitors, for the group that needs most."""
    return max(KINDS, key=lambda kind: float(worth(kind, epsilon, shares).min()))
