import math
from collections.abc import Callable

import numpy as np
import pytest

from maskedbandits import theory
from maskedbandits.corruption import Monotone, RandomizedResponse
from maskedbandits.policies import make_policy
from maskedbandits.problems import Problem, random_segments, sinusoid
from maskedbandits.simulation.simulator import simulate
from naive import theory as naive

IDENTITY = RandomizedResponse(1.0, 1.0)


def swapping(horizon: int, epsilon: float) -> Problem:
    """The problem of docs/theory.md: two arms that swap means in the middle."""
    return Problem([[0.9, 0.4], [0.4, 0.9]], [0, horizon // 2], horizon, RandomizedResponse.from_epsilon(epsilon))


def mixed(horizon: int) -> Problem:
    """Three arms, unequal segments, corruptions that increase and decrease; arm 2 is never best."""
    return Problem(
        [[0.8, 0.3, 0.1], [0.2, 0.7, 0.6], [0.9, 0.5, 0.1]],
        [0, horizon // 4, horizon // 2],
        horizon,
        [RandomizedResponse(0.9, 0.95), RandomizedResponse(0.1, 0.2), IDENTITY],
    )


def suboptimal_time(problem: Problem) -> np.ndarray:
    return np.asarray((problem.lengths[:, None] * (problem.gaps > 0)).sum(axis=0))


class TestWindows:
    @pytest.mark.parametrize(
        ("horizon", "changes", "window"),
        [(1, 1, 1), (2, 1, 2), (10_000, 2, 134), (10**6, 2, 1346), (10**6, 96, 329)],
    )
    def test_paper_window_is_the_square_root_rounded_down(self, horizon: int, changes: int, window: int) -> None:
        assert theory.paper_window(horizon, changes) == window

    @pytest.mark.parametrize("changes", [1, 2, 7, 40])
    def test_lambert_window_minimises_the_leading_terms(self, changes: int) -> None:
        for horizon in [*range(changes, 300, 7), 5_000, 10**5, 10**6]:
            terms = {
                w: (changes + 4) * w + 4 * math.e * horizon / (w * math.log(w))
                for w in range(2, 20 + 2 * math.isqrt(horizon))
            }
            assert theory.lambert_window(horizon, changes) == min(terms, key=terms.__getitem__)

    @pytest.mark.parametrize("window", [theory.paper_window, theory.lambert_window])
    def test_windows_grow_with_the_horizon_and_shrink_with_changes(self, window: Callable[[int, int], int]) -> None:
        by_horizon = [window(horizon, 3) for horizon in (10, 100, 10**4, 10**6, 10**9)]
        by_changes = [window(10**6, changes) for changes in (1, 2, 10, 100, 10**4)]
        assert by_horizon == sorted(set(by_horizon))
        assert by_changes == sorted(set(by_changes), reverse=True)


class TestPublishedBound:
    @pytest.mark.parametrize("window", [3, 40, 1000])
    def test_equals_the_appendix_term_by_term(self, window: int) -> None:
        problem = mixed(20_000)
        expected = []
        for arm, segments in enumerate([[1], [0, 2], [0, 1, 2]]):
            g = problem.corruption[arm]
            pairs = [(g(problem.means[i, arm]), g(problem.means[i].max())) for i in segments]
            expected.append(naive.published_pulls(20_000, 3, window, pairs))
        np.testing.assert_allclose(theory.published_bound(problem, window), expected, rtol=1e-6)

    def test_an_arm_that_is_always_best_has_no_suboptimal_pulls(self) -> None:
        problem = Problem([[0.9, 0.4], [0.8, 0.7]], [0, 500], 1000, IDENTITY)
        assert theory.published_bound(problem, 50)[0] == 0.0
        assert theory.published_bound(problem, 50)[1] > 0.0

    def test_infinite_divergence_leaves_the_limit_of_the_terms(self) -> None:
        problem = Problem([[1.0, 0.75]], [0], 1000, IDENTITY)
        leading = 5 * 50 + 4 * math.e * 1000 / (50 * math.log(50))
        assert theory.published_bound(problem, 50)[1] == pytest.approx(leading + 2 / 0.25**2 + 5)

    def test_a_certain_feedback_makes_the_derivative_infinite(self) -> None:
        problem = Problem([[0.5, 0.0]], [0], 1000, IDENTITY)
        assert theory.published_bound(problem, 50)[1] == math.inf


class TestCorrectedBound:
    @pytest.mark.parametrize("c", [0.0, 3.0])
    @pytest.mark.parametrize("window", [3, 17, 100, 450])
    @pytest.mark.parametrize(
        "problem",
        [
            mixed(900),
            swapping(800, 4.0),
            Problem([[0.99, 0.02], [0.3, 0.9]], [0, 300], 800, RandomizedResponse(0.02, 0.01)),
            Problem([[1.0, 0.6], [0.0, 1.0]], [0, 200], 700, IDENTITY),
        ],
        ids=["mixed", "swapping", "decreasing", "certain"],
    )
    def test_equals_a_search_over_every_m(self, problem: Problem, window: int, c: float) -> None:
        expected = np.zeros(problem.arms)
        for i, means in enumerate(problem.means):
            for arm in np.flatnonzero(means < means.max()):
                g = problem.corruption[arm]
                expected[arm] += naive.corrected_pulls(
                    g(means[arm]), g(means.max()), int(problem.lengths[i]), i == 0, window, c
                )
        bound = theory.corrected_bound(problem, window, c)
        assert np.all(bound >= expected * (1 - 1e-9))
        assert np.all(bound <= expected * 1.02)

    def test_arm_known_after_one_pull_is_pulled_once_a_window(self) -> None:
        # Feedback is always 1 for the one arm and 0 for the other; 100 steps are 10 blocks of w + 1 = 10.
        problem = Problem([[1.0, 0.0]], [0], 100, IDENTITY)
        bound = theory.corrected_bound(problem, 9)
        assert bound[0] == 0.0
        assert bound[1] == pytest.approx(10 + sum(naive.miss(min(t, 9), 3.0) for t in range(100)))

    def test_a_stationary_world_and_a_full_window_leave_a_logarithm(self) -> None:
        pulls = [
            theory.corrected_bound(Problem([[0.9, 0.4]], [0], horizon, IDENTITY), horizon)[1]
            for horizon in (10**3, 10**6, 10**9)
        ]
        assert pulls[2] - pulls[1] < 1.2 * (pulls[1] - pulls[0])
        assert pulls[2] < 350

    def test_no_arm_is_pulled_more_often_than_there_are_steps(self) -> None:
        problem = swapping(1000, 0.01)
        np.testing.assert_array_equal(theory.corrected_bound(problem, 10), [500.0, 500.0])
        assert theory.corrected_regret_bound(problem, 10) == pytest.approx(500.0)

    def test_close_means_give_trivial_bound(self) -> None:
        problem = Problem([[0.5, 0.5 - 1e-12]], [0], 1000, RandomizedResponse.from_epsilon(0.1))
        assert theory.corrected_bound(problem, 100)[1] == 1000.0

    def test_segments_of_one_step_hold_one_pull(self) -> None:
        problem = Problem([[0.9, 0.4], [0.4, 0.9], [0.9, 0.4]], [0, 1, 2], 3, IDENTITY)
        np.testing.assert_array_equal(theory.corrected_bound(problem, 2), [1.0, 2.0])
        assert theory.corrected_window(problem) in (2, 3)
        certain = Problem([[0.5, 0.5], [0.0, 0.4]], [0, 5], 6, IDENTITY)
        np.testing.assert_array_equal(theory.corrected_bound(certain, 2), [1.0, 0.0])

    def test_with_two_arms_regret_is_gap_times_pulls(self) -> None:
        problem = swapping(10**6, 2.0)
        pulls = theory.corrected_bound(problem, 5000).sum()
        assert theory.corrected_regret_bound(problem, 5000) == pytest.approx(0.5 * pulls)

    def test_with_more_arms_a_step_is_paid_once(self) -> None:
        problem = Problem([[0.9] + 9 * [0.4], 9 * [0.4] + [0.9]], [0, 50_000], 100_000, IDENTITY)
        each, mixed_steps = theory.corrected_bound(problem, 2000), 2000
        assert theory.corrected_regret_bound(problem, 2000) < 0.5 * each.sum() - 0.5 * 8 * mixed_steps


class TestCorrectedWindow:
    @pytest.mark.parametrize("problem", [swapping(3000, 4.0), mixed(2400), mixed(1999)], ids=["swap", "mixed", "odd"])
    def test_no_window_has_a_smaller_bound(self, problem: Problem) -> None:
        bounds = [theory.corrected_regret_bound(problem, w) for w in range(problem.arms, problem.horizon // 2, 9)]
        trivial = (problem.gaps.max(axis=1) * problem.lengths).sum()
        assert min(bounds) < 0.75 * trivial
        assert theory.corrected_regret_bound(problem, theory.corrected_window(problem)) <= 1.001 * min(bounds)

    def test_more_privacy_asks_for_a_longer_window(self) -> None:
        windows = [theory.corrected_window(swapping(10**6, epsilon)) for epsilon in (8.0, 4.0, 2.0, 1.0, 0.5, 0.25)]
        assert windows == sorted(set(windows))
        assert windows[4] > 10 * theory.paper_window(10**6, 2)

    def test_stationary_window_is_horizon(self) -> None:
        assert theory.corrected_window(Problem([[0.9, 0.4]], [0], 10**5, IDENTITY)) > 90_000

    def test_equal_arms_accept_any_window(self) -> None:
        assert theory.corrected_window(Problem([[0.5, 0.5]], [0], 100, IDENTITY)) == 100

    @pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
    def test_the_bound_is_minimised_before_it_is_capped(self, epsilon: float) -> None:
        means = np.random.default_rng(7).uniform(0.1, 0.9, (5, 2))
        problem = Problem(means, np.arange(5) * 200, 1000, RandomizedResponse.from_epsilon(epsilon))
        bounds = [theory.corrected_regret_bound(problem, w, capped=False) for w in range(2, 1001, 9)]
        window = theory.corrected_window(problem)
        assert theory.corrected_regret_bound(problem, window, capped=False) <= 1.001 * min(bounds)
        assert window > 20  # capped, all windows tie where privacy is strong, the shortest among them

    def test_capped_bound_is_at_most_largest_regret(self) -> None:
        problem = swapping(2000, 0.5)
        for window in (10, 100, 1000):
            free = theory.corrected_regret_bound(problem, window, capped=False)
            assert theory.corrected_regret_bound(problem, window) == min(free, 1000.0)
        assert theory.corrected_regret_bound(problem, 10, capped=False) > 1000.0

    def test_a_smaller_capped_bound_may_cost_more(self) -> None:
        mask = RandomizedResponse.from_epsilon(0.5)
        problem = random_segments(10, 100_000, corruption=mask, segments=10, seed=3)
        ours, theirs = theory.corrected_window(problem), 7537
        assert theory.corrected_regret_bound(problem, theirs) < theory.corrected_regret_bound(problem, ours)
        regrets = []
        for window in (ours, theirs):
            policy = make_policy("sw-klucb-cf", arms=10, corruption=mask, window=window)
            regrets.append(simulate(problem, policy, runs=8, checkpoints=1).regret.mean())
        assert regrets[0] < 0.9 * regrets[1]  # 12,911 ± 201 and 16,744 ± 168 over 40 runs


class TestVariationWindow:
    @pytest.mark.parametrize("c", [0.0, 3.0])
    @pytest.mark.parametrize("slope", [1.0, 0.25, -0.25])
    @pytest.mark.parametrize(("arms", "variation"), [(2, 3.0), (10, 0.7), (10, 40.0), (50, 5.0)])
    def test_no_window_has_smaller_leading_terms(self, arms: int, variation: float, slope: float, c: float) -> None:
        horizon = 20_000
        level = math.log(horizon) + c * math.log(math.log(horizon))

        def terms(w: int) -> float:
            return 2 * w * variation + horizon * math.sqrt(8 * level * arms / w) / abs(slope)

        least = min(map(terms, range(arms, horizon + 1)))
        assert terms(theory.variation_window(horizon, arms, variation, slope, c=c)) <= (1 + 1e-5) * least

    def test_orders_are_those_of_the_literature(self) -> None:
        def window(arms: int, variation: float, slope: float = 1.0) -> int:
            return theory.variation_window(10**9, arms, variation, slope, c=0.0)

        assert window(80, 1.0) == pytest.approx(2 * window(10, 1.0), rel=1e-3)
        assert window(10, 8.0) == pytest.approx(window(10, 1.0) / 4, rel=1e-3)
        assert window(10, 8.0, 1 / 8) == pytest.approx(window(10, 1.0), rel=1e-3)
        level = math.log(10**9)
        assert window(10, 1.0) == math.ceil((10 * level / 2) ** (1 / 3) * (10**9) ** (2 / 3))

    def test_no_variation_gives_horizon(self) -> None:
        assert theory.variation_window(10_000, 5, 0.0) == 10_000
        assert theory.variation_window(10_000, 5, 1e-300) == 10_000
        assert theory.variation_window(1, 1, 0) == 1

    def test_window_is_between_arms_and_horizon(self) -> None:
        assert theory.variation_window(100, 50, 99.0) == 50
        assert theory.variation_window(100, 50, 0.1) == 100
        assert theory.variation_window(1, 1, 0.5) == 1

    def test_slopes_of_arms_enter_by_their_inverse_squares(self) -> None:
        assert theory.variation_window(10**6, 3, 2.0, [0.5, -0.5, 0.5]) == theory.variation_window(10**6, 3, 2.0, 0.5)
        several = theory.variation_window(10**6, 2, 2.0, [1.0, 0.25], c=0.0)
        assert several == math.ceil((math.log(10**6) * 17 / 2) ** (1 / 3) * (10**6 / 2) ** (2 / 3))

    @pytest.mark.parametrize("epsilon", [2.0, math.inf])
    def test_window_beats_much_shorter_and_longer(self, epsilon: float) -> None:
        problem = sinusoid(2, 100_000, corruption=RandomizedResponse.from_epsilon(epsilon))
        slope = problem.corruption[0](1.0) - problem.corruption[0](0.0)
        window = theory.variation_window(problem.horizon, problem.arms, problem.variation, slope)
        regrets = []
        for w in (window // 8, window, problem.horizon):
            policy = make_policy("sw-klucb-cf", arms=2, corruption=problem.corruption, window=w)
            regrets.append(simulate(problem, policy, runs=4).regret[:, -1].mean())
        short, tuned, everything = regrets
        assert tuned < 0.5 * min(short, everything)


class TestLowerBound:
    def test_main_problem_of_2018(self) -> None:
        corruption = [RandomizedResponse(0.6, 0.6)] + 9 * [RandomizedResponse(0.9, 0.9)]
        problem = Problem([[0.9] + 9 * [0.8]], [0], 100_000, corruption)
        assert theory.lower_bound(problem) == pytest.approx(527.5, abs=0.3)

    def test_segments_add_up(self) -> None:
        first = theory.lower_bound(Problem([[0.9, 0.4]], [0], 300, IDENTITY))
        second = theory.lower_bound(Problem([[0.2, 0.5]], [0], 700, IDENTITY))
        both = Problem([[0.9, 0.4], [0.2, 0.5]], [0, 300], 1000, IDENTITY)
        assert first == pytest.approx(0.5 * math.log(300) / naive.divergence(0.4, 0.9))
        assert theory.lower_bound(both) == pytest.approx(first + second)

    def test_a_segment_of_one_step_teaches_nothing(self) -> None:
        alike = Problem([[0.5, 0.5 - 1e-16 * 2]], [0], 2, RandomizedResponse.from_epsilon(0.01))
        assert theory.lower_bound(alike) == math.inf
        once = Problem([[0.5, 0.5 - 1e-16 * 2], [0.5, 0.5]], [0, 1], 2, RandomizedResponse.from_epsilon(0.01))
        assert theory.lower_bound(once) == 0.0

    def test_an_infinite_divergence_costs_nothing(self) -> None:
        assert theory.lower_bound(Problem([[1.0, 0.4]], [0], 1000, IDENTITY)) == 0.0


class TestCorollaries:
    def test_corollary_1_by_hand(self) -> None:
        # sqrt(4 * 400) = 40 for each of 3 arms; log(10) over squared slopes 1, 0.25, 0.04, without the first
        expected = 3 * 40 + 4 * (math.log(10) / 0.25 + math.log(10) / 0.04)
        assert theory.corollary_1(400, 4, [1.0, 0.75, 0.4], [1.0, 0.75, 0.4]) == pytest.approx(expected)

    def test_one_matrix_for_all_arms(self) -> None:
        assert theory.corollary_1(400, 4, 0.75, 0.7, arms=3) == theory.corollary_1(400, 4, 3 * [0.75], 0.7)

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
    def test_corollary_2_is_corollary_1_at_the_private_matrix(self, epsilon: float) -> None:
        matrix = RandomizedResponse.from_epsilon(epsilon)
        expected = theory.corollary_1(10_000, 5, matrix.p00, matrix.p11, arms=4)
        assert theory.corollary_2(10_000, 5, 4, epsilon) == pytest.approx(expected, rel=1e-12)

    def test_no_privacy_is_slope_one(self) -> None:
        expected = 2 * math.sqrt(5 * 10_000) + 5 * 0.5 * math.log(2000)
        assert theory.corollary_2(10_000, 5, 2, math.inf) == pytest.approx(expected)
        assert theory.corollary_2(10_000, 5, 2, 5000.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: theory.paper_window(0, 1), "horizon = .*: give a whole number of at least 1"),
        (lambda: theory.paper_window(10.5, 1), "horizon = .*: give a whole number of at least 1"),  # type: ignore[arg-type]
        (lambda: theory.paper_window(math.nan, 1), "horizon = .*: give a whole number of at least 1"),  # type: ignore[arg-type]
        (lambda: theory.paper_window(10**400, 1), "horizon = .*: give a whole number of at most"),
        (lambda: theory.lambert_window(100, 0), "changes = 0: give a whole number of at least 1"),
        (lambda: theory.lambert_window(100, 101), "changes = .* is more than the horizon"),
        (lambda: theory.published_bound(mixed(100), 2), "give at least 3"),
        (lambda: theory.corrected_bound(mixed(100), 2), "give at least 3"),
        (lambda: theory.corrected_bound(mixed(100), 2.5), "window = 2.5: give a whole number"),  # type: ignore[arg-type]
        (lambda: theory.corrected_bound(mixed(100), 5, c=-1.0), "c = -1.0: give a number of at least 0"),
        (lambda: theory.corrected_regret_bound(mixed(100), 5, c=math.nan), "c = .*: give a number of at least 0"),
        (lambda: theory.corrected_window(mixed(100), c=math.inf), "c = .*: give a number of at least 0"),
        (lambda: theory.variation_window(0, 1, 1.0), "horizon = .*: give a whole number of at least 1"),
        (lambda: theory.variation_window(100, 0, 1.0), "arms = 0: give a whole number"),
        (lambda: theory.variation_window(100, 101, 1.0), "arms = 101 is more than the horizon, 100"),
        (lambda: theory.variation_window(100, 2, -1.0), "variation = .*: give a number of at least 0"),
        (lambda: theory.variation_window(100, 2, math.inf), "variation = .*: give a number of at least 0"),
        (lambda: theory.variation_window(100, 2, math.nan), "variation = .*: give a number of at least 0"),
        (lambda: theory.variation_window(100, 2, 1.0, 0.0), "slope = .*: give numbers in"),
        (lambda: theory.variation_window(100, 2, 1.0, [0.5, 1.5]), "slope = .*: give numbers in"),
        (lambda: theory.variation_window(100, 2, 1.0, [0.5, 0.5, 0.5]), "one for each of 2 arms"),
        (lambda: theory.variation_window(100, 2, 1.0, c=-1.0), "c = .*: give a number of at least 0"),
        (lambda: theory.corollary_1(100, 1, 0.6, 0.4, arms=2), "not add up to 1"),
        (lambda: theory.corollary_1(100, 1, [1.2, 0.9], [0.9, 0.9]), r"be in \[0, 1\]"),
        (lambda: theory.corollary_1(100, 1, 0.9, 0.9), "give arms"),
        (lambda: theory.corollary_1(100, 1, [0.9, 0.9], 0.9, arms=3), "for each of 3"),
        (lambda: theory.corollary_2(100, 1, 2, 0.0), "epsilon = .*or inf"),
        (lambda: theory.corollary_2(100, 1, 2, math.nan), "epsilon = .*or inf"),
    ],
)
def test_wrong_values_are_refused_in_one_line(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refusal:
        call()
    assert "\n" not in str(refusal.value)


MEASURED = {
    "strong privacy": (swapping(10**6, 0.5), 1346, 3.0, 3),
    "weak privacy": (swapping(10**5, 4.0), 425, 3.0, 20),
    "long window": (swapping(10**5, 1.0), 5000, 3.0, 20),
    "increasing and decreasing": (mixed(50_000), 1500, 3.0, 20),
    "no loglog": (mixed(50_000), 1500, 0.0, 20),
    "decreasing": (
        Problem([[0.9, 0.4], [0.4, 0.9]], [0, 20_000], 40_000, RandomizedResponse(0.1, 0.15)),
        900,
        3.0,
        20,
    ),
    "certain rewards": (Problem([[1.0, 0.0], [0.0, 1.0]], [0, 9000], 20_000, IDENTITY), 60, 3.0, 20),
    "best is certain": (Problem([[1.0, 0.3], [0.2, 1.0]], [0, 9000], 20_000, IDENTITY), 200, 3.0, 20),
    "stationary, nothing forgotten": (Problem([[0.9, 0.5, 0.4]], [0], 30_000, IDENTITY), 30_000, 3.0, 50),
    "curved": (
        Problem(
            [[0.9, 0.3], [0.4, 0.9]],
            [0, 30_000],
            60_000,
            Monotone(lambda mean: 0.05 + 0.4 * mean * (1 + mean)),
        ),
        1500,
        3.0,
        20,
    ),
}


def measured_pulls(problem: Problem, window: int, c: float, runs: int) -> np.ndarray:
    policy = make_policy("sw-klucb-cf", arms=problem.arms, corruption=problem.corruption, window=window, c=c)
    return np.asarray(simulate(problem, policy, runs=runs, seed=2024).suboptimal_pulls.mean(axis=0))


@pytest.mark.parametrize("name", MEASURED)
def test_measured_pulls_stay_under_the_corrected_bound(name: str) -> None:
    problem, window, c, runs = MEASURED[name]
    bound = theory.corrected_bound(problem, window, c)
    can_be_wrong = suboptimal_time(problem)
    assert np.all(bound[can_be_wrong > 0] < 0.9 * can_be_wrong[can_be_wrong > 0])  # otherwise the bound is trivial
    pulls = measured_pulls(problem, window, c, runs)
    assert np.all(pulls <= bound)
    assert np.all(pulls[can_be_wrong > 0] > 0)


def test_measured_pulls_exceed_the_published_bound() -> None:
    problem, window, c, runs = MEASURED["strong privacy"]
    assert np.all(measured_pulls(problem, window, c, runs) > 5 * theory.published_bound(problem, window))


def test_turning_share_makes_arms_look_equal() -> None:
    mask = RandomizedResponse.from_epsilon(1.0)
    share = theory.turning_share(0.3, mask.slope)
    lied = Problem([[0.65, 0.35]], [0], 100, mask, liars=share)
    assert lied.feedback_means[0, 0] == pytest.approx(lied.feedback_means[0, 1])
    assert theory.turning_share(1.0) == 0.5
    with pytest.raises(ValueError, match="gap"):
        theory.turning_share(1.5)
    with pytest.raises(ValueError, match="liars"):
        theory.corrected_bound(lied, 50)
