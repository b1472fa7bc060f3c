"""Checks of plain values: accepted values, and one-line errors for the rest."""

import math
import pickle
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from maskedbandits.errors import (
    UserError,
    WrongValueError,
    abbreviate,
    check_int,
    check_line,
    check_number,
    suggest_nearest,
)


@pytest.mark.parametrize(
    "given", [7, 7.0, np.int64(7), np.uint8(7), np.float32(7), np.float64(7), np.array(7), Fraction(7)]
)
def test_integers_of_any_type_are_accepted(given: Any) -> None:
    assert check_int("n", given) == 7
    assert type(check_int("n", given)) is int


def test_large_numbers_are_exact() -> None:
    assert check_int("n", 1e15) == 10**15
    assert check_int("seed", 2**63 + 1) == 2**63 + 1


@pytest.mark.parametrize(
    ("given", "least", "most", "complaint"),
    [
        (0, 1, None, "n = 0: give a whole number of at least 1"),
        (-3, 0, 9, "n = -3: give a whole number of at least 0"),
        (10, 0, 9, "n = 10: give a whole number of at most 9"),
        (2.5, 1, 9, "n = 2.5: give a whole number of at least 1"),
        (math.nan, 1, None, "n = nan: give a whole number of at least 1"),
        (math.inf, 1, None, "n = inf: give a whole number of at least 1"),
        (True, 1, None, "n = True: give a whole number of at least 1"),
        (np.True_, 1, None, "n = True: give a whole number of at least 1"),
        ("7", 1, None, "n = '7': give a whole number of at least 1"),
        (None, 1, None, "n = None: give a whole number of at least 1"),
        ([7], 1, None, "n = [7]: give a whole number of at least 1"),
        (np.float64(1.5), 1, None, "n = 1.5: give a whole number of at least 1"),
        pytest.param(
            10**5000, 1, 9, "n = a number of thousands of digits: give a whole number of at most 9", id="digits"
        ),
        (Fraction(1, 2), 1, None, "n = Fraction(1, 2): give a whole number of at least 1"),
    ],
)
def test_invalid_integers_are_refused(given: Any, least: int, most: int | None, complaint: str) -> None:
    with pytest.raises(UserError) as caught:
        check_int("n", given, least, most)
    assert str(caught.value) == complaint


@pytest.mark.parametrize("given", [0.5, np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
def test_numbers_of_any_type_are_accepted(given: Any) -> None:
    assert check_number("x", given, 0, 1) == 0.5
    assert type(check_number("x", given)) is float


def test_limits_may_be_excluded() -> None:
    assert check_number("x", 0, 0, 1) == 0.0
    assert check_number("x", 1, 0, 1, above=True) == 1.0
    assert check_number("x", 0, 0, 1, below=True) == 0.0
    assert check_number("x", math.inf, 0, infinite=True) == math.inf


@pytest.mark.parametrize(
    ("given", "limits", "complaint"),
    [
        (1.1, {"least": 0, "most": 1}, "a number in [0, 1]"),
        (-1, {"least": 0}, "a number of at least 0"),
        (9, {"most": 5}, "a number of at most 5"),
        (0, {"least": 0, "above": True}, "a number above 0"),
        (0, {"least": 0, "above": True, "infinite": True}, "a number above 0, or inf"),
        (1, {"least": 0, "most": 1, "above": True, "below": True}, "a number above 0 and below 1"),
        (1, {"least": 0, "most": 1, "below": True}, "a number of at least 0 and below 1"),
        (math.inf, {}, "a finite number"),
        (-math.inf, {"infinite": True}, "a finite number, or inf"),
        (math.inf, {"least": 0}, "a number of at least 0"),
        (math.nan, {"least": 0, "most": 1}, "a number in [0, 1]"),
        (10**400, {"least": 0}, "a number of at least 0"),
        (True, {"least": 0}, "a number of at least 0"),
        ("1", {"least": 0}, "a number of at least 0"),
        (1j, {}, "a finite number"),
        (np.array([0.5]), {}, "a finite number"),
    ],
)
def test_invalid_numbers_are_refused(given: Any, limits: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError) as caught:
        check_number("x", given, **limits)
    assert str(caught.value) == f"x = {abbreviate(given)}: give {complaint}"


@pytest.mark.parametrize("given", ["swap", "é — ε = ∞, 5 × 3", "日本語", "نمی‌خواهم", "a b"])
def test_texts_of_any_script_are_accepted(given: str) -> None:
    assert check_line("name", given) == given


@pytest.mark.parametrize(
    "given", ["\x1b[31mred", "two\nlines", "a\tb", "bell\x07", "\x9b2J", "a\u2028b", "\u202etxt", "\ud800"]
)
def test_control_characters_are_escaped(given: str) -> None:
    with pytest.raises(UserError, match="control characters") as caught:
        check_line("name", given)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("given", ["", "  ", 3, None, ["a"]])
def test_invalid_texts_are_refused(given: Any) -> None:
    with pytest.raises(UserError, match=r"give a text$"):
        check_line("name", given)


def test_nearest_word_is_suggested() -> None:
    assert suggest_nearest("run", ["runs", "seed"]) == "; did you mean 'runs'?"
    assert suggest_nearest("RUNS", ["runs", "seed"]) == "; did you mean 'runs'?"
    assert suggest_nearest("xyzzy", {"runs": 1, "seed": 2}) == "; known are runs, seed"
    assert suggest_nearest("xyzzy", []) == "; there are none"
    assert suggest_nearest(3, ["runs"]) == "; known are runs"


def test_values_are_abbreviated_to_one_line() -> None:
    assert abbreviate("a\x1b\nb") == r"'a\x1b\nb'"
    assert abbreviate(np.float64(0.1)) == "0.1"
    assert len(abbreviate(list(range(1000)))) == 60
    assert "\n" not in abbreviate(np.arange(100).reshape(10, 10))


def test_wrong_value_error_survives_pickling() -> None:
    with pytest.raises(WrongValueError) as caught:
        check_int("runs", 0)
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 -- our own
    assert str(copy) == str(caught.value)
    assert (copy.name, copy.value, copy.wanted) == ("runs", 0, "a whole number of at least 1")
    assert isinstance(copy, ValueError)


def test_devices_without_numpy_can_import_it() -> None:
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
import maskedbandits.errors
loaded = {{name.split(".")[0] for name in sys.modules}}
sys.exit(sorted(loaded - sys.stdlib_module_names - {{"__main__", "maskedbandits"}}) or 0)
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
