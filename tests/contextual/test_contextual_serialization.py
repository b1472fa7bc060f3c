"""Files of contextual policies: what contradicts itself, is too much or is for another loader is refused in a line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maskedbandits import (
    RandomizedResponse,
    load_contextual,
    load_featured,
    load_policy,
    make_contextual,
    make_featured,
    make_policy,
)
from maskedbandits.errors import UserError
from maskedbandits.privacy import Partition

pytestmark = pytest.mark.plain
MASK = RandomizedResponse.from_epsilon(1)
Arrays = dict[str, Any]


def saved(path: Path, **others: Any) -> Arrays:
    options: dict[str, Any] = {"groups": 3, "arms": 2, "epsilon": 1, "shares": [0.2, 0.3, 0.5], "seed": 1, **others}
    policy = make_contextual(options.pop("name", "klucb-cf"), **options)
    for _ in range(10):
        policy.observe(policy.ask(), 1)
    policy.save(path)
    with np.load(path) as file:
        return dict(file)


def with_about(arrays: Arrays, **changes: Any) -> Arrays:
    return {**arrays, "about": np.array(json.dumps({**json.loads(str(arrays["about"])), **changes}))}


def swapped(arrays: Arrays) -> Arrays:
    """What the first two groups know, each the other's."""
    order = [0, 2, 1, 3]
    rows = {key: arrays[key].reshape(4, -1)[order].reshape(-1) for key in ("ints", "floats")}
    return {**arrays, "own": arrays["own"][order], **rows}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda arrays: with_about(arrays, epsilon="2"), "contradict each other"),
        (lambda arrays: with_about(arrays, kinds=["bit", "one of many"]), "contradict each other"),
        (lambda arrays: with_about(arrays, kinds=["one of many", "bit"]), "contradict each other"),
        (lambda arrays: with_about(arrays, tree=True), "contradict each other"),
        (lambda arrays: with_about(arrays, shares=[0.3, 0.2, 0.5]), "contradict each other"),
        (lambda arrays: with_about(arrays, shares=None), "contradict each other"),
        (lambda arrays: with_about(arrays, parts=[[0, 0, 1], [0, 1, 2]]), "number of policies is wrong"),
        (lambda arrays: with_about(arrays, format=3), "saved in another format"),
        (lambda arrays: with_about(arrays, policy={"format": 1}), "saved in another format"),
        (lambda arrays: with_about(arrays, policy=7), "saved in another format"),
        (swapped, "contradict each other"),
        (lambda arrays: {**arrays, "ints": np.zeros(1 << 20, dtype=np.int64)}, "more content than its header"),
        (lambda arrays: {**arrays, "ints": arrays["ints"][:-1]}, "the lengths disagree"),
        (lambda arrays: {**arrays, "named": np.zeros(1 << 24, dtype=np.int64)}, "more content than its header"),
    ],
)
def test_contradictory_file_is_refused(change: Callable[[Arrays], Arrays], complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "policy"
    arrays = saved(path)
    assert load_contextual(path).observations == 10
    with path.open("wb") as stream:
        np.savez_compressed(stream, **change(arrays))
    with pytest.raises(UserError, match=complaint) as caught:
        load_contextual(path)
    assert "\n" not in str(caught.value)


def test_policies_of_other_epsilon_are_refused(tmp_path: Path) -> None:
    one, other = saved(tmp_path / "one"), saved(tmp_path / "other", epsilon=1.1)
    with (tmp_path / "mixed").open("wb") as stream:
        np.savez(stream, **{**other, "about": one["about"]})
    with pytest.raises(UserError, match="groups"):
        load_contextual(tmp_path / "mixed")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pool": False, "shares": None},
        {"answers": "one of many", "contamination": 0.1},
        {"name": "auto", "contamination": 0.1},
        {"groups": None, "shares": None, "partition": Partition.tree(2, 2)},
        {"groups": None, "shares": None, "partition": Partition.tree(1, 3), "epsilon": 6},
        {"groups": 7, "shares": np.arange(1.0, 8.0) ** 3 / 784},
        {"groups": 1, "shares": None},
    ],
)
def test_every_grouping_is_loaded(options: dict[str, Any], tmp_path: Path) -> None:
    saved(tmp_path / "one", **options)
    once = load_contextual(tmp_path / "one", exact=True)
    once.save(tmp_path / "two")
    twice = load_contextual(tmp_path / "two", exact=True)
    assert twice.fold_digest() == once.fold_digest()
    assert [twice.ask() for _ in range(3)] == [once.ask() for _ in range(3)]


def test_wrong_loader_names_the_right_one(tmp_path: Path) -> None:
    make_policy("klucb-cf", arms=2, corruption=MASK).save(tmp_path / "load_policy")
    make_featured("logistic-ts-cf", arms=2, features=2, corruption=MASK).save(tmp_path / "load_featured")
    saved(tmp_path / "load_contextual")
    loaders: list[Any] = [load_policy, load_featured, load_contextual]
    for load in loaders:
        for right in (each.__name__ for each in loaders if each is not load):
            with pytest.raises(UserError, match=f"load it with {right}$"):
                load(tmp_path / right)


@pytest.mark.parametrize("load", [load_featured, load_contextual])
def test_folder_is_refused(load: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="directory"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
