"""Exact epsilons: parsing, proved thresholds, and a real epsilon never above the stated one."""

from __future__ import annotations

import enum
import math
from decimal import ROUND_UP, Context, Decimal, FloatOperation, Inexact, Rounded, Subnormal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from randomizers import GRID, epsilons

from maskedbandits.errors import UserError
from maskedbandits.privacy import ExactEpsilon, KaryRandomizer, Randomizer, as_epsilon, exact, mechanism_for, threshold
from maskedbandits.privacy.exact import as_sum, as_text, enclose_exp
from naive import mechanism as naive


class Stated(float):
    """A float that prints as another number."""

    __slots__ = ()

    def __str__(self) -> str:
        return "7"

    __repr__ = __str__


class Size(enum.IntEnum):
    """Another type of whole numbers."""

    TWO = 2
    THREE = 3
    EIGHT = 8
    SIXTEEN = 16
    THIRTY_TWO = 32
    SIXTY_FOUR = 64


# What an epsilon is


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (" 1/3 ", Fraction(1, 3)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("2.50"), Fraction(5, 2)),
        (np.int64(2), Fraction(2)),
        (np.float16(0.1), Fraction(1, 10)),
        (np.longdouble("0.1"), Fraction(1, 10)),
        (np.str_("0.1"), Fraction(1, 10)),
        (Stated(0.1), Fraction(1, 10)),
        (Fraction(np.int64(1), np.int64(3)), Fraction(1, 3)),  # type: ignore[call-overload]
        (1e-5, Fraction(1, 100_000)),
        (5e-324, Fraction(5, 10**324)),
        (0, Fraction(0)),
        (-0.0, Fraction(0)),
        (16, Fraction(16)),
    ],
)
def test_epsilon_is_what_a_person_writes(given: Any, meant: Fraction) -> None:
    assert as_epsilon(given) == meant


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (math.nan, "epsilon is NaN"),
        (Decimal("sNaN"), "epsilon is NaN"),
        (math.inf, "epsilon is infinite, which hides nothing"),
        ("-inf", "epsilon is infinite"),
        (-1, "epsilon = -1 is negative: give 0 (pure noise) or more"),
        (-1e-9, "is negative"),
        (16.000001, "epsilon = 16.000001 is above 16, where reports are false less than once in eight million"),
        (37, "epsilon = 37 is above 16"),
        (745.2, "is above 16"),
        (10**2000, "more than 1000 digits"),
        (Fraction(1, 10**2000), "more than 1000 digits"),
        ("1e999999999", "more than 1000 digits"),
        ("1e-999999999", "more than 1000 digits"),
        (True, "epsilon = True is not a number"),
        (np.True_, "is not a number"),
        ("one", "epsilon = 'one' is not a number"),
        ("", "is not a number"),
        ("1/0", "is not a number"),
        ("1/" + "9" * 5000, "is not a number"),
        (None, "is not a number"),
        (1j, "is not a number"),
        ([1], "is not a number"),
        (np.array([[1], [2]]), "is not a number"),
        (b"1", "is not a number"),
    ],
)
def test_invalid_epsilon_is_refused_with_reason(given: Any, reason: str) -> None:
    for kind in (as_epsilon, Randomizer, mechanism_for, lambda epsilon: KaryRandomizer(3, epsilon)):
        with pytest.raises(UserError, match="epsilon") as refusal:
            kind(given)
        assert reason in str(refusal.value)
        assert "\n" not in str(refusal.value)


@given(st.floats(0, 16))
def test_float_means_its_shortest_text(epsilon: float) -> None:
    assert as_epsilon(epsilon) == as_epsilon(repr(epsilon)) == as_epsilon(Decimal(repr(epsilon)))
    assert as_epsilon(as_text(as_epsilon(epsilon))) == as_epsilon(epsilon)


SETTINGS = [
    Context(traps=[Inexact, Rounded, Subnormal, FloatOperation]),
    Context(prec=2, Emin=0, Emax=5),
    Context(traps=[]),
    Context(rounding=ROUND_UP, capitals=0),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=range(len(SETTINGS)))
def test_decimal_settings_do_not_matter(settings: Context) -> None:
    def all_of_it() -> list[Any]:
        made = [Randomizer("1/3"), Randomizer(0.1), Randomizer("1e-30"), Randomizer.from_matrix("0.9", "0.8")]
        statements = [
            (repr(one), one.flips, one.epsilon, str(one.exact_epsilon), float(one.exact_epsilon)) for one in made
        ]
        with pytest.raises(UserError) as refusal:
            as_epsilon("one")
        return [
            statements,
            str(refusal.value),
            as_text(Fraction(1, 7)),
            as_text(Fraction(1, 10**30)),
            as_sum(Fraction(22, 7)),
        ]

    usual = all_of_it()
    with localcontext(settings):
        assert all_of_it() == usual


def test_numpy_print_options_do_not_matter() -> None:
    numbers = [0.99999999999999, np.float64(0.99999999999999), np.float32(0.12345678), np.float16(0.1)]
    usual = [as_epsilon(number) for number in numbers]  # type: ignore[arg-type]
    with np.printoptions(legacy="1.13", precision=2, floatmode="fixed"):
        assert [as_epsilon(number) for number in numbers] == usual  # type: ignore[arg-type]


# Thresholds


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("epsilon", GRID)
def test_thresholds_match_high_precision(epsilon: str, bits: int) -> None:
    exact = as_epsilon(epsilon)
    for answers in (2, 3, 100):
        assert threshold(exact, bits, answers) == naive.threshold(exact, bits, answers)


@given(epsilons, st.sampled_from([8, 16, 32, 64]), st.integers(2, 1000))
def test_thresholds_match_twin_anywhere(epsilon: Fraction, bits: int, answers: int) -> None:
    assert threshold(epsilon, bits, answers) == naive.threshold(epsilon, bits, answers)


@given(st.fractions(0, 20), st.integers(1, 300))
def test_exp_enclosure_holds_and_is_narrow(x: Fraction, precision: int) -> None:
    low, high = enclose_exp(x, precision)
    assert Fraction(low) <= Fraction(high)
    assert not naive.log_exceeds(Fraction(low, 1 << precision), x)
    assert high == 1 << precision or naive.log_exceeds(Fraction(high, 1 << precision), x)
    assert high - low <= (precision + 100) * math.exp(float(x)) + 100


def test_close_point_is_refined() -> None:
    # The ceiling turns at the logarithm of 13/3, so close that the first enclosures hold both sides of it.
    turn, step = naive.log(Fraction(13, 3)), Fraction(1, 10**90)
    for epsilon in (turn - step, turn + step):
        assert threshold(epsilon) == naive.threshold(epsilon, 64)
    assert threshold(turn + step) == 3 * 2**60
    assert threshold(turn - step) == 3 * 2**60 + 1


def test_epsilon_zero_is_pure_noise() -> None:
    assert Randomizer(0).flips == (2**63, 2**63)
    assert Randomizer(0).exact_epsilon.odds == 1


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.uint64, Size])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integer_types_of_sizes_are_equivalent(kind: Any, bits: int) -> None:
    """A numpy integer overflows where Python's grows: 1 << 64 is 0, and a threshold of 0 never flips."""
    size, two, three = kind(bits), kind(2), kind(3)
    assert threshold(1, size) == threshold(1, bits)
    assert threshold(1, size, three) == threshold(1, bits, 3)
    assert Randomizer(1, bits=size).flips == Randomizer(1, bits=bits).flips
    assert Randomizer.from_matrix(0.9, 0.6, bits=size).flips == Randomizer.from_matrix(0.9, 0.6, bits=bits).flips
    assert KaryRandomizer(three, 1, bits=size).words_per_answer == KaryRandomizer(3, 1, bits=bits).words_per_answer
    assert KaryRandomizer(two, 1, bits=size).exact_epsilon == Randomizer(1, bits=bits).exact_epsilon
    assert type(Randomizer(1, bits=size).word_bits) is type(KaryRandomizer(three, 1).answers) is int


@pytest.mark.parametrize("factor", [Fraction(-(10**9)), Fraction(0), Fraction(1, 10)])
def test_impossible_threshold_makes_no_randomizer(factor: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    def slipped(x: Fraction, precision: int) -> tuple[int, int]:
        wrong = math.floor(factor * enclose_exp(x, precision)[0])
        return wrong, wrong

    monkeypatch.setattr(exact, "enclose_exp", slipped)
    for make in (Randomizer, threshold, lambda epsilon: KaryRandomizer(3, epsilon)):
        with pytest.raises(ArithmeticError, match="false answer"):
            make(1)


# The real epsilon


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("epsilon", GRID)
def test_real_epsilon_is_at_most_stated(epsilon: str, bits: int) -> None:
    randomizer = Randomizer(epsilon, bits=bits)
    stated, odds = as_epsilon(epsilon), randomizer.exact_epsilon.odds
    assert not naive.log_exceeds(odds, stated)
    assert randomizer.exact_epsilon.at_most(epsilon)
    if bits == 64:
        assert stated - naive.log(odds) < Fraction(1, 10**12)


@given(st.fractions(1, 9_000_000))
def test_statements_of_exact_epsilon(odds: Fraction) -> None:
    exact, unit = ExactEpsilon(odds), Fraction(1, 10**24)
    up = Fraction(exact.rounded_up())
    assert not naive.log_exceeds(odds, up)
    assert up == 0 or naive.log_exceeds(odds, up - unit)
    assert exact.at_most(up)
    assert up == 0 or not exact.at_most(up - unit)
    near = Fraction(float(exact))
    assert not naive.log_exceeds(odds, near)
    assert near - naive.log(odds) <= unit + 2 * Fraction(math.ulp(float(exact)))


def test_exact_epsilon_is_about_whole_numbers() -> None:
    assert str(Randomizer(1).exact_epsilon) == (
        "ln(6742825251438785381/2480546785415990427) <= 0.999999999999999999960025"
    )
    assert not ExactEpsilon(Fraction(3)).at_most(1)
    assert ExactEpsilon(Fraction(1)).at_most(0)
    assert not ExactEpsilon(1 + Fraction(1, 2**64)).at_most(0)


def test_distant_bounds_need_no_long_series(monkeypatch: pytest.MonkeyPatch) -> None:
    summed = []

    def watched(x: Fraction, precision: int) -> tuple[int, int]:
        summed.append(x)
        return enclose_exp(x, precision)

    monkeypatch.setattr(exact, "enclose_exp", watched)
    for odds in (Fraction(1), Fraction(3), Randomizer(1).exact_epsilon.odds, Randomizer(16).exact_epsilon.odds):
        assert not any(ExactEpsilon(odds).at_most(bound) for bound in (-1e-9, -1, -20, "-1e300"))
        assert all(ExactEpsilon(odds).at_most(bound) for bound in (17, 64, 1000, "1e6", "1e300"))
    assert max(summed) <= 64


@given(st.floats(0.5, 0.9999998))
def test_opendp_has_the_same_epsilon(truth: float) -> None:
    dp.enable_features("contrib")
    measured = dp.m.make_randomized_response_bool(truth).map(1)  # type: ignore[no-untyped-call]
    if truth > 0.5:
        # the probability itself, not the decimal that it is written as
        ours = Randomizer.from_matrix(Fraction(truth), Fraction(truth)).exact_epsilon
        assert float(ours) == pytest.approx(measured, abs=1e-12)
