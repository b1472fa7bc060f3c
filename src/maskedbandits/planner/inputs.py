"""Inputs of the planner: what a person knows about their choice, checked, and the worlds that fit it.

In every world one arm succeeds with the base rate plus the gap, all others with the base rate, and another arm is best
after each change. The times of the changes and the best arms are drawn from the seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maskedbandits.corruption import IDENTITY, Corruption
from maskedbandits.errors import LARGEST, UserError, WrongValueError, check_int, check_number
from maskedbandits.policies import Policy, check_policy, kind_of, make_policy
from maskedbandits.privacy import Randomizer
from maskedbandits.problems import Problem, one_ahead
from maskedbandits.problems.problem import check_arm_count
from maskedbandits.simulation.defaults import choose_window, fill_defaults

EPSILONS = (0.5, 1.0, 2.0, 4.0)  # by default; no privacy is always added
MIN_EPSILON, MAX_EPSILON = 0.01, 16.0  # below, reports are noise at any audience; above, they hide nothing
MAX_HORIZON = 10**9  # people
MAX_CHANGES = 10_000
MIN_GAP = 1e-4
DEFAULT_STEPS = 2_000_000  # of one epsilon at the full audience, with five arms: a second of one core
MAX_EXTRA_STEPS = 2 * DEFAULT_STEPS  # the same, at an audience larger than the one asked for
MIN_WORLDS, MAX_WORLDS = 4, 100  # if their number is not given
KNOWN_PARAMETERS = ("horizon", "variation", "window", "epsilon")  # required parameters that follow from the inputs


@dataclass(frozen=True)
class PlanInputs:
    """The inputs of a plan.

    Parameters
    ----------
    arms
        The number of options.
    horizon
        The audience: people who are shown an option, one after the other.
    changes
        How often another arm becomes the best.
    gap
        By how much the best arm is ahead.
    base_rate
        The success rate of all other arms.
    epsilons
        The epsilons in rising order; the last one is infinite, for no privacy.
    policy
        The name of the policy.
    tolerance
        The share of the gain of learning that privacy may cost.
    worlds
        The number of simulated worlds.
    seed
        The seed that worlds are drawn from.

    """

    arms: int
    horizon: int
    changes: int
    gap: float
    base_rate: float
    epsilons: tuple[float, ...]
    policy: str
    tolerance: float
    worlds: int
    seed: int

    @property
    def blind_loss(self) -> float:
        """The loss per person of a blind choice, one arm or any arm at random, against the best arm."""
        return self.gap * (1.0 - 1.0 / self.arms)

    @property
    def smallest_audience(self) -> int:
        """The smallest possible audience with as many arms and changes."""
        return max(self.arms, self.changes + 1)

    def count_worlds(self, audience: int) -> int:
        """Return the number of worlds for an audience, which is lower for audiences beyond the horizon."""
        return self.worlds if audience <= self.horizon else min(self.worlds, _default_worlds(self.arms, audience))

    def takes_too_long(self, audience: int) -> bool:
        """Return whether an audience beyond the horizon would take too long to simulate."""
        max_steps = _scale_steps(MAX_EXTRA_STEPS, self.arms)
        return self.count_worlds(audience) * audience > max_steps or audience > MAX_HORIZON

    def derive_seeds(self, world: int) -> tuple[int, int]:
        """Return the seed of a world and that of its simulation, the same at every epsilon and audience."""
        seeds = np.random.SeedSequence([self.seed, world]).generate_state(2, np.uint64) >> np.uint64(11)
        return int(seeds[0]), int(seeds[1])  # 53 bits

    def build_world(self, world: int, epsilon: float, horizon: int) -> Problem:
        """Return one of the worlds for an audience, with the mask of an epsilon."""
        return one_ahead(
            self.arms,
            horizon,
            corruption=build_mask(epsilon),
            segments=self.changes + 1,
            seed=self.derive_seeds(world)[0],
            gap=self.gap,
            base_rate=self.base_rate,
        )

    def build_policy(self, epsilon: float, horizon: int) -> Policy:
        """Return the policy with parameters from the inputs alone: it does not know when the world changes."""
        expected = self.build_expected_world(epsilon, horizon)
        return make_policy(
            self.policy, arms=self.arms, corruption=expected.corruption, **self.list_parameters(epsilon, expected)
        )

    def build_expected_world(self, epsilon: float, horizon: int) -> Problem:
        """Return a world with evenly spaced changes, the best guess if their times are unknown."""
        segments = np.arange(self.changes + 1)
        means = np.full((segments.size, self.arms), self.base_rate)
        means[segments, segments % self.arms] = min(1.0, self.base_rate + self.gap)
        return Problem(means, segments * horizon // segments.size, horizon, build_mask(epsilon))

    def list_parameters(self, epsilon: float, expected: Problem) -> dict[str, Any]:
        """Return the parameters that the policy requires, as they follow from the inputs."""
        parameters = fill_defaults(self.policy, {}, expected, epsilon)
        known = kind_of(self.policy).parameters
        if "window" in known and known["window"].required:
            parameters["window"] = max(self.arms, choose_window("corrected", self.policy, parameters, expected))
        return parameters


def build_mask(epsilon: float) -> Corruption:
    """Return the mask of an epsilon, with the probabilities that devices really use."""
    return IDENTITY if math.isinf(epsilon) else Randomizer(epsilon).corruption


def build_inputs(
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
) -> PlanInputs:
    """Return checked inputs, or raise an error of one line."""
    arms, horizon = check_int("arms", arms, 2, LARGEST), check_int("horizon", horizon, 1, MAX_HORIZON)
    check_arm_count(arms, horizon)
    inputs = PlanInputs(
        arms=arms,
        horizon=horizon,
        changes=check_int("changes", changes, 0, min(horizon - 1, MAX_CHANGES)),
        gap=check_number("gap", gap, MIN_GAP, 1.0),
        base_rate=check_number("base_rate", base_rate, 0.0, 1.0),
        epsilons=(*sorted({_check_epsilon(each) for each in epsilons} - {math.inf}), math.inf),
        policy=_check_policy(policy),
        tolerance=check_number("tolerance", tolerance, 0.0, 1.0, above=True, below=True),
        worlds=_default_worlds(arms, horizon) if worlds is None else check_int("worlds", worlds, 2, 10_000),
        seed=check_int("seed", seed, 0, LARGEST),
    )
    if len(inputs.epsilons) < 2:
        raise UserError("epsilons: give at least one finite epsilon; no privacy is always added")
    inputs.build_world(
        0, math.inf, horizon
    )  # raises an error for rates above 1 and for problems that do not fit into memory
    for epsilon in inputs.epsilons:
        expected = inputs.build_expected_world(epsilon, horizon)
        check_policy(policy, arms=arms, corruption=expected.corruption, **inputs.list_parameters(epsilon, expected))
    return inputs


def _default_worlds(arms: int, horizon: int) -> int:
    """Return how many worlds take some seconds.

    The number does not depend on the epsilons, so that the numbers of one do not depend on the others.
    """
    return min(max(_scale_steps(DEFAULT_STEPS, arms) // horizon, MIN_WORLDS), MAX_WORLDS)


def _scale_steps(steps: int, arms: int) -> int:
    """Return the number of steps that takes as long as ``steps`` with five arms."""
    return 15 * steps // (10 + arms)


def _check_epsilon(epsilon: float) -> float:
    if epsilon == math.inf:
        return math.inf
    try:
        return check_number("epsilon", epsilon, MIN_EPSILON, MAX_EPSILON)
    except WrongValueError as error:
        raise WrongValueError("epsilon", epsilon, f"{error.wanted}, or inf") from None


def _check_policy(policy: str) -> str:
    """Return the name of a policy whose parameters all follow from the inputs."""
    kind = kind_of(policy)
    if kind.sees_rewards:
        raise UserError(f"{policy} requires unmasked rewards: choose a policy that learns from reports, such as auto")
    unknown = [key for key, parameter in kind.parameters.items() if parameter.required and key not in KNOWN_PARAMETERS]
    if unknown:
        raise UserError(
            f"{policy} requires {unknown[0]}, which the other options do not determine: choose another policy, such as "
            "auto"
        )
    return policy
