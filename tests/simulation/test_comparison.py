"""Comparisons of policies: names, paired differences, tables and figures."""

import math
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from maskedbandits import Problem, RandomizedResponse, compare, make_policy, simulate
from maskedbandits.errors import UserError

RR = RandomizedResponse.from_epsilon(1.0)
PROBLEM = Problem([[0.2, 0.7], [0.7, 0.2]], [0, 300], 600, RR)
STUDENT_95 = 2.7764451051977987  # 97.5 % quantile of Student's t with 4 degrees of freedom


class FirstArm:
    """Plays arm 0."""

    def __init__(self, generator: np.random.Generator) -> None:
        pass

    def choose(self) -> int:
        return 0

    def observe(self, arm: int, feedback: float) -> None:
        pass


def test_each_result_is_that_of_simulate() -> None:
    built = make_policy("klucb-cf", arms=2, corruption=RR, c=0.0)
    policies: dict[str, Any] = {"named": "auto", "built": built, "own": FirstArm}
    compared = compare(PROBLEM, policies, runs=3, seed=4, checkpoints=5)
    for name, policy in policies.items():
        alone = simulate(PROBLEM, policy, runs=3, seed=4, checkpoints=5)
        assert np.array_equal(compared[name].regret, alone.regret)
        assert compared[name].policy == name
    assert list(compared) == ["named", "built", "own"]


def test_differences_are_paired() -> None:
    compared = compare(PROBLEM, ["auto", "klucb-cf"], runs=5)
    pairs = list(zip(*(compared[name].regret[:, -1].tolist() for name in compared), strict=True))
    change = [second - first for first, second in pairs]
    mean = sum(change) / 5
    half = STUDENT_95 * math.sqrt(sum((each - mean) ** 2 for each in change) / 4) / math.sqrt(5)
    first, second = compared.differences()
    assert first == (0.0, 0.0, 0.0)
    assert second == pytest.approx((mean, mean - half, mean + half))


def test_parameters_come_with_their_policy() -> None:
    compared = compare(PROBLEM, [("sw-klucb-cf", {"window": 50}), ("sw-klucb-cf", {"window": "paper"})], runs=2)
    assert list(compared) == ["sw-klucb-cf (window=50)", "sw-klucb-cf (window=paper)"]


def test_table_has_a_line_for_each_policy() -> None:
    compared = compare(PROBLEM, ["oracle", FirstArm], runs=3)
    lines = repr(compared).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["policy", "oracle", "FirstArm"]
    assert "150.0 (150.0 to 150.0)" in lines[-1]  # arm 0 is worse by 0.5 in 300 steps
    assert "FirstArm" in compared._repr_html_()


def test_frame_and_figure_hold_all_policies() -> None:
    mpl.use("agg")
    compared = compare(PROBLEM, ["oracle", FirstArm, "uniform"], runs=2, checkpoints=4)
    frame = compared.frame("pandas")
    assert frame.groupby("policy", sort=False).size().to_dict() == {"oracle": 8, "FirstArm": 8, "uniform": 8}
    lines = compared.plot(log=True).lines
    assert [line.get_label() for line in lines] == list(compared)
    assert len({str(line.get_marker()) for line in lines}) == 3  # distinct without colours


def test_progress_covers_all_policies() -> None:
    seen: list[tuple[int, int]] = []
    compare(PROBLEM, ["oracle", FirstArm], runs=2, progress=lambda done, total: seen.append((done, total)))
    assert {total for _, total in seen} == {2 * 2 * 600}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (2400, 2400)


@pytest.mark.parametrize(
    ("policies", "given", "complaint"),
    [
        ("auto", {}, "a list"),
        ([], {}, "empty"),
        (["auto", "auto"], {}, "auto"),
        (["nope"], {}, "nope"),
        (["auto"], {"window": 5}, "window"),
        (["auto", 3], {}, "3"),
        ([("auto", {"runs": 5})], {}, "runs is an argument"),
        ([("auto", {"label": "mine"})], {}, "label"),
    ],
)
def test_wrong_policies_are_refused(policies: Any, given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        compare(PROBLEM, policies, runs=1, **given)


def test_dataset_has_an_axis_of_policies() -> None:
    pytest.importorskip("xarray")
    compared = compare(PROBLEM, ["oracle", FirstArm], runs=3, checkpoints=4)
    dataset = compared.to_xarray()
    assert dict(dataset.sizes) == {"policy": 2, "run": 3, "time": 4, "arm": 2}
    chosen = dataset.regret.sel(policy="FirstArm")
    assert chosen.values.tolist() == compared["FirstArm"].regret.tolist()
