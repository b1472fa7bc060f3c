"""Sections of a state in compiled code: an attribute of the tuple of its arrays, found through its record.

``record.py`` declares them. The compiler is taught each name once: what type it has, and how to get there, which is two
numbers of the record and an array that begins at the first and ends at the second. No code is compiled for it.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.imputils import lower_getattr
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.np.arrayobj import populate_array

_taught: set[str] = set()


def _layout(state: Any, key: str) -> Any:
    """Return the layout of a type of states that has such a section."""
    layout = getattr(getattr(state, "instance_class", None), "layout", None)
    return layout if layout is not None and key in layout.sections else None


@infer_getattr
class _Sections(AttributeTemplate):
    """The types of sections."""

    key = types.BaseNamedTuple

    def generic_resolve(self, state: Any, key: str) -> Any:  # type: ignore[override]
        layout = _layout(state, key)
        if layout is None:
            return None
        if layout.is_of_words(key):
            return types.Array(types.uint64, 1, "C")
        return types.Array(types.float64 if layout.holder(key) == "floats" else types.int64, 1, "C")


def _load(builder: Any, context: Any, state: Any, value: Any, name: str) -> Any:
    """Load a number of the record."""
    layout = state.instance_class.layout
    array_type = state.types[0]
    array = context.make_array(array_type)(context, builder, builder.extract_value(value, 0))
    start = builder.bitcast(array.data, ir.IntType(8).as_pointer())
    place = builder.gep(start, [ir.Constant(ir.IntType(64), layout.dtype.fields[name][1])], inbounds=True)
    return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))


def teach(key: str) -> None:
    """Teach the compiler how to get to sections of this name."""
    if key in _taught:
        return
    _taught.add(key)

    @lower_getattr(types.BaseNamedTuple, key)
    def get(context: Any, builder: Any, state: Any, value: Any) -> Any:
        layout = _layout(state, key)
        if layout is None:  # a tuple with a field of this name
            return builder.extract_value(value, state.fields.index(key))
        begin, end = (_load(builder, context, state, value, f"{key}_{side}") for side in ("begin", "end"))
        place = state.fields.index(layout.holder(key))
        whole = context.make_array(state.types[place])(context, builder, builder.extract_value(value, place))
        section_type = _Sections(context.typing_context).generic_resolve(state, key)
        section = context.make_array(section_type)(context, builder)
        data = builder.gep(whole.data, [begin], inbounds=True)
        itemsize = ir.Constant(ir.IntType(64), 8)
        populate_array(
            section,
            data=builder.bitcast(data, section.data.type),
            shape=[builder.sub(end, begin)],
            strides=[itemsize],
            itemsize=itemsize,
            meminfo=None,
        )
        return section._getvalue()
