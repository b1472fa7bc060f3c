"""What is asked of the planner: what a person knows of their choice, checked, and the worlds that fit it.

In every world one arm succeeds with the base rate plus the gap, all others with the base rate, and another one is best
after each change. When the changes come, and which arm is best, is drawn from the seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maskedbandits.corruption import IDENTITY, Corruption
from maskedbandits.errors import LARGEST, UserError, WrongValueError, check_int, number
from maskedbandits.experiments.policy_spec import told, window_by
from maskedbandits.experiments.problem_spec import Condition
from maskedbandits.policies import Policy, check_policy, kind_of, make_policy
from maskedbandits.privacy import Randomizer
from maskedbandits.problems import Problem, one_ahead
from maskedbandits.problems.problem import refuse_more_arms

EPSILONS = (0.5, 1.0, 2.0, 4.0)  # of which one is chosen where nobody says otherwise; no privacy is always added
LEAST, MOST = 0.01, 16.0  # epsilon: below, reports are noise at any audience; above, they hide nothing
LONGEST = 10**9  # people
MOST_CHANGES = 10_000
SMALLEST_GAP = 1e-4
STEPS = 2_000_000  # of one epsilon at the full audience, with five arms: a second of one core
FURTHER = 2 * STEPS  # the same, of an audience larger than the one asked for
FEWEST_WORLDS, MOST_WORLDS = 4, 100  # where their number is not given
GIVEN = ("horizon", "variation", "window", "epsilon")  # what policies must be told and the person has said


@dataclass(frozen=True)
class Question:
    """What a person has told, and how it is to be answered."""

    arms: int
    horizon: int  # the audience: people who are shown something, one after the other
    changes: int  # how often another arm becomes the best
    gap: float
    base_rate: float
    epsilons: tuple[float, ...]  # rising; the last one is infinite, no privacy
    policy: str
    tolerance: float  # the share of what learning gains that privacy may cost
    worlds: int
    seed: int

    @property
    def blind_loss(self) -> float:
        """What a blind choice, one arm or any arm at random, loses for each person against the best one."""
        return self.gap * (1.0 - 1.0 / self.arms)

    @property
    def smallest_audience(self) -> int:
        """The smallest audience with as many arms and changes that there can be."""
        return max(self.arms, self.changes + 1)

    def worlds_of(self, audience: int) -> int:
        """Return how many worlds are played for an audience; of one larger than asked for, fewer."""
        return self.worlds if audience <= self.horizon else min(self.worlds, _usual_worlds(self.arms, audience))

    def takes_too_long(self, audience: int) -> bool:
        """Tell whether an audience larger than asked for would take more than a while."""
        return self.worlds_of(audience) * audience > _steps(FURTHER, self.arms) or audience > LONGEST

    def seeds(self, world: int) -> tuple[int, int]:
        """Return the seed of a world, and that of what happens in it: the same at every epsilon and audience."""
        drawn = np.random.SeedSequence([self.seed, world]).generate_state(2, np.uint64) >> np.uint64(11)
        return int(drawn[0]), int(drawn[1])  # 53 bits

    def world(self, world: int, epsilon: float, horizon: int) -> Problem:
        """Return one of the worlds, for an audience, seen through the mask of an epsilon."""
        return one_ahead(
            self.arms,
            horizon,
            corruption=mask_of(epsilon),
            segments=self.changes + 1,
            seed=self.seeds(world)[0],
            gap=self.gap,
            base_rate=self.base_rate,
        )

    def made_policy(self, epsilon: float, horizon: int) -> Policy:
        """Return the policy, told what the person has told: no more, so not when the world changes."""
        expected = self.expected_world(epsilon, horizon)
        return make_policy(
            self.policy, arms=self.arms, corruption=expected.corruption, **self.parameters(epsilon, expected)
        )

    def expected_world(self, epsilon: float, horizon: int) -> Problem:
        """Return a world whose changes are evenly spaced: what a person expects who does not know when they come."""
        segments = np.arange(self.changes + 1)
        means = np.full((segments.size, self.arms), self.base_rate)
        means[segments, segments % self.arms] = min(1.0, self.base_rate + self.gap)
        return Problem(means, segments * horizon // segments.size, horizon, mask_of(epsilon))

    def parameters(self, epsilon: float, expected: Problem) -> dict[str, Any]:
        """Return what the policy must be told, and what of it follows from what the person has said."""
        given = told(self.policy, {}, Condition("the plan", epsilon, expected, (), {}))
        known = kind_of(self.policy).parameters
        if "window" in known and known["window"].required:
            given["window"] = max(self.arms, window_by("corrected", self.policy, given, expected))
        return given


def mask_of(epsilon: float) -> Corruption:
    """Return the mask of an epsilon: with the probabilities with which devices really draw."""
    return IDENTITY if math.isinf(epsilon) else Randomizer(epsilon).corruption


def asked(
    arms: int,
    horizon: int,
    changes: int,
    gap: float,
    base_rate: float,
    epsilons: Sequence[float],
    policy: str,
    tolerance: float,
    worlds: int | None,
    seed: int,
) -> Question:
    """Return the question, or refuse it in one line."""
    arms, horizon = check_int("arms", arms, 2, LARGEST), check_int("horizon", horizon, 1, LONGEST)
    refuse_more_arms(arms, horizon)
    question = Question(
        arms=arms,
        horizon=horizon,
        changes=check_int("changes", changes, 0, min(horizon - 1, MOST_CHANGES)),
        gap=number("gap", gap, SMALLEST_GAP, 1.0),
        base_rate=number("base_rate", base_rate, 0.0, 1.0),
        epsilons=(*sorted({_checked_epsilon(each) for each in epsilons} - {math.inf}), math.inf),
        policy=_checked_policy(policy),
        tolerance=number("tolerance", tolerance, 0.0, 1.0, above=True, below=True),
        worlds=_usual_worlds(arms, horizon) if worlds is None else check_int("worlds", worlds, 2, 10_000),
        seed=check_int("seed", seed, 0, LARGEST),
    )
    if len(question.epsilons) < 2:
        raise UserError("epsilons: give at least one that is finite; no privacy is always compared with")
    question.world(0, math.inf, horizon)  # refuses rates above 1, and more arms and changes than fit into memory
    for epsilon in question.epsilons:
        expected = question.expected_world(epsilon, horizon)
        check_policy(policy, arms=arms, corruption=expected.corruption, **question.parameters(epsilon, expected))
    return question


def _usual_worlds(arms: int, horizon: int) -> int:
    """Return how many worlds take some seconds.

    Other epsilons do not decide: the numbers of one are the same whichever are asked for beside it.
    """
    return min(max(_steps(STEPS, arms) // horizon, FEWEST_WORLDS), MOST_WORLDS)


def _steps(steps: int, arms: int) -> int:
    """Return how many steps take as long as so many with five arms."""
    return 15 * steps // (10 + arms)


def _checked_epsilon(epsilon: float) -> float:
    if epsilon == math.inf:
        return math.inf
    try:
        return number("epsilon", epsilon, LEAST, MOST)
    except WrongValueError as error:
        raise WrongValueError("epsilon", epsilon, f"{error.wanted}, or inf") from None


def _checked_policy(policy: str) -> str:
    """Return the name of a policy that can be used with what a person knows before."""
    kind = kind_of(policy)
    if kind.sees_rewards:
        raise UserError(
            f"{policy} is shown what people did, unmasked: choose one that learns from reports, such as auto"
        )
    unknown = [key for key, what in kind.parameters.items() if what.required and key not in GIVEN]
    if unknown:
        raise UserError(f"{policy} must be told {unknown[0]}, which does not follow from the rest: choose auto, say")
    return policy
