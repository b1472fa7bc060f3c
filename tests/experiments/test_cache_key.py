"""Cache keys of cells: equal numbers have equal keys, and other forms of a number change no key of before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maskedbandits as mb
from maskedbandits.experiments.cache_key import build_specs

MASK = mb.RandomizedResponse.from_epsilon(1.0)
SWAP = mb.Problem([[0.9, 0.1], [0.1, 0.9]], [0, 300], 600, MASK)


def key_of(policy: Any, epsilons: Any = 1, **options: Any) -> tuple[str, int]:
    [spec] = build_specs(mb.Experiment(SWAP, policy, epsilons=epsilons, **options).config)
    return spec.key, spec.facts["seed"]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("klucb-cf", {"c": 0}),
        ("sw-klucb-cf", {"window": 500}),
        ("oracle-klucb-cf", {"restarts": [0, 300]}),
        ("rexp3", {"variation": 1}),
        ("ldp-ucb-l", {"epsilon": 1}),
        ("exp3s", {"changes": 2, "horizon": 600}),
    ],
)
def test_equal_numbers_have_equal_keys(name: str, parameters: dict[str, Any]) -> None:
    floats = {
        key: [*map(float, value)] if isinstance(value, list) else float(value) for key, value in parameters.items()
    }
    arrays = {key: np.asarray(value) for key, value in floats.items()}
    keys = {key_of((name, given)) for given in (parameters, floats, arrays)}
    assert len(keys) == 1


def test_equal_numbers_elsewhere_have_equal_keys() -> None:
    assert key_of("uniform", runs=2, seed=3, checkpoints=[100, 600]) == key_of(
        "uniform", runs=2.0, seed=np.float64(3), checkpoints=np.array([100.0, 600.0]), epsilons=np.int64(1)
    )


def test_value_that_is_filled_in_has_the_key_of_one_that_is_given() -> None:
    assert key_of("ldp-ucb-l") == key_of(("ldp-ucb-l", {"epsilon": 1}))
    assert key_of("rexp3") == key_of(("rexp3", {"variation": SWAP.variation, "horizon": 600.0}))


@pytest.mark.parametrize("other", [0.5, 1, 1e-300, 1e300])
def test_different_numbers_have_different_keys(other: float) -> None:
    assert key_of(("klucb-cf", {"c": 0})) != key_of(("klucb-cf", {"c": other}))


def test_seeds_of_cells_stay_as_they_are() -> None:
    """They follow from the text of a cell: whole numbers have no point, a filled-in epsilon has one."""
    seeds = [
        key_of(policy)[1] for policy in (("klucb-cf", {"c": 0}), "ldp-ucb-l", ("sw-klucb-cf", {"window": "paper"}))
    ]
    assert seeds == [6644845784689073923, 2451313736174857627, 6063510186660273422]


def test_plain_python_may_tell_forms_of_a_number_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "class Plain:\n    def __init__(self, generator, count): pass\n    choose = observe = None\n"
    (tmp_path / "cache_key_policy.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    keys = {key_of(("cache_key_policy:Plain", {"count": count})) for count in (1, 1.0)}
    assert len(keys) == 2
