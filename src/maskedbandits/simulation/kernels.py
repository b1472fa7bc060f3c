"""Simulator loops for late or lost reports, replayed logs, and noisy feedback.

``advance_late`` plays reports that arrive late, out of order, or never. A report is due some steps after its decision;
a delay of 0 delivers it before the next decision. A policy counts the reports that it receives, so the loop announces
the segments of a policy's plan, such as restarts, itself.

``advance_log`` replays a log: a policy plays the rows in which it chooses as the log did. A policy counts the rows that
it plays, and the loop announces segments exactly when the log reaches them (``policies/log_times.py``).

``advance_noisy`` draws rewards and noise that are not bits. Arms under randomised response give bits as elsewhere.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import compiled, inlined
from maskedbandits._numba.state import Floats, Ints, Words
from maskedbandits.corruption import Corruption
from maskedbandits.errors import UserError
from maskedbandits.math import beta, rng
from maskedbandits.noise import GaussianNoise, LaplaceNoise
from maskedbandits.policies.kernels import (
    Tally,
    World,
    begin_segment,
    choose,
    count_switch,
    decide,
    observe,
    settle_regret,
    take_in,
)
from maskedbandits.policies.state import Arms
from maskedbandits.problems.rewards import Beta, Gaussian, Rewards

NONE = -1
NO_SEGMENTS = np.zeros(0, dtype=np.int64)
NO_WORDS = np.zeros(4, dtype=np.uint64)
MAX_BUCKETS = 1 << 16
MAX_REPORTS = 1 << 26  # under way at once; they take 2 GiB


class Chance(NamedTuple):
    """Random numbers of the world: the policy's own, or a sequence for each arm.

    With a sequence for each arm, the n-th pull of an arm has the same draws for all policies with the same sequences.
    """

    words: NDArray[np.uint64]  # (1, 4) the policy's, or (K, 4)
    rows: Ints  # (K,) the row of each arm


class Mail(NamedTuple):
    """Reports under way, in buckets: due times that are equal modulo the number of buckets share a list."""

    heads: Ints  # the first report of each bucket
    nexts: Ints  # the next report in the bucket, or the next free index
    free: Ints  # (1,) the first free index
    dues: Ints
    arms: Ints
    feedbacks: Floats
    delays: Ints  # delays to draw from; if empty, they are geometric
    decay: Floats  # (1,) log of the probability that a geometric delay continues
    lost: Floats  # (1,) the probability that a report never arrives
    segments: Ints  # decisions at which the policy begins a segment of its plan, if reports are lost
    chance: Chance


def share_words(words: Words, arms: int) -> Chance:
    """Return the policy's random numbers as those of all arms."""
    return Chance(words.reshape(1, -1), np.zeros(arms, dtype=np.int64))


def make_mail(
    delays: Ints, mean: float, horizon: int, chance: Chance, lost: float = 0.0, segments: Ints = NO_SEGMENTS
) -> Mail:
    """Return empty mail, for delays drawn from these, or geometric ones with a mean; some reports are lost."""
    longest = int(min(delays.max(), horizon)) if delays.size else int(8.0 * mean) + 1024
    places = min(longest, horizon) + 2
    if places > MAX_REPORTS:
        raise UserError(f"so long a delay leaves {places:,} reports under way at once: give a shorter one")
    nexts = np.arange(1, places + 1)
    nexts[-1] = NONE
    return Mail(
        heads=np.full(min(1 << (places - 1).bit_length(), MAX_BUCKETS), NONE),
        nexts=nexts,
        free=np.zeros(1, dtype=np.int64),
        dues=np.zeros(places, dtype=np.int64),
        arms=np.zeros(places, dtype=np.int64),
        feedbacks=np.zeros(places),
        delays=delays,
        decay=np.array([-math.log1p(1.0 / mean) if mean > 0.0 else -math.inf]),
        lost=np.array([lost]),
        segments=segments,
        chance=chance,
    )


@inlined
def _draw_delay(mail: Mail, words: Words) -> int:
    """Draw a delay."""
    if mail.delays.size == 1:
        return mail.delays[0]
    draw = rng.uniform(words)
    if mail.delays.size > 1:
        return mail.delays[int(draw * mail.delays.size)]
    return int(min(math.log(1.0 - draw) / mail.decay[0], 1e15))


@inlined
def _send(mail: Mail, due: int, arm: int, feedback: float) -> bool:
    """Put a report in the mail; return False if there is no room."""
    index = mail.free[0]
    if index == NONE:
        return False
    bucket = due & (mail.heads.size - 1)
    mail.free[0] = mail.nexts[index]
    mail.nexts[index] = mail.heads[bucket]
    mail.heads[bucket] = index
    mail.dues[index] = due
    mail.arms[index] = arm
    mail.feedbacks[index] = feedback
    return True


@inlined
def _deliver(state: Arms, mail: Mail, time: int) -> None:
    """Pass all reports that are due to the policy."""
    bucket = time & (mail.heads.size - 1)
    before = NONE
    index = mail.heads[bucket]
    while index != NONE:
        following = mail.nexts[index]
        if mail.dues[index] == time:
            take_in(state, mail.arms[index], mail.feedbacks[index])
            if before == NONE:
                mail.heads[bucket] = following
            else:
                mail.nexts[before] = following
            mail.nexts[index] = mail.free[0]
            mail.free[0] = index
        else:
            before = index
        index = following


@compiled
def advance_late(state: Any, world: World, checkpoints: Ints, tally: Tally, until: int, mail: Mail) -> None:
    """Play one run up to step ``until``, with reports that arrive late or never."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    begun = np.searchsorted(mail.segments, done)
    while done < until:
        _deliver(state, mail, done)
        if begun < mail.segments.size and done == mail.segments[begun]:
            begin_segment(state)
            begun += 1
        arm = decide(state)
        words = mail.chance.words[mail.chance.rows[arm]]
        feedback = 1.0 if rng.uniform(words) < world.feedback_means[segment, arm] else 0.0
        is_lost = mail.lost[0] > 0.0 and rng.uniform(words) < mail.lost[0]
        if not is_lost and not _send(mail, done + 1 + _draw_delay(mail, words), arm, feedback):
            take_in(state, arm, feedback)  # no room, which practically never happens with geometric delays
        tally.recent[arm] += 1
        count_switch(tally, arm)
        done += 1
        segment, following = settle_regret(world, checkpoints, tally, done, segment, following)
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following


class Recorded(NamedTuple):
    """The arms that a log chose, and the rows at which the policy begins a segment."""

    chosen: Ints
    segments: Ints
    words: Words  # random numbers of the world
    is_paired: Ints  # (1,) whether each row draws, so that it has the same reward for all policies


@compiled
def advance_log(state: Any, world: World, checkpoints: Ints, tally: Tally, until: int, log: Recorded) -> None:
    """Play one run up to row ``until`` of a log."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    while done < until:
        if segment < log.segments.size and done == log.segments[segment]:
            begin_segment(state)
            segment += 1
        arm = choose(state)
        is_played, draw = arm == log.chosen[done], 0.0
        if is_played or log.is_paired[0]:
            draw = rng.uniform(log.words)
        if is_played:
            observe(state, arm, 1.0 if draw < world.feedback_means[done, 0] else 0.0)
            count_switch(tally, arm)
            tally.pulls[arm] += 1
            tally.suboptimal_pulls[arm] += int(world.worse[done, 0])
            tally.total[0] += world.gaps[done, 0]
        done += 1
        if following < checkpoints.size and done == checkpoints[following]:
            tally.regret[following] = tally.total[0]
            for each in range(tally.pulls.size):
                tally.pulls_over_time[following, each] += tally.pulls[each]
            following += 1
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following


BITS, BETA, NORMAL, LAPLACE = range(4)


class Feedback(NamedTuple):
    """The distributions of rewards and of noise."""

    reward: Ints  # (1,) BITS, BETA or NORMAL
    width: Floats  # (1,) the concentration of BETA, or the sigma of NORMAL
    noises: Ints  # (K,) BITS, NORMAL or LAPLACE
    scales: Floats  # (K,)
    chance: Chance
    step: Words  # the numbers of one pull; those of the policy unless arms have sequences of their own
    is_paired: Ints  # (1,) whether each pull begins a sequence: pulls take different numbers of draws


def describe_feedback(
    rewards: Rewards, each: Sequence[Corruption], words: Words = NO_WORDS, chance: Chance | None = None
) -> Feedback:
    """Return the distribution of feedback for such rewards under such corruptions.

    It is drawn from the policy's words, or from sequences of the arms.
    """
    reward, width = BITS, 0.0
    if isinstance(rewards, Beta):
        reward, width = BETA, rewards.concentration
    elif isinstance(rewards, Gaussian):
        reward, width = NORMAL, rewards.sigma
    noises = [_describe_noise(one) for one in each]
    return Feedback(
        reward=np.array([reward]),
        width=np.array([width]),
        noises=np.array([code for code, _ in noises]),
        scales=np.array([scale for _, scale in noises]),
        chance=share_words(words, len(each)) if chance is None else chance,
        step=words if chance is None else NO_WORDS.copy(),
        is_paired=np.array([int(chance is not None)]),
    )


def _describe_noise(one: Corruption) -> tuple[int, float]:
    """Return the kind and the scale of a corruption's noise."""
    if isinstance(one, GaussianNoise):
        return NORMAL, one.sigma
    return (LAPLACE, one.scale) if isinstance(one, LaplaceNoise) else (BITS, 0.0)


@compiled
def _draw_reward(words: Words, kind: int, width: float, mean: float) -> float:
    """Draw a reward."""
    if kind == NORMAL:
        return mean + width * rng.normal(words)
    if kind == BETA:
        return beta.draw_around(words, mean, width)
    return 1.0 if rng.uniform(words) < mean else 0.0


@inlined
def _draw_feedback(words: Words, feedback: Feedback, arm: int, mean: float) -> float:
    """Draw the feedback of a pull."""
    noise, scale = feedback.noises[arm], feedback.scales[arm]
    if noise == BITS:
        return _draw_reward(words, BITS, 0.0, mean)  # the mean is masked already
    reward = _draw_reward(words, feedback.reward[0], feedback.width[0], mean)
    if noise == LAPLACE:
        return reward + rng.laplace(words, scale)
    return reward + scale * rng.normal(words)


@compiled
def advance_noisy(state: Any, world: World, checkpoints: Ints, tally: Tally, until: int, feedback: Feedback) -> None:
    """Play one run up to step ``until``, with noisy feedback."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    while done < until:
        arm = choose(state)
        if feedback.is_paired[0]:
            rng.begin_sequence(feedback.step, feedback.chance.words[feedback.chance.rows[arm]])
        observe(state, arm, _draw_feedback(feedback.step, feedback, arm, world.feedback_means[segment, arm]))
        tally.recent[arm] += 1
        count_switch(tally, arm)
        done += 1
        segment, following = settle_regret(world, checkpoints, tally, done, segment, following)
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following
