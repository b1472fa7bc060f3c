"""The loop of the simulator where reports come late, or never: hundreds are pending, and they come out of order.

A report is due some steps after its decision: none means that it is there before the next decision, as without a delay.

A policy counts the reports that it takes in. Where some are lost that is fewer than there are decisions, so the loop
announces the segments of a policy's plan, such as restarts, as it does on a log (``logs.py``).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from maskedbandits._numba.jit import compiled, inlined
from maskedbandits._numba.state import Floats, Ints
from maskedbandits.errors import UserError
from maskedbandits.math import rng
from maskedbandits.policies.play import Tally, World, begin_segment, decide, reckoned, take_in
from maskedbandits.policies.state import Arms

NONE = -1
NO_SEGMENTS = np.zeros(0, dtype=np.int64)
MOST_BUCKETS = 1 << 16
MOST_PLACES = 1 << 26  # which take up 2 GiB


class Mail(NamedTuple):
    """Reports under way: those due at times that are equal modulo the number of buckets are in one list."""

    heads: Ints  # the first of each bucket
    nexts: Ints  # the one after each, in its bucket or among free places
    free: Ints  # (1,) the first free place
    dues: Ints
    arms: Ints
    feedbacks: Floats
    delays: Ints  # from which delays are drawn, or
    decay: Floats  # (1,) log of the chance that a geometric delay goes on, if there are none
    lost: Floats  # (1,) the probability that a report never arrives
    segments: Ints  # decisions at which the policy begins a segment of its plan, where reports are lost


def mail(delays: Ints, mean: float, horizon: int, lost: float = 0.0, segments: Ints = NO_SEGMENTS) -> Mail:
    """Return an empty mail, for delays drawn from these, or geometric ones of a mean; some reports are lost."""
    longest = int(min(delays.max(), horizon)) if delays.size else int(8.0 * mean) + 1024
    places = min(longest, horizon) + 2
    if places > MOST_PLACES:
        raise UserError(f"so long a delay leaves {places:,} reports under way at once: give a shorter one")
    nexts = np.arange(1, places + 1)
    nexts[-1] = NONE
    return Mail(
        heads=np.full(min(1 << (places - 1).bit_length(), MOST_BUCKETS), NONE),
        nexts=nexts,
        free=np.zeros(1, dtype=np.int64),
        dues=np.zeros(places, dtype=np.int64),
        arms=np.zeros(places, dtype=np.int64),
        feedbacks=np.zeros(places),
        delays=delays,
        decay=np.array([-math.log1p(1.0 / mean) if mean > 0.0 else -math.inf]),
        lost=np.array([lost]),
        segments=segments,
    )


@inlined
def _delay(state: Arms, mail: Mail) -> int:
    """Draw a delay."""
    if mail.delays.size == 1:
        return mail.delays[0]
    lot = rng.uniform(state.lots)
    if mail.delays.size > 1:
        return mail.delays[int(lot * mail.delays.size)]
    return int(min(math.log(1.0 - lot) / mail.decay[0], 1e15))


@inlined
def _send(mail: Mail, due: int, arm: int, feedback: float) -> bool:
    """Put a report in the mail, if there is room."""
    place = mail.free[0]
    if place == NONE:
        return False
    bucket = due & (mail.heads.size - 1)
    mail.free[0] = mail.nexts[place]
    mail.nexts[place] = mail.heads[bucket]
    mail.heads[bucket] = place
    mail.dues[place] = due
    mail.arms[place] = arm
    mail.feedbacks[place] = feedback
    return True


@inlined
def _deliver(state: Arms, mail: Mail, time: int) -> None:
    """Let the policy take in all reports that are due."""
    bucket = time & (mail.heads.size - 1)
    before = NONE
    place = mail.heads[bucket]
    while place != NONE:
        following = mail.nexts[place]
        if mail.dues[place] == time:
            take_in(state, mail.arms[place], mail.feedbacks[place])
            if before == NONE:
                mail.heads[bucket] = following
            else:
                mail.nexts[before] = following
            mail.nexts[place] = mail.free[0]
            mail.free[0] = place
        else:
            before = place
        place = following


@compiled
def advance_late(state: Any, world: World, checkpoints: Ints, tally: Tally, until: int, mail: Mail) -> None:
    """Play one run on, up to step ``until``, with reports that come late, or never."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    begun = np.searchsorted(mail.segments, done)
    while done < until:
        _deliver(state, mail, done)
        if begun < mail.segments.size and done == mail.segments[begun]:
            begin_segment(state)
            begun += 1
        arm = decide(state)
        feedback = 1.0 if rng.uniform(state.lots) < world.feedback_means[segment, arm] else 0.0
        is_lost = mail.lost[0] > 0.0 and rng.uniform(state.lots) < mail.lost[0]
        if not is_lost and not _send(mail, done + 1 + _delay(state, mail), arm, feedback):
            take_in(state, arm, feedback)  # no room: of geometric delays not once in a lifetime
        tally.recent[arm] += 1
        done += 1
        segment, following = reckoned(world, checkpoints, tally, done, segment, following)
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following
