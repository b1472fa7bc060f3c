"""The state of a policy, declared once for numpy, compiled code, the type checker, saving and loading.

A state is a record of named scalars, and arrays of numbers. A class under ``@record`` declares some of them. A
``Layout`` puts several such classes together.

    @record
    class Discount:
        gamma: float = param(REQUIRED, between(0, 1), "the discount of a step, such as 0.999")
        weight: float = variable(1.0)
        faded: Floats = array(lambda scalars: scalars.arms)

- ``param``: a user's parameter
- ``computed``: a scalar that the policy computes from its parameters
- ``variable``: a scalar that changes; it starts with the given value
- ``size``: a scalar that is fixed when a state is built, and decides the lengths of arrays
- ``array`` and ``fixed_array``: arrays that change, and arrays that stay as they were built

*Scratch* fields do not depend on the observations alone: the random numbers, pending reports, and intermediate results.

In memory a state is a tuple of three arrays, ``scalars``, ``ints`` and ``floats``. ``scalars`` has one element, the
record, because compiled code can pass an array on and change it in place. All arrays of whole numbers lie one after the
other in ``ints``, and all others in ``floats``, because passing many arrays takes longer than a step. The record says
where each array begins and ends. ``state.counts`` is the array of that name, in compiled code (``internals.py``) and
outside. It is looked up when it is used: tuples of thirty arrays took most of the time to compile.

Several states of one layout can be *stacked* into one, whose arrays are as many times as long. ``select_state`` returns
one of them, so a kernel takes any number of policies, and a step of all of them is a single call into machine code.
"""

import hashlib
import inspect
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba import internals
from maskedbandits._numba.jit import INLINE_OPTIONS, Choice
from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.errors import UserError
from maskedbandits.fingerprint import Origin

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

REQUIRED = ...
POSITION, DURATION, DECAY = "position", "duration", "decay"  # kinds of times (``policies/log_times.py``)
BUILTIN = Origin()  # of layouts that contain code of this package alone

Check = Callable[[str, Any], Any]
Length = Callable[[Any], int]
Bound = float | Callable[[Any], float]
Class = TypeVar("Class", bound=type)
Declarations = Mapping[str, tuple[Any, Any]]  # by name: the type, and one of the classes below


@dataclass(frozen=True)
class Param:
    """A parameter: its default, or ``...`` if it is required; the function that checks it; a description."""

    default: Any
    check: Check
    hint: str
    stored: bool = True  # False if the policy computes other scalars from it and does not need it any more
    time: str = ""  # POSITION, DURATION or DECAY if it is a time

    @property
    def required(self) -> bool:
        """Whether the user must give it."""
        return self.default is REQUIRED

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        return str(getattr(self.check, "words", ""))


@dataclass(frozen=True)
class Variable:
    """A scalar that changes: its first value, and the range of saved values."""

    reset: float
    least: float
    most: Bound
    scratch: bool = False


@dataclass(frozen=True)
class Size:
    """A scalar that is fixed when a state is built."""

    default: int
    scratch: bool = False


@dataclass(frozen=True)
class Computed:
    """A scalar that a policy computes from its parameters when a state is built."""

    scratch: bool = False


@dataclass(frozen=True)
class Array:
    """An array of a state: its length, and the range of saved numbers, or that they stay as they were built."""

    length: Length
    least: float
    most: Bound
    fixed: bool
    scratch: bool = False
    added: Bound = 0.0  # the first value of an arm that is added later


def param(default: Any, check: Check, hint: str, *, stored: bool = True, time: str = "") -> Any:
    """Declare a parameter."""
    return Param(default, check, hint, stored, time)


def variable(reset: float, least: float = 0.0, most: Bound = np.inf, *, scratch: bool = False) -> Any:
    """Declare a scalar that changes."""
    return Variable(reset, least, most, scratch)


def size(default: int = 0, *, scratch: bool = False) -> Any:
    """Declare a scalar that is fixed when a state is built."""
    return Size(default, scratch)


def computed(*, scratch: bool = False) -> Any:
    """Declare a scalar that is computed from the parameters when a state is built."""
    return Computed(scratch)


def array(
    length: Length, least: float = -np.inf, most: Bound = np.inf, *, scratch: bool = False, added: Bound = 0.0
) -> Any:
    """Declare an array that changes; ``added`` is the first value of an arm that is added later."""
    return Array(length, least, most, fixed=False, scratch=scratch, added=added)


def fixed_array(length: Length) -> Any:
    """Declare an array that stays as it was built."""
    return Array(length, -np.inf, np.inf, fixed=True)


def record(declared: Class) -> Class:
    """Collect the declarations of a class: its annotated attributes."""
    annotations = inspect.get_annotations(declared)
    found = {name: (annotations[name], vars(declared)[name]) for name in annotations if name in vars(declared)}
    declared.declarations = found  # type: ignore[attr-defined]
    return declared


class Record:
    """The base of all classes of declarations: in a state, ``scalars`` is the array that holds the record."""

    declarations: Mapping[str, tuple[Any, Any]] = {}
    scalars: "Sequence[Self]"


class Storage:
    """The record and the class of states of one layout, or of several that share their compiled kernels.

    In a shared storage, ``choices`` are numbers of the record that say which module plays each part (``jit.Choice``).
    A layout uses some of the scalars and arrays of its storage. Its other arrays are empty.
    """

    def __init__(
        self, name: str, parts: Sequence[Declarations], module: str, origin: Origin, code: Mapping[str, Any]
    ) -> None:
        self.name, self.origin = name, origin
        self.choices = [each.number for each in code.values() if isinstance(each, Choice)]
        self._layouts: dict[tuple[int, ...], Layout] = {}
        types: dict[str, Any] = dict.fromkeys(self.choices, int)
        for key, (kind, what) in (item for part in parts for item in part.items()):
            if isinstance(what, Param) and not what.stored:
                continue
            if types.setdefault(key, kind) != kind:
                raise UserError(f"{name}: two parts of its state declare {key!r}: rename one of them")
        self.arrays = {key: kind for key, kind in types.items() if kind in (Ints, Floats, Words)}
        numbers = [(key, _number_type(kind)) for key, kind in types.items() if key not in self.arrays]
        # One scalar has a unique name: numba takes records for each other if one begins with the fields of the other.
        self.dtype = _record_type([*numbers, (f"is_{name}", np.int64)], self.arrays)
        self.State: Any = _create_state_class(self, module, code)
        empty = self.State(np.zeros(1, self.dtype), np.zeros(1, dtype=np.int64), np.zeros(1))
        self.numba_type = internals.register_state(empty, self.State.__name__)

    def holder(self, key: str) -> str:
        """Return the name of the array that holds an array of the state."""
        return "floats" if self.arrays[key] == Floats else "ints"

    def is_of_words(self, key: str) -> bool:
        """Tell whether an array holds unsigned numbers."""
        return bool(self.arrays[key] == Words)

    def add(self, layout: "Layout") -> None:
        """Register a layout that uses this storage."""
        self._layouts[tuple(layout.choices.values())] = layout

    def layout_of(self, scalars: Any) -> "Layout":
        """Return the layout of a state by its record."""
        return self._layouts[tuple(int(scalars[key]) for key in self.choices)]


class Layout:
    """A kind of state: the scalars and arrays that its parts declare, in order, and their storage."""

    def __init__(
        self,
        name: str,
        parts: Sequence[type[Record]],
        module: str,
        *,
        origin: Origin = BUILTIN,
        shared: Storage | None = None,
        choices: Mapping[str, int] | None = None,
        **code: Any,
    ) -> None:
        self.name, self.origin = name, origin
        self.declarations: dict[str, tuple[Any, Any]] = {}
        for part in parts:
            _declare(name, self.declarations, declarations_of(part))
        items = self.declarations.items()
        self.params: dict[str, Param] = {key: what for key, (_, what) in items if isinstance(what, Param)}
        self.variables: dict[str, Variable] = {key: what for key, (_, what) in items if isinstance(what, Variable)}
        self.sizes: dict[str, Size] = {key: what for key, (_, what) in items if isinstance(what, Size)}
        self.computed = [key for key, (_, what) in items if isinstance(what, Computed)]
        self.arrays: dict[str, Array] = {key: what for key, (_, what) in items if isinstance(what, Array)}
        self.stored = [key for key, what in self.params.items() if what.stored]
        numbers = [*self.sizes, *self.stored, *self.computed, *self.variables]
        types = [(key, _number_type(self.declarations[key][0])) for key in numbers]
        self.saved_dtype = _record_type(types, self.arrays)
        self.storage = shared or Storage(name, [self.declarations], module, origin, code)
        self.choices = {key: (choices or {})[key] for key in self.storage.choices}
        self.storage.add(self)
        self.State = self.storage.State

    def refuse_if_changed(self, title: str) -> None:
        """Refuse outside code that was changed in this process, such as by a notebook's cell."""
        if self.origin.has_changed():
            raise UserError(
                f"the code of {title} has changed since it was registered: register it again, and make a new policy"
            )

    def _find_extents(self, scalars: Any) -> tuple[dict[str, int], dict[str, int]]:
        """Return where each array begins and ends, and the lengths of ``ints`` and ``floats``."""
        extents: dict[str, int] = {}
        lengths = {"ints": 0, "floats": 0}
        for key, what in self.arrays.items():
            begin, end = ends_of(key)
            holder = self.storage.holder(key)
            extents[begin] = lengths[holder]
            lengths[holder] += int(what.length(scalars))
            extents[end] = lengths[holder]
        return extents, lengths

    def build(self, sizes: Mapping[str, int], parameters: Mapping[str, Any]) -> Any:
        """Return the initial state for these sizes and parameters."""
        sizes = {key: int(sizes.get(key, what.default)) for key, what in self.sizes.items()}
        extents, lengths = self._find_extents(SimpleNamespace(**sizes))
        values: dict[str, Any] = {**sizes, **extents, **self.choices}
        values |= {key: parameters[key] for key in self.stored}
        values |= {key: what.reset for key, what in self.variables.items()}
        scalars = np.zeros(1, dtype=self.storage.dtype)
        scalars[0] = tuple(values.get(key, 0) for key in scalars.dtype.names or ())  # at once: singly takes longer
        ints, floats = np.zeros(lengths["ints"], dtype=np.int64), np.zeros(lengths["floats"])
        return self.State(scalars.view(np.recarray), ints, floats)

    def pack(self, scalars: Any) -> Any:
        """Return records for a file: without the fields of other layouts."""
        out = np.zeros(scalars.size, dtype=self.saved_dtype)
        for key in self.saved_dtype.names or ():
            out[key] = scalars[key]
        return out

    def unpack(self, saved: Any) -> Any:
        """Return records from a file, with the fields of the storage."""
        if saved.dtype != self.saved_dtype or saved.ndim != 1:
            raise ValueError("its record is of another kind")
        scalars = np.zeros(saved.size, dtype=self.storage.dtype)
        for key in self.saved_dtype.names or ():
            scalars[key] = saved[key]
        for key, choice in self.choices.items():
            scalars[key] = choice
        return scalars.view(np.recarray)

    def check_extents(self, scalars: Any) -> tuple[dict[str, int], dict[str, int]]:
        """Return the extents of arrays and the lengths of ``ints`` and ``floats`` by a record that is not trusted."""
        if scalars.shape != (1,) or any(scalars[key][0] < 0 for key in self.sizes):
            raise ValueError("its record is of another kind")
        sizes = {key: int(scalars[key][0]) for key in self.sizes}  # Python's integers cannot overflow
        return self._find_extents(SimpleNamespace(**sizes))

    def fits(self, state: Any) -> bool:
        """Tell whether arrays that are not trusted have the types, lengths and extents that their record says."""
        scalars, ints, floats = state
        extents, lengths = self.check_extents(scalars)
        same_types = ints.dtype == np.int64 and floats.dtype == np.float64
        same_lengths = ints.shape == (lengths["ints"],) and floats.shape == (lengths["floats"],)
        return same_types and same_lengths and all(scalars[key][0] == place for key, place in extents.items())


def declarations_of(part: type[Record]) -> Declarations:
    """Return all declarations of a class and its bases, bases first."""
    found: dict[str, tuple[Any, Any]] = {}
    for base in reversed(part.__mro__):
        _declare(part.__name__, found, base.__dict__.get("declarations", {}))
    return found


def _declare(name: str, found: dict[str, tuple[Any, Any]], more: Declarations) -> None:
    """Add declarations; two parts may share a parameter, but nothing that changes."""
    for key, (_, what) in more.items():
        before = found.get(key, (None, what))[1]
        if before is not what and not (isinstance(before, Param) and isinstance(what, Param)):
            raise UserError(f"{name}: two parts of its state declare {key!r}: rename one of them")
    found.update(more)


def layout_of(state: Any) -> Layout:
    """Return the layout of a state."""
    storage: Storage = type(state).storage
    return storage.layout_of(state.scalars[0])


def has_field(state: Any, key: str) -> bool:
    """Tell whether the layout of a state has a scalar or an array of this name; its storage may have more."""
    return key in layout_of(state).declarations


def _number_type(kind: Any) -> type:
    return np.float64 if kind is float else np.int64


def _record_type(numbers: Sequence[tuple[str, type]], arrays: Iterable[str]) -> np.dtype[Any]:
    """Return the type of a record: its scalars, and where its arrays begin and end."""
    extents = [(place, np.int64) for key in arrays for place in ends_of(key)]
    return np.dtype([*numbers, *extents], align=True)


def ends_of(key: str) -> tuple[str, str]:
    """Return the names of the scalars that say where an array begins and ends."""
    return f"{key}_begin", f"{key}_end"


def _create_state_class(storage: Storage, module: str, code: Mapping[str, Any]) -> Any:
    """Return the class of states: a tuple of three arrays, with an attribute for each array of the state."""
    plain: Any = namedtuple("plain", ["scalars", "ints", "floats"])
    attributes = {**code, "storage": storage, "origin": storage.origin, "__module__": module}
    views = {key: lockfree_cached_property(_create_view(storage, key)) for key in storage.arrays}
    created: Any = type(f"{storage.name}State", (plain,), {**views, **attributes})
    for key, view in views.items():
        view.__set_name__(created, key)
        internals.teach_array(key)
    return created


def _create_view(storage: Storage, key: str) -> Callable[[Any], Any]:
    begin, end = ends_of(key)

    def view(state: Any) -> Any:
        scalars = state.scalars[0]
        found = getattr(state, storage.holder(key))[scalars[begin] : scalars[end]]
        return found.view(np.uint64) if storage.is_of_words(key) else found

    return view


def copy_resized(state: Any, sizes: Mapping[str, int], arrays: Sequence[str]) -> Any:
    """Return a copy with other sizes; scalars, and the arrays that are named, are copied."""
    layout = layout_of(state)
    old = state.scalars[0]
    every = {key: int(old[key]) for key in layout.sizes} | dict(sizes)
    new = layout.build(every, {key: old[key] for key in layout.stored})
    for key in (*layout.computed, *layout.variables):
        new.scalars[key] = old[key]
    for key in arrays:
        getattr(new, key)[:] = getattr(state, key)
    return new


def copy_widened(state: Any, sizes: Mapping[str, int]) -> Any:
    """Return a copy with larger sizes, whose arrays continue with the first values of an arm that is added."""
    new = copy_resized(state, sizes, ())
    for key, what in layout_of(state).arrays.items():
        old, wide = getattr(state, key), getattr(new, key)
        wide[: old.size] = old
        wide[old.size :] = what.added(new.scalars[0]) if callable(what.added) else what.added
    return new


def copy_state(state: Any) -> Any:
    """Return a copy that shares nothing."""
    return type(state)(*(each.copy() for each in state))


def digest(state: Any) -> str:
    """Return the SHA-256 of a state without scratch: states with the same observations have the same."""
    layout = layout_of(state)
    found = hashlib.sha256(layout.name.encode())
    for key, (_, what) in layout.declarations.items():
        if getattr(what, "scratch", False) or (isinstance(what, Param) and not what.stored):
            continue
        numbers = getattr(state, key) if isinstance(what, Array) else state.scalars[key]
        found.update(f" {key} {numbers.size} ".encode() + numbers.tobytes())
    return found.hexdigest()


def stack(states: list[Any]) -> Any:
    """Return several states of one layout as one."""
    return type(states[0])(
        np.concatenate([state.scalars for state in states]).view(np.recarray),
        np.concatenate([state.ints for state in states]),
        np.concatenate([state.floats for state in states]),
    )


def select_state(state: Any, index: int) -> Any:
    """Return one of the states of a stack; it shares the arrays."""
    states = state.scalars.size
    ints, floats = state.ints.size // states, state.floats.size // states
    return type(state)(
        state.scalars[index : index + 1],
        state.ints[index * ints : (index + 1) * ints],
        state.floats[index * floats : (index + 1) * floats],
    )


internals.overload_select(select_state, INLINE_OPTIONS)


def stack_rows(state: Any, key: str) -> Any:
    """Return an array of all states of a stack, one row for each; it shares the arrays."""
    storage, scalars = type(state).storage, state.scalars[0]
    begin, end = ends_of(key)
    return getattr(state, storage.holder(key)).reshape(state.scalars.size, -1)[:, scalars[begin] : scalars[end]]
