"""The loop of the simulator where feedback is no bits: a reward, drawn, and noise.

Arms under randomised response give bits, as everywhere else.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maskedbandits._numba.jit import compiled, inlined
from maskedbandits._numba.state import Floats, Ints, Words
from maskedbandits.corruption import Corruption, GaussianNoise, LaplaceNoise
from maskedbandits.math import beta, rng
from maskedbandits.policies.play import Tally, World, choose, observe, reckoned
from maskedbandits.problems.rewards import Beta, Gaussian, Rewards

BITS, BETA, NORMAL, LAPLACE = range(4)


class Feedback(NamedTuple):
    """How feedback is drawn."""

    reward: Ints  # (1,) BITS, BETA or NORMAL
    width: Floats  # (1,) the concentration of BETA, or the sigma of NORMAL
    noises: Ints  # (K,) BITS, NORMAL or LAPLACE
    scales: Floats  # (K,)


def feedback(rewards: Rewards, each: Sequence[Corruption]) -> Feedback:
    """Return how feedback of such rewards under such corruptions is drawn."""
    reward, width = BITS, 0.0
    if isinstance(rewards, Beta):
        reward, width = BETA, rewards.concentration
    elif isinstance(rewards, Gaussian):
        reward, width = NORMAL, rewards.sigma
    noises = [_noise(one) for one in each]
    return Feedback(
        reward=np.array([reward]),
        width=np.array([width]),
        noises=np.array([code for code, _ in noises]),
        scales=np.array([scale for _, scale in noises]),
    )


def _noise(one: Corruption) -> tuple[int, float]:
    if isinstance(one, GaussianNoise):
        return NORMAL, one.sigma
    return (LAPLACE, one.scale) if isinstance(one, LaplaceNoise) else (BITS, 0.0)


@compiled
def _reward(words: Words, kind: int, width: float, mean: float) -> float:
    """Draw a reward."""
    if kind == NORMAL:
        return mean + width * rng.normal(words)
    if kind == BETA:
        return beta.draw_around(words, mean, width)
    return 1.0 if rng.uniform(words) < mean else 0.0


@inlined
def _drawn(words: Words, feedback: Feedback, arm: int, mean: float) -> float:
    """Draw what is shown of a pull."""
    noise, scale = feedback.noises[arm], feedback.scales[arm]
    if noise == BITS:
        return _reward(words, BITS, 0.0, mean)  # masked already: its mean is that of the feedback
    reward = _reward(words, feedback.reward[0], feedback.width[0], mean)
    if noise == LAPLACE:
        return reward + rng.laplace(words, scale)
    return reward + scale * rng.normal(words)


@compiled
def advance_noisy(state: Any, world: World, checkpoints: Ints, tally: Tally, until: int, feedback: Feedback) -> None:
    """Play one run on, up to step ``until``."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    while done < until:
        arm = choose(state)
        observe(state, arm, _drawn(state.lots, feedback, arm, world.feedback_means[segment, arm]))
        tally.recent[arm] += 1
        done += 1
        segment, following = reckoned(world, checkpoints, tally, done, segment, following)
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following
