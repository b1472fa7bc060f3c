import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_own as naive
import twins
from maskedbandits import Monotone, Policy, Problem, RandomizedResponse, load_policy, make_policy, simulate
from maskedbandits.core import private, state
from maskedbandits.policies import REGISTRY

RR = RandomizedResponse.from_epsilon(1.0)
MATRICES = [(0.9, 0.8), (0.2, 0.3), (0.7, 0.95), (1.0, 1.0)]
ALONE: dict[str, dict[str, Any]] = {
    "uniform": {},
    "auto": {},
    "oracle": {"restarts": [0, 40, 100], "best": [2, 0, 1]},
    "exp3s": {"horizon": 300, "changes": 3},
    "rexp3": {"horizon": 300, "variation": 2.0},
    "adswitch": {"horizon": 300, "strictness": 1.0, "finest": 2.0},
    "ldp-ucb-l": {"epsilon": 2.0},
    "dp-ucb": {"epsilon": 2.0},
}


def play_both(
    fast: Policy, slow: naive.Policy, means: list[list[float]], steps: int, seed: int, *, fractions: bool = False
) -> list[int]:
    """Both draw from generators of the same seed, and choose alike at every step; means take turns."""
    one, other = twins.generator(seed), twins.generator(seed)
    world = np.random.default_rng(seed + 1)
    chosen = []
    for step in range(steps):
        arm = twins.choose(fast, one)
        assert slow.choose(other) == arm, step
        mean = means[step * len(means) // steps][arm]
        feedback = mean * float(world.random()) if fractions else float(world.random() < mean)
        twins.observe(fast, arm, feedback, one)
        slow.observe(arm, feedback, other)
        assert twins.same(one, other)
        chosen.append(arm)
    return chosen


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("arms", [1, 2, 4])
@pytest.mark.parametrize("fractions", [False, True])
def test_exponential_weights_play_as_the_papers_say(seed: int, arms: int, fractions: bool) -> None:
    matrices = MATRICES[:arms]
    gain = naive.gains(matrices)
    each = [RandomizedResponse(*one) for one in matrices]
    means = [[0.9, 0.1, 0.5, 0.4][:arms], [0.1, 0.9, 0.5, 0.6][:arms]]
    fast = make_policy("exp3s", arms=arms, corruption=each, horizon=500, changes=2)
    play_both(fast, naive.exp3s(arms, gain, 500, 2), means, 500, seed, fractions=fractions)
    if arms > 1:
        fast = make_policy("rexp3", arms=arms, corruption=each, horizon=500, variation=3.0)
        slow = naive.rexp3(arms, gain, 500, 3.0 / naive.width(matrices))
        assert slow.batch < 250
        play_both(fast, slow, means, 500, seed, fractions=fractions)


def test_one_response_for_all_arms_leaves_the_feedback_as_the_gain() -> None:
    """Then debiasing and scaling the learning rate for the range cancel out."""
    masked = make_policy("exp3s", arms=3, corruption=RR, horizon=400)
    plain = make_policy("exp3s", arms=3, corruption=RandomizedResponse(1, 1), horizon=400)
    for step in range(400):
        arm = twins.choose(masked, twins.generator(step))
        assert twins.choose(plain, twins.generator(step)) == arm
        bit = float(np.random.default_rng(step).random() < 0.3 + 0.2 * arm)
        masked.observe(arm, bit)
        plain.observe(arm, bit)
    assert masked.indices() == pytest.approx(plain.indices(), rel=1e-9)
    assert masked.indices().sum() == pytest.approx(1.0)


def test_weights_stay_finite_over_a_long_play() -> None:
    for name in ("exp3s", "rexp3"):
        parameters = {"variation": 0} if name == "rexp3" else {}
        policy = make_policy(name, arms=2, corruption=RandomizedResponse(1, 1), horizon=200, **parameters)
        for step in range(20_000):
            if name == "rexp3" and step % 200 == 0:
                assert policy.indices() == pytest.approx([0.5, 0.5])
            policy.observe(0, 1)
            assert np.all(np.isfinite(policy.indices()))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("arms", "finest"), [(1, 16.0), (2, 4.0), (3, 2.0), (4, 16.0)])
def test_adswitch_plays_as_described(seed: int, arms: int, finest: float) -> None:
    matrices = [(1.0, 1.0), (0.05, 0.0), (1.0, 0.95), (0.95, 1.0)][:arms]
    each = [RandomizedResponse(*one) for one in matrices]
    rewards = [[0.95, 0.1, 0.2, 0.3][:arms], [0.05, 0.9, 0.2, 0.3][:arms]]
    means = [[g(mean) for g, mean in zip(each, row, strict=True)] for row in rewards]
    fast = make_policy("adswitch", arms=arms, corruption=each, horizon=60, strictness=1.0, finest=finest)
    slow = naive.AdSwitch(arms, naive.gains(matrices), 60, 1.0, finest)
    play_both(fast, slow, means, 200 + 100 * arms, seed)
    assert fast.restarts == slow.episode - 1
    if arms > 1:
        assert slow.evictions > 0
        assert slow.checks > 0
        assert fast.restarts > 0


def test_adswitch_notices_an_evicted_arm_that_became_best() -> None:
    certain = RandomizedResponse(1, 1)
    world = Problem([[0.8, 0.1], [0.8, 1.0]], [0, 4000], 14_000, certain)
    policy = make_policy("adswitch", arms=2, corruption=certain, horizon=14_000, strictness=2.0, finest=2.0)
    pulls = simulate(world, policy, runs=4).suboptimal_pulls
    assert pulls[:, 0].max() < 6000  # of the 10,000 steps in which arm 0 is second best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("arms", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.3, 4.0, 100.0])
def test_private_policies_play_as_described(seed: int, arms: int, epsilon: float) -> None:
    means = [[0.9, 0.1, 0.5, 0.4, 0.2][:arms]]
    local = make_policy("ldp-ucb-l", arms=arms, epsilon=epsilon)
    play_both(local, naive.LaplaceUCB(arms, epsilon), means, 300, seed)
    central = make_policy("dp-ucb", arms=arms, epsilon=epsilon)
    play_both(central, naive.CentralUCB(arms, epsilon), means, 300, seed, fractions=True)


@pytest.mark.parametrize("seed", range(3))
def test_uniform_and_oracle(seed: int) -> None:
    chosen = play_both(make_policy("uniform", arms=3), naive.Uniform(3), [[0.5] * 3], 600, seed)
    assert set(chosen) == {0, 1, 2}
    policy = make_policy("oracle", arms=3, **ALONE["oracle"])
    arms = []
    for _ in range(150):
        arms.append(policy.choose())
        policy.observe(arms[-1], 0)
    assert arms == [2] * 40 + [0] * 60 + [1] * 50


def test_without_noise_local_privacy_is_ucb_that_looks_at_all_arms_first() -> None:
    free = make_policy("ldp-ucb-l", arms=2, epsilon=math.inf)
    for _ in range(400):
        arm = free.choose()
        free.observe(arm, float(arm))
    log = math.log(401)
    counts = state.views(free._ints, free._floats).counts
    assert counts.sum() == 400
    assert free.indices() == pytest.approx([math.sqrt(2 * log / counts[0]), 1 + math.sqrt(2 * log / counts[1])])


def test_ldp_ucb_b_is_ucb_cf() -> None:
    world = Problem([[0.8, 0.3, 0.2]], [0], 2000, RR)
    assert np.array_equal(simulate(world, "ldp-ucb-b", runs=3).pulls, simulate(world, "ucb-cf", runs=3).pulls)


@pytest.mark.parametrize("count", [1, 3, 64, 127])
def test_the_noise_of_a_public_sum_keeps_within_its_bound(count: int) -> None:
    """The bound for t has a probability of t^-4; here t = 2, so that it is missed often enough to be seen."""
    rng = twins.generator(count)
    errors = np.array([public_error(count, 0.7, rng) for _ in range(400)])
    assert np.mean(np.abs(errors) > private.noise_bound(count, 0.7, 2.0)) <= 2 * 2.0**-4
    level = count.bit_length() - 1
    nodes = (count - (1 << level)).bit_count()
    variance = 2 * (2 / 0.7) ** 2 * (level + 1 + nodes * level**2)
    assert np.mean(errors) == pytest.approx(0.0, abs=5 * math.sqrt(variance / 400))
    assert np.var(errors) == pytest.approx(variance, rel=0.5)


def public_error(count: int, epsilon: float, rng: np.random.Generator) -> float:
    policy = make_policy("dp-ucb", arms=1, epsilon=epsilon)
    for _ in range(count):
        twins.observe(policy, 0, 1, rng)
    return float(state.views(policy._ints, policy._floats).sums[0] - count)


@pytest.mark.parametrize("name", sorted(ALONE))
def test_the_simulator_plays_as_the_live_policy_does(name: str) -> None:
    world = Problem([[0.9, 0.4, 0.2], [0.1, 0.4, 0.9]], [0, 170], 300, RR)
    policy = make_policy(name, arms=3, corruption=RR, **ALONE[name])
    got = simulate(world, policy, runs=2, seed=7, checkpoints=3, threads=1)
    for run, seed in enumerate(np.random.SeedSequence(7).spawn(2)):
        rng = twins.generator(seed)
        live = make_policy(name, arms=3, corruption=RR, **ALONE[name])
        pulls = [0, 0, 0]
        for step in range(300):
            arm = twins.choose(live, rng)
            shown = world.means if REGISTRY[name].sees_rewards else world.feedback_means
            twins.observe(live, arm, float(rng.random() < shown[int(step >= 170), arm]), rng)
            pulls[arm] += 1
        assert got.pulls[run].tolist() == pulls
    again = simulate(world, policy, runs=2, seed=7, checkpoints=3, threads=2)
    assert np.array_equal(again.regret, got.regret)


@pytest.mark.parametrize(
    ("name", "changed", "complaint"),
    [
        ("exp3s", {"horizon": ...}, "needs the parameter 'horizon'"),
        ("exp3s", {"horizon": None}, "needs the parameter 'horizon'"),
        ("exp3s", {"changes": 0}, "changes = 0"),
        ("rexp3", {"variation": -1}, "variation = -1"),
        ("rexp3", {"variation": ...}, "needs the parameter 'variation'"),
        ("adswitch", {"strictness": "a"}, "strictness"),
        ("adswitch", {"finest": 1}, "finest"),
        ("oracle", {"best": [0, 1]}, "best has 2 arms for 3 segments"),
        ("oracle", {"best": [0, 1, 3]}, "arms are numbered 0 to 2"),
        ("oracle", {"best": [0, 1, -1]}, "best"),
        ("oracle", {"best": "012"}, "best"),
        ("oracle", {"restarts": [1, 2, 3]}, "the first of them 0"),
        ("oracle", {"restarts": "doubling"}, "the first of them 0"),
        ("oracle", {"restarts": [], "best": []}, "the first of them 0"),
        ("dp-ucb", {"epsilon": 0}, "epsilon = 0"),
        ("ldp-ucb-l", {"epsilon": math.nan}, "epsilon = nan"),
        ("ldp-ucb-l", {"epsilon": True}, "epsilon = True"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(name: str, changed: dict[str, Any], complaint: str) -> None:
    given = {key: value for key, value in {**ALONE[name], **changed}.items() if value is not ...}
    with pytest.raises(ValueError, match=complaint) as caught:
        make_policy(name, arms=3, corruption=RR, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["exp3s", "rexp3", "adswitch"])
def test_a_curve_cannot_be_debiased_report_by_report(name: str) -> None:
    with pytest.raises(ValueError, match="give a RandomizedResponse"):
        make_policy(name, arms=2, corruption=Monotone(lambda x: 0.1 + 0.8 * x * x), **ALONE[name])


@pytest.mark.parametrize("name", sorted(ALONE))
def test_a_corruption_of_a_report_is_refused(name: str) -> None:
    policy = make_policy(name, arms=3, corruption=RR, **ALONE[name])
    with pytest.raises(ValueError, match="no corruption"):
        policy.observe(0, 1, RR)
    assert policy.observations == 0


@pytest.mark.parametrize("name", sorted(ALONE))
@settings(max_examples=30)
@given(data=st.data())
def test_a_changed_number_in_a_file_is_refused_or_harmless(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    policy = make_policy(name, arms=3, corruption=RR, **ALONE[name])
    rng = np.random.default_rng(0)
    for bit in rng.integers(0, 2, 120):
        policy.observe(policy.choose(), float(bit))
    if data.draw(st.booleans()):
        policy._ints[data.draw(st.integers(0, policy._ints.size - 1))] = data.draw(st.integers(-(2**63), 2**63 - 1))
    else:
        policy._floats[data.draw(st.integers(0, policy._floats.size - 1))] = data.draw(st.floats())
    path: Path = tmp_path_factory.getbasetemp() / f"changed-{name}"
    policy.save(path)
    try:
        copy = load_policy(path)
    except ValueError:
        return
    for bit in [0, 1] * 50:
        arm = copy.choose()
        assert 0 <= arm < 3
        copy.observe(arm, bit)
        copy.indices()
