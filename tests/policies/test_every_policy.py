"""One contract for all names.

Live policies are tried under every name. What the simulator does is one loop around the same code, and every name has a
digest of it (`digests.py`): a few kinds of each family are enough here.
"""

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maskedbandits import Problem, load_policy, simulate
from maskedbandits.policies import KINDS, names
from specimens import CERTAIN, RR, specimen
from trials import INTERPRETED, generator
from twins import choose, observe, stream

LONG = 2000 if INTERPRETED else 100_000
PLAYED = ["adswitch", "auto", "d-ucb-cf", "exp3s", "glr-klucb-cf", "klucb-cf", "oracle", "sw-klucb-cf", "ts-cf"]


@pytest.fixture(params=names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_learns_easy_problem(name: str) -> None:
    if name == "uniform":
        return  # it never learns
    rng = generator(1)
    policy = specimen(name, corruption=CERTAIN)
    chosen = []
    for _ in range(1000):
        arm = choose(policy, rng)
        observe(policy, arm, float(rng.random() < [0.05, 0.95, 0.05][arm]), rng)
        chosen.append(arm)
    assert np.mean(np.array(chosen) == 1) > 0.6


def test_one_arm_is_always_chosen(name: str) -> None:
    policy = specimen(name, arms=1)
    for bit in [0, 1] * 50:
        assert policy.choose() == 0
        policy.observe(0, bit)


@pytest.mark.parametrize("bit", [0, 1])
def test_survives_equal_feedback(name: str, bit: int) -> None:
    policy = specimen(name)
    for _ in range(300):
        policy.observe(policy.choose(), bit)
    assert np.all(np.isfinite(policy.indices()))


def test_pulls_every_arm_first(name: str) -> None:
    if not KINDS[name].on_axes or "ts" in name.split("-"):
        return  # an arm never seen has a prior, and need not come first; or it need not be seen at all
    policy = specimen(name, arms=7)
    seen = []
    for _ in range(7):
        seen.append(policy.choose())
        policy.observe(seen[-1], 1)
    assert seen == list(range(7))


def test_saved_policy_continues_exactly(name: str, tmp_path: Path) -> None:
    draws = np.random.default_rng(3).random(300)
    for until in (0, 1, 5, 39, 40, 41, 150):
        one = specimen(name)
        stream(one, draws[:until])
        path = tmp_path / "policy"
        one.save(path)
        copy = load_policy(path, exact=True)
        assert stream(one, draws[until:]) == stream(copy, draws[until:])
        assert np.array_equal(copy.indices(), one.indices())
        assert (copy.name, copy.parameters, copy.observations) == (name, one.parameters, 300)


def test_invalid_report_is_refused_without_effect(name: str) -> None:
    policy = specimen(name)
    stream(policy, np.random.default_rng(0).random(20))
    before = pickle.dumps(policy)
    for arm, feedback in [(3, 1), (-1, 1), (0, 1.5), (0, -0.1), (0, math.nan), (0, math.inf), (1 << 70, 0)]:
        with pytest.raises(ValueError, match=r"out of range|not exist"):
            policy.observe(arm, feedback)
    wrong: list[tuple[Any, Any]] = [("0", 1), (0.0, 1), (None, 1), (True, 1), (0, "x"), (0, None)]
    for place, value in wrong:
        with pytest.raises(ValueError, match="number"):
            policy.observe(place, value)
    assert pickle.dumps(policy) == before


def test_estimates_are_means_of_rewards(name: str) -> None:
    policy = specimen(name)
    assert np.all(np.isnan(policy.estimates()))
    rng = generator(0)
    for arm, bit in [(0, 1), (1, 0), (2, 1), (2, 0)]:
        observe(policy, arm, bit, rng)
    rough = "gamma" in policy.parameters or KINDS[name].sees_rewards  # faded, or masked with noise
    assert policy.estimates() == pytest.approx([1.0, 0.0, 0.5], abs=0.5 if rough else 1e-9)
    assert name in repr(policy)


def test_report_mask_is_accepted_or_refused(name: str) -> None:
    policy = specimen(name)
    if KINDS[name].takes_masks:
        policy.observe(0, 1, RR)
        assert policy.observations == 1
        return
    with pytest.raises(ValueError, match="single report"):
        policy.observe(0, 1, RR)
    assert policy.observations == 0


@pytest.mark.parametrize("played", PLAYED)
@pytest.mark.parametrize("means", [[0.0] * 3, [1.0] * 3, [0.5] * 3, [0.0, 1.0, 0.0], [0.5]], ids=str)
def test_survives_long_plays(played: str, means: list[float]) -> None:
    """Among them 10^5 equal feedbacks, identical means, means 0 and 1, and a single arm."""
    problem = Problem([means], [0], LONG if len(set(means)) == 1 else 3000, CERTAIN)
    result = simulate(problem, specimen(played, len(means), CERTAIN), runs=1, threads=1)
    assert np.all(np.isfinite(result.regret))
    assert result.pulls.sum() == problem.horizon
    if len(set(means)) == 1:
        assert result.regret[0, -1] == 0


@pytest.mark.parametrize("played", PLAYED)
def test_same_seed_gives_same_numbers(played: str) -> None:
    problem = Problem([[0.9, 0.4, 0.5], [0.2, 0.4, 0.8]], [0, 400], 900, RR)
    one, two, other = (
        simulate(problem, specimen(played), runs=3, seed=seed, threads=threads, checkpoints=10)
        for seed, threads in ((5, 1), (5, 2), (6, 1))
    )
    assert np.array_equal(one.regret, two.regret)
    assert np.array_equal(one.pulls, two.pulls)
    steady = ("oracle", "adswitch")  # which still takes turns at this length
    assert len({tuple(row) for row in one.regret.tolist() + other.regret.tolist()}) > 1 or played in steady


@pytest.mark.parametrize("played", [*PLAYED, "dp-ucb"])
def test_live_play_equals_simulation(played: str) -> None:
    """The same generator, asked in the same order, gives the same play."""
    problem = Problem([[0.9, 0.4, 0.5], [0.2, 0.4, 0.8]], [0, 150], 300, RR)
    result = simulate(problem, specimen(played), runs=2, seed=5)
    for run, seed in enumerate(np.random.SeedSequence(5).spawn(2)):
        rng = generator(seed)
        policy, pulls = specimen(played), [0, 0, 0]
        for step in range(300):
            arm = choose(policy, rng)
            shown = problem.means if KINDS[played].sees_rewards else problem.feedback_means
            observe(policy, arm, float(rng.random() < shown[int(step >= 150), arm]), rng)
            pulls[arm] += 1
        assert result.pulls[run].tolist() == pulls


def test_ldp_ucb_b_is_ucb_cf() -> None:
    world = Problem([[0.8, 0.3, 0.2]], [0], 2000, RR)
    assert np.array_equal(simulate(world, "ldp-ucb-b", runs=3).pulls, simulate(world, "ucb-cf", runs=3).pulls)
