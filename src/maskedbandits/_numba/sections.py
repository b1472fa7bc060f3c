"""Sections of a state in compiled code: an attribute of the tuple of its arrays, found through its record.

``state.py`` declares them. The compiler is taught each name once: what type it has, and how to get there, which is two
numbers of the record and an array that begins at the first and ends at the second. No code is compiled for it.
"""

import functools
from typing import Any

from llvmlite import ir
from numba import typeof, types
from numba.core.imputils import lower_getattr
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

_taught: set[str] = set()


def _storage(state: Any, key: str) -> Any:
    """Return the storage of a type of states that has such a section."""
    storage = getattr(getattr(state, "instance_class", None), "storage", None)
    return storage if storage is not None and key in storage.sections else None


@infer_getattr
class _Sections(AttributeTemplate):
    """The types of sections."""

    key = types.BaseNamedTuple

    def generic_resolve(self, state: Any, key: str) -> Any:  # type: ignore[override]
        storage = _storage(state, key)
        if storage is None:
            return None
        if storage.is_of_words(key):
            return types.Array(types.uint64, 1, "C")
        return types.Array(types.float64 if storage.holder(key) == "floats" else types.int64, 1, "C")


def _load(builder: Any, context: Any, state: Any, value: Any, name: str) -> Any:
    """Load a number of the record."""
    storage = state.instance_class.storage
    array_type = state.types[0]
    array = context.make_array(array_type)(context, builder, builder.extract_value(value, 0))
    start = builder.bitcast(array.data, ir.IntType(8).as_pointer())
    place = builder.gep(start, [ir.Constant(ir.IntType(64), storage.dtype.fields[name][1])], inbounds=True)
    return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))


def teach(key: str) -> None:
    """Teach the compiler how to get to sections of this name."""
    if key in _taught:
        return
    _taught.add(key)

    @lower_getattr(types.BaseNamedTuple, key)
    def get(context: Any, builder: Any, state: Any, value: Any) -> Any:
        storage = _storage(state, key)
        if storage is None:  # a tuple with a field of this name
            return builder.extract_value(value, state.fields.index(key))
        begin, end = (_load(builder, context, state, value, f"{key}_{side}") for side in ("begin", "end"))
        place = state.fields.index(storage.holder(key))
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


@functools.cache
def reader(name: str) -> Any:
    """Return a function that reads a number of a state's record which never changes: compiled code reads it once."""

    @intrinsic
    def read(typing: Any, state: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            loaded = _load(builder, context, state, arguments[0], name)
            loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
            return loaded

        return types.int64(state), build

    return read


def short_type(state: Any, name: str) -> Any:
    """Return numba's type of a state, with a short name.

    Numba puts the names of types into those of all functions, and this one would list every number of the record. Types
    that are equal are one object while it lives, so the storage keeps this one.
    """
    found = typeof(state)
    found.name = name
    return found
