"""Several policies of one kind side by side, one for each group of people: their compiled steps.

The states of all groups are one: each of its arrays is G times as long, a group's part after the other's, and ``nth``
is the state of one group in it. So a kernel takes any number of groups, and a step of all of them crosses into machine
code once.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic, overload
from numba.np.arrayobj import populate_array
from numpy.typing import NDArray

from maskedbandits.compiled import FORCED, compiled, entry, inlined
from maskedbandits.maths import lots
from maskedbandits.policies.play import Tally, World, choose, decide, observe, reckoned, start, take_in
from maskedbandits.policies.state import Arms, stop_awaiting
from maskedbandits.record import Floats, Ints

BITS = 64  # of a word


class Groups(NamedTuple):
    """Who comes, and what becomes of an answer; what is counted of each group."""

    ends: Floats  # (G,) the sum of the shares up to each group
    slope: float  # by how much a one is more likely after a one than after a zero, or the truth than any other answer
    one_bit: int  # 1 if an answer is a bit, 0 if it is one of 2 G
    table: Ints  # (G,) the arm for each group, of the present question
    lost: Floats  # (G,) regret so far
    lost_over_time: NDArray[np.float64]  # (C, G) regret up to each checkpoint


def stacked(states: list[Any]) -> Any:
    """Return the states of several groups as one."""
    return type(states[0])(
        np.concatenate([state.own for state in states]).view(np.recarray),
        np.concatenate([state.ints for state in states]),
        np.concatenate([state.floats for state in states]),
    )


def nth(state: Any, group: int) -> Any:
    """Return the state of one group; it shares its arrays."""
    groups = state.own.size
    ints, floats = state.ints.size // groups, state.floats.size // groups
    return type(state)(
        state.own[group : group + 1],
        state.ints[group * ints : (group + 1) * ints],
        state.floats[group * floats : (group + 1) * floats],
    )


@intrinsic
def _nth(typing: Any, state: Any, group: Any) -> Any:
    """Return the same arrays, shorter and further on."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole, place = arguments
        made = whole
        first = context.make_array(state.types[0])(context, builder, builder.extract_value(whole, 0))
        groups = builder.extract_value(first.shape, 0)
        for index, kind in enumerate(state.types):
            array = context.make_array(kind)(context, builder, builder.extract_value(whole, index))
            length = builder.udiv(builder.extract_value(array.shape, 0), groups)
            part = context.make_array(kind)(context, builder)
            itemsize = ir.Constant(ir.IntType(64), context.get_abi_sizeof(context.get_data_type(kind.dtype)))
            populate_array(  # type: ignore[no-untyped-call]
                part,
                data=builder.gep(array.data, [builder.mul(place, length)], inbounds=True),
                shape=[length],
                strides=[itemsize],
                itemsize=itemsize,
                meminfo=None,
            )
            made = builder.insert_value(made, part._getvalue(), index)
        return made

    return state(state, group), build


@overload(nth, strict=False, jit_options=FORCED)
def _compiled_nth(state: Any, group: Any) -> Any:
    return lambda state, group: _nth(state, group)  # type: ignore[call-arg]


@entry
def start_groups(state: Any) -> None:
    """Forget everything, in all groups."""
    for group in range(state.own.size):
        start(nth(state, group))


@entry
def ask_groups(state: Any, table: Ints) -> None:
    """Write down the arm for each group; of each a report is awaited."""
    for group in range(table.size):
        table[group] = decide(nth(state, group))


@entry
def take_in_bits(state: Any, table: Ints, signs: Ints, answer: int) -> None:
    """Let every group learn from one masked bit, as its sign shows it."""
    for group in range(table.size):
        take_in(nth(state, group), table[group], float(answer ^ signs[group]))


@entry
def take_in_one(state: Any, table: Ints, group: int, feedback: float) -> None:
    """Let one group learn; of the others no report will come."""
    for other in range(table.size):
        if other != group:
            stop_awaiting(nth(state, other), table[other])
    take_in(nth(state, group), table[group], feedback)


@inlined
def _visitor(state: Arms, groups: Groups) -> int:
    """Draw the group of the next visitor."""
    lot = lots.uniform(state.lots)
    group = 0
    while group < groups.ends.size - 1 and lot >= groups.ends[group]:
        group += 1
    return group


@inlined
def _answer_by_a_bit(state: Any, groups: Groups, means: Floats, group: int) -> int:
    """Ask for a bit, and let all groups learn from it; return the arm that was played.

    To the visitor's own group the bit is the masked reward, to every other a fair coin: its sign is one.
    """
    table, own = groups.table, nth(state, 0)
    arms = own.own[0].arms
    for each in range(table.size):
        table[each] = choose(nth(state, each))
    arm = table[group]
    chance = 0.5 + groups.slope * (means[group * arms + arm] - 0.5)
    feedback = 1.0 if lots.uniform(own.lots) < chance else 0.0
    coins = np.uint64(0)
    for each in range(table.size):
        if each % BITS == 0:
            coins = lots.word(own.lots)
        coin = float(coins >> np.uint64(each % BITS) & np.uint64(1))
        observe(nth(state, each), table[each], feedback if each == group else coin)
    return arm


@inlined
def _answer_by_one_of_many(state: Any, groups: Groups, means: Floats, group: int) -> int:
    """Ask for group and reward together, and let the group learn that is named; return the arm that was played."""
    own = nth(state, 0)
    arms, many = own.own[0].arms, 2 * groups.ends.size
    arm = choose(nth(state, group))
    lot = lots.uniform(own.lots)
    if lot < groups.slope:  # what is named is true
        feedback = 1.0 if lots.uniform(own.lots) < means[group * arms + arm] else 0.0
        observe(nth(state, group), arm, feedback)
        return arm
    place = min(int((lot - groups.slope) / (1.0 - groups.slope) * many), many - 1)  # any of all answers
    named = place >> 1
    other = arm if named == group else choose(nth(state, named))
    observe(nth(state, named), other, float(place & 1))
    return arm


@compiled
def advance_groups(state: Any, world: World, checkpoints: Ints, tally: Tally, until: int, groups: Groups) -> None:
    """Play one run on, up to step ``until``: in a row of the world the arms of one group follow those of the other."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    own = nth(state, 0)
    arms = own.own[0].arms
    while done < until:
        group = _visitor(own, groups)
        means = world.feedback_means[segment]
        if groups.one_bit:
            arm = _answer_by_a_bit(state, groups, means, group)
        else:
            arm = _answer_by_one_of_many(state, groups, means, group)
        groups.lost[group] += world.gaps[segment, group * arms + arm]
        tally.recent[group * arms + arm] += 1
        done += 1
        before = following
        segment, following = reckoned(world, checkpoints, tally, done, segment, following)
        if following > before:
            for each in range(groups.lost.size):
                groups.lost_over_time[before, each] = groups.lost[each]
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following
