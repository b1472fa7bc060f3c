"""Policies over public features: the same choices as slow twins, and what is promised of them."""

import copy
import math
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.private import live_state, lock_of
from maskedbandits import Featured, RandomizedResponse, load_featured, make_featured
from maskedbandits._numba.jit import interpret
from maskedbandits.errors import UserError
from maskedbandits.features import NAMES, linear
from maskedbandits.features.kernels import choose_live, observe_live
from maskedbandits.math import logistic
from maskedbandits.math.linalg import invert
from naive.features import DiscountedLinUCB, LogisticTS, Policy, sigma

ARMS, D = 3, 4
masked, half_width = interpret(logistic.masked_sigmoid), interpret(linear.half_width)
MASK = RandomizedResponse.from_epsilon(1)
MASKS = [MASK, RandomizedResponse(1, 1), RandomizedResponse(0.9, 0.6), RandomizedResponse(0.2, 0.1)]
CASES: list[tuple[str, dict[str, float]]] = [
    ("logistic-ts-cf", {}),
    ("logistic-ts-cf", {"gamma": 0.97, "prior": 0.7}),
    ("logistic-ts-cf", {"gamma": 0.5, "prior": 2.0}),
    ("d-linucb-cf", {"gamma": 0.97}),
    ("d-linucb-cf", {"gamma": 1.0, "size": 2.0, "ridge": 0.3, "delta": 0.2}),
    ("d-linucb-cf", {"gamma": 0.6, "ridge": 5.0}),
]


def pair(name: str, mask: RandomizedResponse, parameters: dict[str, float]) -> tuple[Featured, Policy]:
    """A policy, and its twin."""
    twin: type[Any] = LogisticTS if name == "logistic-ts-cf" else DiscountedLinUCB
    ours = make_featured(name, arms=ARMS, features=D, corruption=mask, seed=7, **parameters)
    return ours, twin(ARMS, D, mask.p00, mask.p11, **parameters)


def stream(steps: int, seed: int = 1) -> Any:
    """Features of all sizes, and draws that decide the feedback."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        yield np.append(1.0, rng.normal(size=D - 1) * rng.choice([0.1, 1.0, 5.0])), rng.random()


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_policy_equals_twin(name: str, parameters: dict[str, float], mask: RandomizedResponse) -> None:
    ours, twin = pair(name, mask, parameters)
    rng = np.random.Generator(np.random.SFC64(7))
    seen = set()
    for x, draw in stream(80):
        arm = ours.choose(x)
        assert arm == twin.choose(x, rng)
        feedback = float(draw < mask(sigma(float(x[1]) - arm))) if draw < 0.9 else draw
        ours.observe(x, arm, feedback)
        twin.observe(x, arm, feedback)
        seen.add(arm)
        estimates = ours.estimates(x)
        expected = [twin.estimate(x, each) if each in seen else math.nan for each in range(ARMS)]
        assert estimates == pytest.approx(expected, rel=1e-6, abs=1e-9, nan_ok=True)
    assert len(seen) > 1


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_interpreter_gives_the_same(name: str, parameters: dict[str, float]) -> None:
    ours, _ = pair(name, MASK, parameters)
    other, _ = pair(name, MASK, parameters)
    for x, draw in stream(40):
        arm = ours.choose(x)
        assert interpret(choose_live)(live_state(other), x) == arm
        ours.observe(x, arm, float(draw < 0.5))
        interpret(observe_live)(live_state(other), x, arm, float(draw < 0.5))
    for one, two in zip(live_state(ours), live_state(other), strict=True):
        assert two == pytest.approx(one, rel=1e-9)


@given(z=st.floats(-29, 29), p00=st.floats(0, 1), p11=st.floats(0, 1))
def test_link_is_that_of_randomised_response(z: float, p00: float, p11: float) -> None:
    one, zero, slope = masked(z, p00, p11)
    assert one == pytest.approx(1 - p00 + (p00 + p11 - 1) * sigma(z), abs=1e-12)
    assert one + zero == pytest.approx(1.0)
    step = 1e-4
    rise = masked(z + step, p00, p11)[0] - masked(z - step, p00, p11)[0]
    assert slope == pytest.approx(rise / (2 * step), abs=1e-8)


def test_link_of_symmetric_masks() -> None:
    s = math.tanh(0.5)  # of epsilon = 1
    for z in (-3.0, 0.0, 0.4, 8.0):
        assert masked(z, MASK.p00, MASK.p11)[0] == pytest.approx(0.5 + s * (sigma(z) - 0.5), abs=1e-15)


@given(seed=st.integers(0, 10_000), size=st.integers(1, 8), least=st.floats(1e-3, 10))
def test_inverse_is_exact(seed: int, size: int, least: float) -> None:
    rows = np.random.default_rng(seed).normal(size=(size + 2, size)) * 3
    matrix, out = rows.T @ rows + least * np.eye(size), np.zeros((size, size))
    invert(matrix, least, out)
    assert out == pytest.approx(np.linalg.inv(matrix), rel=1e-6, abs=1e-9)


extreme = st.sampled_from([-100.0, -1.0, -1e-9, 0.0, 1.0, 3.0, 100.0])
steps = st.tuples(st.lists(extreme, min_size=D, max_size=D), st.integers(0, ARMS - 1), st.sampled_from([0.0, 0.5, 1.0]))


@settings(deadline=None)
@given(
    case=st.sampled_from(CASES),
    mask=st.sampled_from(MASKS),
    seen=st.lists(steps, max_size=30),
    often=st.integers(1, 30),
)
def test_numbers_stay_finite(case: Any, mask: RandomizedResponse, seen: Any, often: int) -> None:
    name, parameters = case
    policy, _ = pair(name, mask, parameters)
    for x, arm, feedback in seen:
        for _ in range(often):
            policy.observe(x, arm, feedback)
    assert policy.choose([1.0, 100.0, -100.0, 0.5]) in range(ARMS)
    state = live_state(policy)
    assert all(np.isfinite(part).all() for part in state)
    for matrix in state.covariances if name == "logistic-ts-cf" else state.grams:
        assert matrix == pytest.approx(matrix.T, rel=1e-6, abs=1e-9 * np.abs(matrix).max())
        assert np.linalg.eigvalsh(matrix).min() > -1e-9 * np.abs(matrix).max()
    if name == "logistic-ts-cf":
        assert np.diagonal(state.covariances, axis1=1, axis2=2).max() <= state.prior * (1 + 1e-9)


def test_forgetting_keeps_covariance_valid() -> None:
    """25 streams of features far apart in size, each repeated: what two halves of a matrix differ by must not grow."""
    rng = np.random.default_rng(1)
    for _ in range(25):
        policy = make_featured("logistic-ts-cf", arms=ARMS, features=D, corruption=MASKS[1], gamma=0.5, prior=2.0)
        for _ in range(25):
            x, arm = rng.choice([-100.0, -1.0, -1e-9, 0.0, 1.0, 3.0, 100.0], D), int(rng.integers(ARMS))
            feedback = float(rng.choice([0.0, 0.5, 1.0]))
            for _ in range(25):
                policy.observe(x, arm, feedback)
        for matrix in live_state(policy).covariances:
            assert np.abs(matrix - matrix.T).max() <= 1e-9 * np.abs(matrix).max()
            assert np.linalg.eigvalsh(matrix).min() > 0.0


def test_forgetting_stops_at_prior() -> None:
    policy = make_featured("logistic-ts-cf", arms=2, features=2, corruption=MASK, gamma=0.9, prior=0.5)
    for _ in range(50):
        policy.observe([1.0, 2.0], 0, 1)
    assert live_state(policy).covariances[0, 0, 0] < 0.25
    for _ in range(500):
        policy.observe([1.0, 2.0], 1, 1)
    assert np.diagonal(live_state(policy).covariances[0]) == pytest.approx([0.25, 0.25])
    assert policy.estimates([1.0, 2.0])[0] > 0.6


def test_estimates_find_weights() -> None:
    """Through epsilon = 2, 15,000 reports; a standard error is below 0.08."""
    mask, weights = RandomizedResponse.from_epsilon(2), np.array([0.3, -1.0, 0.5])
    policy = make_featured("logistic-ts-cf", arms=1, features=3, corruption=mask, seed=1)
    rng = np.random.default_rng(5)
    for x in np.column_stack([np.ones(15_000), rng.normal(size=(15_000, 2))]):
        policy.observe(x, 0, float(rng.random() < mask(sigma(float(x @ weights)))))
    error = np.sqrt(np.diagonal(live_state(policy).covariances[0]))
    assert error.max() < 0.08
    assert np.abs(live_state(policy).means[0] - weights).max() < 4 * error.max()


def test_proved_interval_holds() -> None:
    """Of 120 worlds at most 0.3 may miss at delta = 0.3; a quarter of the proved width misses more often."""
    missed = np.zeros(2)
    for seed in range(120):
        rng = np.random.default_rng(seed)
        weights = np.array([[0.5, 0.4], [0.5, -0.4]])
        policy = make_featured(
            "d-linucb-cf", arms=2, features=2, corruption=MASK, gamma=0.99, delta=0.3, size=0.7, ridge=1.0
        )
        for second in rng.uniform(-1, 1, 150):
            x = np.array([1.0, second])
            arm = policy.choose(x)
            policy.observe(x, arm, float(rng.random() < MASK(float(weights[arm] @ x))))
        for place, share in enumerate((1.0, 0.25)):
            off = [
                abs(float((live_state(policy).weights[arm] - weights[arm]) @ x))
                > share * half_width(live_state(policy), x, arm)
                for arm in range(2)
            ]
            missed[place] += any(off)
    assert missed[0] <= 0.3 * 120
    assert missed[1] > missed[0]


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("parameters", [parameters for name, parameters in CASES if name == "d-linucb-cf"])
def test_width_is_the_proved_one(parameters: dict[str, Any], mask: RandomizedResponse) -> None:
    """As the twin works it out from all that was seen, with every constant of the theorem; and half of it, if asked."""
    ours, twin = pair("d-linucb-cf", mask, parameters)
    half = make_featured("d-linucb-cf", arms=ARMS, features=D, corruption=mask, width=0.5, **parameters)
    assert isinstance(twin, DiscountedLinUCB)
    for step, (x, draw) in enumerate(stream(40)):
        for arm in range(ARMS):
            _, width = twin.interval(x, arm)
            assert half_width(live_state(ours), x, arm) == pytest.approx(width, rel=1e-6)
            assert half_width(live_state(half), x, arm) == pytest.approx(0.5 * width, rel=1e-6)
        for each in (ours, half, twin):
            each.observe(x, step % ARMS, float(draw < 0.5))


def test_width_by_hand() -> None:
    """Two arms, one feature: after a report at x = 2, V = U = ridge + 4 at gamma = 1, and q = 4."""
    policy = make_featured(
        "d-linucb-cf", arms=2, features=1, corruption=MASK, gamma=1.0, size=3.0, ridge=5.0, delta=0.1
    )
    sigma_of_reports = 0.5 / math.tanh(0.5)
    x = np.array([2.0])
    before = (math.sqrt(5) * 3 + sigma_of_reports * math.sqrt(2 * math.log(2 / 0.1))) * 2 / math.sqrt(5)
    assert half_width(live_state(policy), x, 0) == pytest.approx(before)
    policy.observe(x, 0, 1)
    level = 2 * math.log(2 / 0.1) + math.log(1 + 4 / 5)
    after = (math.sqrt(5) * 3 + sigma_of_reports * math.sqrt(level)) * 2 / math.sqrt(5 + 4)
    assert half_width(live_state(policy), x, 0) == pytest.approx(after)
    assert half_width(live_state(policy), x, 1) == pytest.approx(before)


@pytest.mark.parametrize("name", NAMES)
def test_saved_policy_continues_exactly(name: str, tmp_path: Path) -> None:
    policy = make_featured(name, arms=ARMS, features=D, corruption=MASK, gamma=0.99)
    for x, draw in stream(30):
        policy.observe(x, policy.choose(x), float(draw < 0.5))
    policy.save(tmp_path / "policy")
    again, other = load_featured(tmp_path / "policy", exact=True), load_featured(tmp_path / "policy")
    assert repr(again) == repr(policy)
    for x, draw in stream(30, seed=2):
        arm = policy.choose(x)
        assert again.choose(x) == arm
        for each in (policy, again, other):
            each.observe(x, arm, float(draw < 0.5))
        assert np.array_equal(again.estimates(x), policy.estimates(x), equal_nan=True)
    assert np.array_equal(live_state(other).pulls, live_state(policy).pulls)
    assert not np.array_equal(live_state(other).rng, live_state(policy).rng)


@pytest.mark.parametrize("name", NAMES)
def test_copies_are_independent_and_draw_alike(name: str) -> None:
    policy = make_featured(name, arms=ARMS, features=D, corruption=MASK, gamma=0.99, seed=1)
    for x, draw in stream(20):
        policy.observe(x, policy.choose(x), float(draw < 0.5))
    before, again = policy.estimates(x), pickle.loads(pickle.dumps(policy))  # noqa: S301 -- our own
    for twin in (copy.copy(policy), copy.deepcopy(policy)):
        assert repr(twin) == repr(policy)
        assert np.array_equal(live_state(twin).rng, live_state(policy).rng)
        twin.observe(x, 0, 1.0)
        twin.choose(x)
        assert lock_of(twin) is not lock_of(policy)  # a fork takes both
        assert not np.array_equal(twin.estimates(x), before)
        assert np.array_equal(policy.estimates(x), before)
    assert np.array_equal(again.estimates(x), before)
    assert not np.array_equal(live_state(again).rng, live_state(policy).rng)


def test_damaged_file_is_refused(tmp_path: Path) -> None:
    policy = make_featured("logistic-ts-cf", arms=ARMS, features=D, corruption=MASK)
    path = tmp_path / "policy"
    policy.save(path)
    with np.load(path) as file:
        good = dict(file)
    description = str(good["about"])
    odd: list[tuple[str, Any, str]] = [
        ("means", np.zeros((ARMS, D + 1)), "another shape"),
        ("means", np.full((ARMS, D), np.nan), "not numbers"),
        ("pulls", np.full(ARMS, -1), "below 0"),
        ("covariances", -good["covariances"], "a diagonal that is not positive"),
        ("about", np.array(description.replace("logistic-ts-cf", "x")), "its policy is unknown"),
        ("about", np.array(description.replace('"prior"', '"price"')), "no parameter 'price'"),
        ("about", np.array(description.replace('"format": 1', '"format": 9')), "another format"),
    ]
    for key, value, complaint in odd:
        with path.open("wb") as opened:
            np.savez(opened, **{**good, key: value})
        with pytest.raises(UserError, match=complaint):
            load_featured(path)
    path.write_bytes(b"nothing")
    with pytest.raises(UserError, match="policy over features"):
        load_featured(path)


def test_threads_share_policy() -> None:
    policy = make_featured("logistic-ts-cf", arms=ARMS, features=D, corruption=MASK)

    def work() -> None:
        for x, draw in stream(200):
            policy.observe(x, policy.choose(x), float(draw < 0.5))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert live_state(policy).pulls.sum() == 800


@pytest.mark.parametrize(
    ("description", "complaint"),
    [
        ({"name": "logistic-ts"}, "'logistic-ts'.*mean 'logistic-ts-cf'"),
        ({"name": ["a"]}, "known are logistic-ts-cf"),
        ({"arms": 0}, "arms = 0"),
        ({"features": 1.5}, "features = 1.5"),
        ({"features": 100_000}, "too much memory"),
        ({"corruption": 1.0}, "corruption = 1.0: give a RandomizedResponse"),
        ({"seed": -1}, "seed = -1"),
        ({"gama": 0.9}, "parameter 'gama'.*mean 'gamma'"),
        ({"gamma": 1.5}, "gamma = 1.5"),
        ({"prior": 0}, "prior = 0"),
        ({"name": "d-linucb-cf"}, "d-linucb-cf requires the parameter 'gamma': discount"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(description: dict[str, Any], complaint: str) -> None:
    complete: dict[str, Any] = {"name": "logistic-ts-cf", "arms": 2, "features": 2, "corruption": MASK, **description}
    with pytest.raises(UserError, match=complaint) as error:
        make_featured(complete.pop("name"), **complete)
    assert "\n" not in str(error.value)


def test_invalid_reports_change_nothing() -> None:
    policy = make_featured("logistic-ts-cf", arms=2, features=2, corruption=MASK)
    wrong: list[tuple[Any, Any, Any, str]] = [
        ([1.0], 0, 1, "shape \\(1,\\): give a list of 2 numbers"),
        ([1.0, math.nan], 0, 1, "number 1 is nan"),
        ([1.0, 101.0], 0, 1, "number 1 is 101.0"),
        (["a", "b"], 0, 1, "give 2"),
        ([1.0, 0.0], 2, 1, "arm 2 does not exist"),
        ([1.0, 0.0], True, 1, "arm True"),
        ([1.0, 0.0], 0, 1.5, "feedback 1.5"),
        ([1.0, 0.0], 0, math.nan, "feedback nan"),
    ]
    for x, arm, feedback, complaint in wrong:
        with pytest.raises(UserError, match=complaint):
            policy.observe(x, arm, feedback)
    assert np.isnan(policy.estimates([1.0, 0.0])).all()
    with pytest.raises(UserError, match="a list of 2"):
        policy.choose([[1.0, 0.0]])


@pytest.mark.parametrize("prior", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_one_report_matches_exact_posterior(mask: RandomizedResponse, prior: float) -> None:
    """One weight, by Bayes' rule on a fine grid: the mean as it is, up to MacKay's approximation of two hundredths."""
    z = np.linspace(-12 * prior, 12 * prior, 20_001)
    likelihood = np.array([mask(sigma(each)) for each in z])
    weight = np.exp(-0.5 * (z / prior) ** 2) * likelihood
    policy = make_featured("logistic-ts-cf", arms=1, features=1, corruption=mask, prior=prior)
    policy.observe([1.0], 0, 1)
    assert live_state(policy).means[0, 0] == pytest.approx((weight * z).sum() / weight.sum(), rel=0.03)


@settings(deadline=None)
@given(mask=st.sampled_from(MASKS), gamma=st.sampled_from([0.5, 1.0]), seen=st.lists(steps, min_size=1, max_size=30))
def test_surprise_moves_posterior_little(mask: RandomizedResponse, gamma: float, seen: Any) -> None:
    """At most sqrt(8 / pi) standard deviations; a plain extended Kalman step goes nine after ten zeros and a one."""
    policy = make_featured("logistic-ts-cf", arms=ARMS, features=D, corruption=mask, prior=10.0, gamma=gamma)
    means, covariances = live_state(policy).means, live_state(policy).covariances
    for x, arm, feedback in seen:
        before, variance = means[arm] @ x, x @ covariances[arm] @ x / gamma
        policy.observe(x, arm, feedback)
        assert abs(means[arm] @ x - before) <= math.sqrt(8 / math.pi * variance) + 1e-6
