"""Plans as a whole: what is asked, what is played, and what is concluded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from maskedbandits import simulate
from maskedbandits.errors import UserError
from maskedbandits.planner import Plan, PlanInputs, plan, plans, text
from maskedbandits.planner.inputs import MAX_WORLDS, build_inputs
from maskedbandits.planner.plans import Setting, WorldOutcomes
from naive import planner as naive

EASY: dict[str, Any] = {"arms": 3, "horizon": 3000, "changes": 2, "gap": 0.5, "base_rate": 0.2}


@pytest.fixture(scope="module")
def easy() -> Plan:
    return plan(**EASY, epsilons=[0.5, 2], worlds=16)


def inputs(**changes: Any) -> PlanInputs:
    usual = {"epsilons": [1.0], "policy": "auto", "tolerance": 0.1, "worlds": None, "seed": 0}
    return build_inputs(**{**EASY, **usual, **changes})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"arms": 1}, "arms = 1: give a whole number of at least 2"),
        ({"horizon": 2}, "horizon 2 is shorter than the number of arms 3: not every arm could be tried"),
        ({"horizon": 10**10}, "horizon = 10000000000: give a whole number of at most 1000000000"),
        ({"changes": -1}, "changes = -1: give a whole number of at least 0"),
        ({"changes": 3000}, "changes = 3000: give a whole number of at most 2999"),
        ({"gap": 0}, "gap = 0: give a number in"),
        ({"gap": math.nan}, "gap = nan: give a number in"),
        ({"gap": 0.9}, "base_rate = 0.2 and gap = 0.9"),
        ({"base_rate": -0.1}, "base_rate = -0.1: give a number in"),
        ({"epsilons": [0]}, r"epsilon = 0: give a number in \[0.01, 16\], or inf"),
        ({"epsilons": [1, -1]}, r"epsilon = -1: give a number in \[0.01, 16\], or inf"),
        ({"epsilons": [17]}, "epsilon = 17: give a number in"),
        ({"epsilons": [math.nan]}, "epsilon = nan: give a number in"),
        ({"epsilons": [math.inf]}, "give at least one finite epsilon"),
        ({"epsilons": []}, "give at least one finite epsilon"),
        ({"policy": "aut"}, "'aut'; did you mean 'auto'"),
        ({"policy": "oracle"}, "oracle .* restarts"),
        ({"policy": "d-ts-cf"}, "d-ts-cf .* gamma"),
        ({"policy": "dp-ucb"}, "dp-ucb .*unmasked"),
        ({"tolerance": 0}, "tolerance = 0: "),
        ({"worlds": 1}, "worlds = 1.*least 2"),
        ({"seed": -1}, "seed = -1.*least 0"),
    ],
)
def test_bad_plan_inputs_are_one_line_errors(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as caught:
        inputs(**change)
    assert "\n" not in str(caught.value)


def test_no_privacy_is_always_the_last() -> None:
    assert inputs(epsilons=[2, 0.5, math.inf, 2]).epsilons == (0.5, 2.0, math.inf)


def test_number_of_worlds_follows_from_steps() -> None:
    counts = [inputs(horizon=horizon).worlds for horizon in (3000, 100_000, 10**6, 10**9)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == MAX_WORLDS
    assert inputs(horizon=100_000, arms=50).worlds < counts[1]
    assert inputs(epsilons=[1, 2, 3]).worlds == inputs().worlds


def test_worlds_fit_the_inputs() -> None:
    given = inputs()
    problems = [given.build_world(world, 1.0, 3000) for world in range(5)]
    assert len({tuple(problem.starts) for problem in problems}) == 5
    for problem in problems:
        assert (problem.arms, problem.horizon, problem.segments) == (3, 3000, 3)
        assert problem.means.max(axis=1) == pytest.approx([0.7] * 3)
        assert np.all((problem.means == 0.2).sum(axis=1) == 2)
    again = given.build_world(3, math.inf, 3000)
    np.testing.assert_array_equal(again.means, problems[3].means)
    np.testing.assert_array_equal(again.starts, problems[3].starts)


@pytest.mark.parametrize("horizon", [3, 100, 3000])
def test_window_is_chosen_for_windowed_policy(horizon: int) -> None:
    window = inputs(policy="sw-klucb-cf").build_policy(1.0, horizon).parameters["window"]
    assert 3 <= window <= max(3, horizon)


def test_outcomes_match_simulation_person_by_person() -> None:
    given = inputs(worlds=2, policy="klucb-cf", horizon=900)
    [outcome] = plans.play_worlds(given, [(1.0, 900)], None, lambda steps: None)
    losses, settled = [], []
    for world in range(2):
        problem, seed = given.build_world(world, 1.0, 900), given.derive_seeds(world)[1]
        policy = given.build_policy(1.0, 900)
        regret = simulate(problem, policy, runs=1, seed=seed, checkpoints=900, progress=False).regret[0]
        losses.append(regret[-1])
        right = (np.diff(regret, prepend=0.0) < 0.25).tolist()
        ends = [*problem.starts.tolist(), 900]
        settled += [naive.settled_after(right[start:end], 50) for start, end in pairwise(ends[1:])]
    assert outcome.losses.tolist() == losses
    assert list(outcome.settled) == settled
    assert math.inf in settled or len(set(settled)) > 1  # something was seen


def test_more_privacy_costs_more_on_an_easy_problem(easy: Plan) -> None:
    strong, weak, none = easy.levels
    assert strong.loss.low > weak.loss.high
    assert strong.extra.low > weak.extra.high > weak.extra.mean > 0
    assert strong.exposure.truth < weak.exposure.truth < none.exposure.truth == 1.0
    assert none.extra.mean == none.extra.high == 0.0
    assert none.pays_from is not None
    assert weak.pays_from is not None
    assert none.pays_from <= weak.pays_from <= 3000


def test_findings_are_consistent(easy: Plan) -> None:
    none = easy.levels[-1]
    assert easy.blind_loss == pytest.approx(3000 * 0.5 * 2 / 3)
    assert easy.gain.mean == pytest.approx(easy.blind_loss - none.loss.mean)
    for level in easy.levels:
        assert level.extra.mean == pytest.approx(level.loss.mean - none.loss.mean)
        assert level.cost is not None
        assert level.cost.mean == pytest.approx(level.extra.mean / easy.gain.mean)
        assert level.settling.stretch == 50


def test_numbers_depend_on_the_seed_alone(easy: Plan) -> None:
    alone = plan(**EASY, epsilons=[2], worlds=16, threads=1)
    assert alone.levels == easy.levels[1:]
    assert plan(**EASY, epsilons=[2], worlds=16, seed=1).levels[0].loss != alone.levels[0].loss


def test_settling_without_changes_starts_at_beginning() -> None:
    found = plan(2, 400, 0, 0.6, 0.2, epsilons=[4], worlds=4)
    assert found.levels[0].settling.people is not None
    assert "people after the beginning until" in " ".join(text.to_lines(found))


def test_no_epsilon_is_advised_without_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maskedbandits.planner.inputs.MAX_EXTRA_STEPS", 4_000)
    found = plan(4, 40, 3, 0.01, 0.3, epsilons=[0.5], worlds=4)
    assert found.advice.epsilon is None
    assert [level.settling.people for level in found.levels] == [None, None]
    assert [level.pays_from for level in found.levels] == [None, None]
    assert [level.looked_to for level in found.levels] == [640, 640]


@dataclass
class Learning:
    """Plays nothing: at each epsilon half of a blind choice's loss is lost at so many people, and less of more."""

    halves: dict[float, int]
    tried: list[tuple[float, int]] = field(default_factory=list)

    def play(self, given: PlanInputs, settings: Sequence[Setting], threads: Any, show: Any) -> list[WorldOutcomes]:
        self.tried += settings
        outcomes = []
        for epsilon, audience in settings:
            share = min(1.0, 0.5 * (self.halves[epsilon] / audience) ** 0.5)
            losses = np.full(given.count_worlds(audience), share * given.blind_loss * audience)
            outcomes.append(WorldOutcomes(losses, (math.inf,)))
        return outcomes


def test_search_tries_larger_and_smaller_audiences(monkeypatch: pytest.MonkeyPatch) -> None:
    learning = Learning({0.5: 10**9, 1.0: 50_000, 2.0: 3000, math.inf: 700})
    monkeypatch.setattr(plans, "play_worlds", learning.play)
    found = plan(**EASY, epsilons=[0.5, 1, 2], tolerance=0.1, worlds=8)
    tried = {
        epsilon: sorted(audience for each, audience in learning.tried if each == epsilon) for epsilon in learning.halves
    }
    assert tried[math.inf] == [187, 374, 750, 3000]
    assert tried[2.0] == [750, 1500, 3000]
    assert tried[1.0] == [3000, 12_000, 48_000, 96_000, 192_000]
    assert tried[0.5] == [3000, 12_000, 48_000, 192_000, 768_000]
    by_epsilon = {level.epsilon: level for level in found.levels}
    assert by_epsilon[0.5].pays_from is None
    assert by_epsilon[0.5].looked_to == 768_000
    for epsilon, half in ((1.0, 50_000), (2.0, 3000), (math.inf, 700)):
        assert by_epsilon[epsilon].pays_from == pytest.approx(half, rel=0.05)
        assert by_epsilon[epsilon].looked_to == max(tried[epsilon])


def test_larger_audiences_have_fewer_worlds() -> None:
    given = inputs(horizon=200_000, worlds=100)
    assert given.count_worlds(100_000) == given.count_worlds(200_000) == 100
    assert given.count_worlds(800_000) == 4
    assert not given.takes_too_long(800_000)
    assert given.takes_too_long(3_200_000)
    assert inputs(worlds=2).count_worlds(10**6) == 2


def test_progress_rises_to_one() -> None:
    seen: list[float] = []
    plan(2, 300, 1, 0.6, 0.2, epsilons=[1], worlds=3, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_interrupt_stops_all_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[object] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        result = simulate(*arguments, **options)
        ended.append(result)
        return result

    def interrupt(share: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(plans, "simulate", counted)
    with pytest.raises(KeyboardInterrupt):
        plan(2, 20_000_000, 1, 0.3, 0.3, epsilons=[1], worlds=8, policy="klucb-cf", threads=2, progress=interrupt)
    assert ended == []
