"""The state of a policy: two flat arrays, and named views over them.

Handing many arrays over from the interpreter costs more than a step, so a state lives in one array of integers and one
of floats; ``unpack`` lays the views.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.core.compiled import inlined

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Places in the head of the integers. First what fixes the lengths ...
ARMS, RING, LEAVES, NODES, MEMO, BOX, PLAN, MIXED, OWN = range(9)
# ... then what kind of policy it is ...
MEMORY, INDEX, RESTART, DETECTOR, LOCAL, WINDOW = range(9, 15)
# ... and how far it is.
TIME, SINCE, SLOT, GROWING, EPOCH, FRACTIONAL, FOLLOWING, EXPLORE_AT, EXPLORE_ARM, ALARMS = range(15, 25)
PULLED = 26  # the arm of the last observation
PLANNED_AT = 31
SETTLED = 30  # 1 when a plain window is full: then a step has few things to do, and does no others
OWN_KIND = 25  # which policy it is, if it stands on its own
INT_HEAD = 32

# Places in the head of the floats: parameters, and what is derived from them
C, XI, GAMMA, HORIZON, DELTA, EXPLORATION, WEIGHT, LEVEL = range(8)
DETECTION = 8  # and after it the detector's own numbers, three at most
EVIDENCE, FOLLOW_UP, PRIOR_CHANGES = 11, 12, 13
SEEN = 14  # the weight of all observations under a discount
LEVEL_AHEAD, FADE = 15, 16  # the level, and what is left of a weight, at the end of the present epoch
FLOAT_HEAD = 20

# Places at the beginning of the section of a policy that stands on its own: where gains begin and how far they reach,
# and after these the kind's own parameters
FLOOR, WIDTH = range(2)
OWN_HEAD = 8

FOREVER = 1 << 62  # the window of a policy that forgets nothing
NOT_NEGATIVE = FOREVER - 1  # a mask that tells the compiler that an index is none of Python's negative ones
STACK = 128  # twice the depth of any tree


class State(NamedTuple):
    """Named views over the two arrays; see ``layout`` for their lengths."""

    head: Ints
    real: Floats
    counts: Floats  # (K,) observations that count, or their weights
    sums: Floats  # (K,) their feedbacks, flipped where g decreases
    since: Ints  # (K,) when the arm was last restarted
    last: Ints  # (K,) when the arm was last pulled
    ring_arms: Ints  # (ring,), empty unless there is a window
    ring_feedbacks: Floats
    winners: Ints  # the tournament
    values: Floats
    anchors: Floats  # (K,) while scores grow, the tangents of the arms: where they were laid,
    bounds: Floats  # what was bounded there,
    slopes: Floats  # and how steeply it rose
    stack: Ints  # scratch of the search
    flips: Ints  # (K,) 1 where g decreases
    first_node: Ints  # (K,) the arm's polyline among the nodes
    last_node: Ints
    node_means: Floats
    node_feedbacks: Floats
    lows: Floats  # (K,) its first feedback
    rates: Floats  # (K,) one over its secant slope
    memo_keys: Ints  # (M,) what bounds are known already at the final level
    memo_bounds: Floats
    plan: Ints  # times at which to restart
    boxes: Floats  # (K * box,) the detectors of the arms
    low_sums: Floats  # (K,) of each observation's own g(0), if observations have one of their own
    span_sums: Floats  # (K,) of g(1) - g(0)
    ring_lows: Floats
    ring_spans: Floats
    own: Floats  # what a policy keeps that stands on its own


class Layout(NamedTuple):
    """What fixes the lengths of the two arrays."""

    arms: int
    ring: int = 0
    nodes: int = 2
    memo: int = 1
    box: int = 0
    plan: int = 0
    mixed: int = 0
    own: int = 0

    @property
    def leaves(self) -> int:
        """Leaves of the tournament: a power of two."""
        return 1 << (self.arms - 1).bit_length()

    @property
    def lengths(self) -> tuple[int, int]:
        """Lengths of the array of integers and of the array of floats."""
        ints = INT_HEAD + 5 * self.arms + self.ring + 2 * self.leaves + STACK + self.memo + self.plan
        floats = FLOAT_HEAD + 7 * self.arms + self.ring + 2 * self.leaves + 2 * self.nodes + self.memo
        return ints, floats + self.arms * self.box + self.mixed * 2 * (self.arms + self.ring) + self.own

    def arrays(self) -> tuple[Ints, Floats]:
        """Return the two arrays, with the lengths written in their heads."""
        count, reals = self.lengths
        ints, floats = np.zeros(count, dtype=np.int64), np.zeros(reals)
        lengths = (self.arms, self.ring, self.leaves, self.nodes, self.memo, self.box, self.plan, self.mixed, self.own)
        ints[: len(lengths)] = lengths
        return ints, floats


@inlined
def unpack(ints: Ints, floats: Floats) -> State:
    """Lay the views over the arrays."""
    arms = ints[ARMS]
    ring = ints[RING]
    leaves = 2 * ints[LEAVES]
    nodes = ints[NODES]
    memo = ints[MEMO]
    boxes = arms * ints[BOX]
    own_arms = arms * ints[MIXED]
    own_ring = ring * ints[MIXED]
    i1 = INT_HEAD + arms
    i2 = i1 + arms
    i3 = i2 + arms
    i4 = i3 + arms
    i5 = i4 + ring
    i6 = i5 + leaves
    i7 = i6 + STACK
    i8 = i7 + memo
    i9 = i8 + ints[PLAN]
    f1 = FLOAT_HEAD + arms
    f2 = f1 + arms
    f3 = f2 + arms
    f4 = f3 + arms
    f5 = f4 + ring
    f6 = f5 + leaves
    f7 = f6 + nodes
    f8 = f7 + nodes
    f9 = f8 + memo
    f10 = f9 + boxes
    f11 = f10 + own_arms
    f12 = f11 + own_arms
    f13 = f12 + own_ring
    f14 = f13 + own_ring
    f15 = f14 + ints[OWN]
    f16 = f15 + arms
    f17 = f16 + arms
    return State(
        head=ints[:INT_HEAD],
        real=floats[:FLOAT_HEAD],
        counts=floats[FLOAT_HEAD:f1],
        sums=floats[f1:f2],
        since=ints[INT_HEAD:i1],
        ring_arms=ints[i4:i5],
        ring_feedbacks=floats[f4:f5],
        winners=ints[i5:i6],
        values=floats[f5:f6],
        stack=ints[i6:i7],
        flips=ints[i1:i2],
        first_node=ints[i2:i3],
        last_node=ints[i3:i4],
        node_means=floats[f6:f7],
        node_feedbacks=floats[f7:f8],
        lows=floats[f2:f3],
        rates=floats[f3:f4],
        memo_keys=ints[i7:i8],
        memo_bounds=floats[f8:f9],
        plan=ints[i8:i9],
        last=ints[i9 : i9 + arms],
        boxes=floats[f9:f10],
        low_sums=floats[f10:f11],
        span_sums=floats[f11:f12],
        ring_lows=floats[f12:f13],
        ring_spans=floats[f13:f14],
        own=floats[f14:f15],
        anchors=floats[f15:f16],
        bounds=floats[f16:f17],
        slopes=floats[f17 : f17 + arms],
    )


class Solo(NamedTuple):
    """What a policy that stands on its own uses of a state: handing over less takes less time, above all to compile."""

    head: Ints
    counts: Floats
    sums: Floats
    last: Ints
    flips: Ints
    first_node: Ints
    last_node: Ints
    node_means: Floats
    node_feedbacks: Floats
    lows: Floats
    rates: Floats
    plan: Ints
    own: Floats


@inlined
def solo(state: State) -> Solo:
    """Pick out what a policy that stands on its own uses."""
    return Solo(
        head=state.head,
        counts=state.counts,
        sums=state.sums,
        last=state.last,
        flips=state.flips,
        first_node=state.first_node,
        last_node=state.last_node,
        node_means=state.node_means,
        node_feedbacks=state.node_feedbacks,
        lows=state.lows,
        rates=state.rates,
        plan=state.plan,
        own=state.own,
    )


def views(ints: Ints, floats: Floats) -> State:
    """Lay the views over the arrays, for the interpreter: the compiled unpack can hand no view back to it."""
    return getattr(unpack, "py_func", unpack)(ints, floats)
