"""Simulator loops in which the world has random numbers of its own.

``advance_apart`` plays as ``kernels.advance`` does, but draws feedback from given random numbers, and counts switches.
If each arm has a sequence of its own, all policies with these sequences get the same n-th report of an arm. Indices
depend on the reports of their arm, so such policies differ less than if they had the same draw at each step.

``advance_population`` draws for each report the person who sends it, whose randomised response is their own.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import compiled, inlined
from maskedbandits._numba.state import Floats, Ints, Words
from maskedbandits.corruption import IDENTITY, Population
from maskedbandits.math import rng
from maskedbandits.policies.index.report_masks import ARMS_OWN, as_seen, is_the_arms, read_masks
from maskedbandits.policies.kernels import Tally, World, choose, count_switch, observe, observe_masked, settle_regret
from maskedbandits.simulation.kernels import Chance


@compiled
def advance_apart(state: Any, world: World, checkpoints: Ints, tally: Tally, until: int, chance: Chance) -> None:
    """Play one run up to step ``until``, with feedback drawn from these numbers."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    while done < until:
        arm = choose(state)
        words = chance.words[chance.rows[arm]]
        observe(state, arm, 1.0 if rng.uniform(words) < world.feedback_means[segment, arm] else 0.0)
        tally.recent[arm] += 1
        count_switch(tally, arm)
        done += 1
        segment, following = settle_regret(world, checkpoints, tally, done, segment, following)
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following


class People(NamedTuple):
    """The randomised responses of a population, and their shares."""

    chance: Chance
    until: Floats  # (M,) shares, summed
    zeros: Floats  # (M,) mean feedback of a reward 0
    slopes: Floats  # (M,) by which a reward 1 exceeds it
    lines: NDArray[np.float64]  # (M, 3) as ``report_masks`` takes them
    honest: Floats  # (1,) share of reports that the policy takes for honest
    sees_masks: Ints  # (1,) whether the policy takes the mask of each report


def describe_people(
    population: Population, chance: Chance, *, honest: float, sees_masks: bool, is_masked: bool
) -> People:
    """Return a population for the loop; a policy that sees rewards has ``is_masked`` False."""
    masks = read_masks(population.responses, len(population.responses))
    assert masks is not None  # noqa: S101 -- there is at least one
    played = population.responses if is_masked else (IDENTITY,) * len(population.responses)
    return People(
        chance=chance,
        until=np.cumsum(population.shares),
        zeros=np.array([one(0.0) for one in played]),
        slopes=np.array([one.slope for one in played]),
        lines=masks.lines[masks.indices],
        honest=np.array([honest]),
        sees_masks=np.array([int(sees_masks)]),
    )


@inlined
def _draw_person(people: People, words: Words) -> int:
    """Draw who sends a report."""
    draw, person = rng.uniform(words), 0
    while person < people.until.size - 1 and draw >= people.until[person]:
        person += 1
    return person


@compiled
def advance_population(state: Any, world: World, checkpoints: Ints, tally: Tally, until: int, people: People) -> None:
    """Play one run up to step ``until``; each report has the mask of its sender. The world has mean rewards."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    while done < until:
        arm = choose(state)
        words = people.chance.words[people.chance.rows[arm]]
        person = _draw_person(people, words)
        mean = people.zeros[person] + people.slopes[person] * world.feedback_means[segment, arm]
        feedback = 1.0 if rng.uniform(words) < mean else 0.0
        if people.sees_masks[0]:
            honest = people.honest[0]
            mask = ARMS_OWN if is_the_arms(state, arm, person, people.lines, honest) else person
            value, low, span, shown = as_seen(state, arm, feedback, mask, people.lines, honest)
            observe_masked(state, arm, value, low, span, shown, mask == ARMS_OWN)
        else:
            observe(state, arm, feedback)
        tally.recent[arm] += 1
        count_switch(tally, arm)
        done += 1
        segment, following = settle_regret(world, checkpoints, tally, done, segment, following)
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following
