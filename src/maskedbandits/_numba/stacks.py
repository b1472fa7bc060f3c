"""Several policies of one kind side by side, in one state.

Each array of it is as many times as long, a policy's part after the other's, and ``nth`` is the state of one of them.
So a kernel takes any number of policies, and a step of all of them crosses into machine code once.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic, overload
from numba.np.arrayobj import populate_array

from maskedbandits._numba.jit import FORCED
from maskedbandits._numba.state import ends_of


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


def rows(state: Any, section: str) -> Any:
    """Return a section of all groups at once, a row for each; it shares the state's arrays."""
    storage, own = type(state).storage, state.own[0]
    begin, end = ends_of(section)
    return getattr(state, storage.holder(section)).reshape(state.own.size, -1)[:, own[begin] : own[end]]


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
            populate_array(
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
