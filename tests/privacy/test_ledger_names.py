"""Invalid names, caps, deltas and epsilons are refused."""

import enum
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ledgers import refused

from maskedbandits.errors import UserError
from maskedbandits.privacy.ledger import Ledger

pytest_plugins = ["ledger_fixtures"]

# What is refused


@pytest.mark.parametrize("cap", [-1, math.nan, math.inf, "much", None, True])
def test_invalid_cap_is_refused(cap: float) -> None:
    with pytest.raises(UserError, match="cap"):
        Ledger(cap)


@pytest.mark.parametrize("delta", [-1e-9, 1, math.nan, "small"])
def test_invalid_ledger_delta_is_refused(delta: float) -> None:
    with refused("delta", kind=UserError):
        Ledger(1, delta=delta)


NO_NAMES: list[Any] = ["", "a" * 201, "two\nlines", "\ud800", "nul\0", None, 1.0, True, 2**63, 10**5000, b"a"]
NO_NAMES += [np.True_, np.float64(1), np.array([1, 2]), np.array("a"), np.str_("two\nlines")]


@pytest.mark.parametrize("decision", NO_NAMES, ids=range(len(NO_NAMES)))
def test_invalid_decision_name_is_refused(decision: Any) -> None:
    with Ledger(1) as ledger, refused("invalid name", kind=UserError):
        ledger.reserve(decision, 0.5)


def test_decision_names_are_equivalent_texts(location: Path | None) -> None:
    names: list[str | int] = [
        "a" * 200,
        "Überschrift ✓",
        " ",
        "a'; DROP TABLE decisions",
        -(2**63) + 1,
        2**63 - 1,
        "A",
        "a",
    ]
    with Ledger(100, location) as ledger:
        for name in names:
            ledger.reserve(name, 1)
            ledger.report(name, 1)
        assert ledger.reports == len(names)
        ledger.reserve(7, 1)
        ledger.reserve("7", 1)
        assert ledger.reports == len(names) + 1


class Page(enum.StrEnum):
    HOME = "home"


class Shelf(str, enum.Enum):  # noqa: UP042 - the older kind, whose text differs
    HOME = "home"


class Place(enum.IntEnum):
    SEVENTH = 7


class Odd(str):
    """A text that misreports itself."""

    __slots__ = ()

    def __str__(self) -> str:
        return "odd"

    def __repr__(self) -> str:
        return "two\nlines"


@pytest.mark.parametrize(
    ("decision", "plain"),
    [
        (np.str_("home"), "home"),
        (Page.HOME, "home"),
        (Shelf.HOME, "home"),
        (Odd("home"), "home"),
        (np.int64(7), "7"),
        (np.uint8(7), "7"),
        (Place.SEVENTH, "7"),
    ],
)
def test_string_types_are_plain_names(decision: Any, plain: str, file: Path) -> None:
    with Ledger(1, file) as ledger:
        ledger.reserve(decision, 0.5)
        report = ledger.report(decision, 1)
    with Ledger(1, file) as ledger:
        assert ledger.recall(plain) == ledger.report(decision, 0) == report
        ledger.reserve(plain, 0.5)
        assert ledger.reports == 1


def test_epsilon_with_too_many_digits_is_refused() -> None:
    with Ledger(1) as ledger, refused("too many digits", kind=UserError):
        ledger.reserve("a", Fraction(1, 3**1000))


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, math.inf, 17])
def test_invalid_ledger_epsilon_is_refused(epsilon: float) -> None:
    with Ledger(100) as ledger:
        with pytest.raises(UserError, match="epsilon"):
            ledger.reserve("a", epsilon)
        assert ledger.reports == 0


def test_closed_ledger_says_so(location: Path | None) -> None:
    ledger = Ledger(1, location)
    ledger.close()
    ledger.close()
    with refused("closed: open it again"):
        ledger.reserve("a", 0.5)
    with refused("closed: open it again"):
        assert ledger.spent
    assert "cap=1" in repr(ledger)
