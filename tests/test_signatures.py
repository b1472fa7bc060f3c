"""Signatures as ``help()`` and ``?`` print them: short lines, names of types as in the docs, nothing changed."""

from __future__ import annotations

import collections.abc
import inspect
import pydoc
from collections.abc import Callable
from fractions import Fraction
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import maskedbandits as mb
from maskedbandits._util.signatures import FoldedSignature, fold_signature, fold_signatures

PUBLIC = [
    pytest.param(each, id=f"{name}.{each.__name__}")
    for name in mb.__all__
    for home in [getattr(mb, name)]
    for each in ([getattr(home, inner) for inner in home.__all__] if isinstance(home, ModuleType) else [home])
    if callable(each)
]


@pytest.mark.parametrize("value", PUBLIC)
def test_help_has_no_long_line(value: Any) -> None:
    lines = [line.removeprefix(" |  ").strip() for line in pydoc.plain(pydoc.render_doc(value)).splitlines()]
    signatures = [line for line in lines if not line.startswith("__")]  # pydoc cuts what Python adds
    assert max(map(len, signatures)) <= 120
    assert not [line for line in signatures if "collections.abc" in line or "ForwardRef" in line]


def test_signature_of_simulate_has_a_line_for_each_argument() -> None:
    lines = str(inspect.signature(mb.simulate)).splitlines()
    assert lines[:3] == ["(", "    problem: Problem | ContextualProblem | FeaturedProblem,", lines[2]]
    assert lines[6:8] == ["    *,", "    delay: Delays = None,"]
    assert lines[-2:] == ["    **parameters: Any,", ") -> Simulation"]


class Pair(NamedTuple):
    """A pair."""

    first: Fraction
    second: int


def every_kind(
    one: NDArray[np.float64],
    /,
    two: collections.abc.Sequence[Fraction],
    *rest: int,
    three: np.float64 | None = None,
    **others: str,
) -> Fraction:
    """Have every kind of parameter."""
    raise NotImplementedError


def bare(one, *, two=1):  # type: ignore[no-untyped-def]
    """Have no types."""


def test_types_have_short_names() -> None:
    assert str(fold_signature(every_kind)).splitlines() == [  # type: ignore[arg-type]
        "(",
        "    one: NDArray[float64],",
        "    /,",
        "    two: Sequence[Fraction],",
        "    *rest: int,",
        "    three: float64 | None = None,",
        "    **others: str,",
        ") -> Fraction",
    ]
    assert str(fold_signature(bare)) == "(one, *, two=1)"  # type: ignore[arg-type]


def test_folding_changes_only_the_text() -> None:
    class Example:
        def method(self, one: int, two: list[str] | None = None) -> None: ...

        @classmethod
        def build(cls, one: int) -> Example:
            raise NotImplementedError

    examples: list[Callable[..., object]] = [Example().method, Example.build, Pair]
    plain = [inspect.signature(each) for each in examples]
    fold_signatures(Example)
    fold_signatures(Pair)
    for before, value in zip(plain, examples, strict=True):
        after = inspect.signature(value)
        assert isinstance(after, FoldedSignature)
        assert [(each.name, each.kind, each.default) for each in after.parameters.values()] == [
            (each.name, each.kind, each.default) for each in before.parameters.values()
        ]
    assert str(inspect.signature(Pair)) == "(first: Fraction, second: int)"
    assert fold_signature(bare).format(max_width=10) == "(one, *, two=1)"  # type: ignore[arg-type]
