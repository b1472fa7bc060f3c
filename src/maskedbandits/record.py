"""What a state is made of, declared once: for numpy, for compiled code, for the type checker, for saving and loading.

A state is a record of numbers with names, and sections: arrays of numbers. A class under ``@record`` declares some of
them; a kind of state is a ``Layout`` of several such classes.

    @record
    class Discount:
        gamma: float = given(REQUIRED, between(0, 1), "the discount of a step, such as 0.999")
        weight: float = gathered(1.0)
        faded: Floats = section(lambda own: own.arms)

*Given* numbers are a user's parameters, *derived* ones are made of them. *Gathered* ones start as they say, and change.
A *size* is fixed when a state is made, and decides the lengths of sections.

The record is an array of one element, as compiled code can pass that on and change it in place. All sections of whole
numbers lie one after the other in one array, and all others in a second, because handing over many arrays takes longer
than a step; a table of contents at the beginning of the first tells where each begins and ends. A kind of state has two
classes: ``layout.Buffers`` holds the three arrays, ``layout.State`` the record and every section by its name. ``opened``
makes the second of the first, in compiled code and out of it.
"""

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from maskedbandits.compiled import FORCED

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

REQUIRED = ...

Check = Callable[[str, Any], Any]
Length = Callable[[Any], int]
Bound = float | Callable[[Any], float]
Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class Given:
    """A parameter: its default, or ``...`` where it must be given; what checks it; what it is, in words."""

    default: Any
    check: Check
    hint: str
    stored: bool = True  # False if the policy makes other numbers of it

    @property
    def required(self) -> bool:
        """Tell whether it must be given."""
        return self.default is REQUIRED

    @property
    def allowed(self) -> str:
        """What may be given, in words."""
        return str(getattr(self.check, "words", ""))


@dataclass(frozen=True)
class Gathered:
    """A number that changes: its first value, and between what a saved one must lie."""

    reset: float
    least: float
    most: Bound


@dataclass(frozen=True)
class Size:
    """A number that is fixed when a state is made."""

    default: int


@dataclass(frozen=True)
class Derived:
    """A number that a policy makes of its parameters when a state is made."""


@dataclass(frozen=True)
class Section:
    """An array of a state: its length, and between what saved numbers must lie, or that they must be as when made."""

    length: Length
    least: float
    most: Bound
    fixed: bool


def given(default: Any, check: Check, hint: str, *, stored: bool = True) -> Any:
    """Declare a parameter."""
    return Given(default, check, hint, stored)


def gathered(reset: float, least: float = 0.0, most: Bound = np.inf) -> Any:
    """Declare a number that changes."""
    return Gathered(reset, least, most)


def size(default: int = 0) -> Any:
    """Declare a number that is fixed when a state is made."""
    return Size(default)


def derived() -> Any:
    """Declare a number that is made of the parameters when a state is made."""
    return Derived()


def section(length: Length, least: float = -np.inf, most: Bound = np.inf) -> Any:
    """Declare an array whose numbers change."""
    return Section(length, least, most, fixed=False)


def fixed(length: Length) -> Any:
    """Declare an array that stays as it was when the state was made."""
    return Section(length, -np.inf, np.inf, fixed=True)


def record(declared: Class) -> Class:
    """Take the class's annotations and what stands behind them for declarations."""
    names = [name for name in declared.__dict__.get("__annotations__", {}) if name in declared.__dict__]
    declared.declarations = {name: (declared.__annotations__[name], declared.__dict__[name]) for name in names}
    return declared


class Record:
    """What all classes of declarations have: in a state, ``own`` is the array that holds the record."""

    declarations: Mapping[str, tuple[Any, Any]] = {}
    own: "Sequence[Any]"


class Layout:
    """A kind of state: the numbers and sections that its parts declare, in order, and its two classes."""

    def __init__(self, name: str, parts: Sequence[type[Record]], module: str, **code: Any) -> None:
        self.name = name
        self.declarations: dict[str, tuple[Any, Any]] = {}
        for part in parts:
            for base in reversed(part.__mro__):
                self.declarations.update(base.__dict__.get("declarations", {}))
        told = self.declarations.items()
        self.given: dict[str, Given] = {key: what for key, (_, what) in told if isinstance(what, Given)}
        self.gathered: dict[str, Gathered] = {key: what for key, (_, what) in told if isinstance(what, Gathered)}
        self.sizes: dict[str, Size] = {key: what for key, (_, what) in told if isinstance(what, Size)}
        self.derived = [key for key, (_, what) in told if isinstance(what, Derived)]
        self.sections: dict[str, Section] = {key: what for key, (_, what) in told if isinstance(what, Section)}
        self.stored = [key for key, what in self.given.items() if what.stored]
        names = (*self.sizes, *self.stored, *self.derived, *self.gathered)
        self.dtype = np.dtype([(key, self._type(key)) for key in names])
        self._whole = [key for key in self.sections if self.declarations[key][0] != Floats]
        self._real = [key for key in self.sections if self.declarations[key][0] == Floats]
        self.Buffers: Any = namedtuple(f"{name}Buffers", ["own", "ints", "floats"], module=module)  # type: ignore[misc]
        self.State: Any = namedtuple(f"{name}State", ["own", *self.sections], module=module)  # type: ignore[misc]
        self.Buffers.layout = self
        for part, what in code.items():
            setattr(self.State, part, what)

    def _type(self, key: str) -> type:
        return np.float64 if self.declarations[key][0] is float else np.int64

    def _ends(self, own: Any) -> tuple[Ints, Ints]:
        """Return where the sections end, in either array; those of whole numbers come after the table of contents."""
        lengths = {key: int(self.sections[key].length(own[0])) for key in self.sections}
        ints = len(self.sections) + 2 + np.cumsum([0, *(lengths[key] for key in self._whole)])
        return ints, np.cumsum([0, *(lengths[key] for key in self._real)])

    def made(self, sizes: Mapping[str, int], parameters: Mapping[str, Any]) -> Any:
        """Return the buffers of a state of these sizes and parameters; what is gathered is at its start."""
        own = np.zeros(1, dtype=self.dtype).view(np.recarray)
        for key, what in self.sizes.items():
            own[key] = sizes.get(key, what.default)
        for key in self.stored:
            own[key] = parameters[key]
        ints, floats = self._ends(own)
        buffers = self.Buffers(own, np.zeros(ints[-1], dtype=np.int64), np.zeros(floats[-1]))
        buffers.ints[: ints.size] = ints
        buffers.ints[ints.size : ints.size + floats.size] = floats
        self.reset(own)
        return buffers

    def reset(self, own: Any) -> None:
        """Give every number that is gathered its first value."""
        for key, what in self.gathered.items():
            own[key] = what.reset

    def is_of_this_kind(self, buffers: Any) -> bool:
        """Tell whether three arrays from elsewhere are as long as their record says, and the contents in place."""
        own, ints, floats = buffers
        if own.dtype != self.dtype or own.shape != (1,) or ints.dtype != np.int64 or floats.dtype != np.float64:
            return False
        if ints.ndim != 1 or floats.ndim != 1 or any(own[key][0] < 0 for key in self.sizes):
            return False
        whole, real = self._ends(own)
        contents = np.concatenate([whole, real])
        same_lengths = ints.size == whole[-1] and floats.size == real[-1]
        return bool(same_lengths and np.array_equal(ints[: contents.size], contents))

    def code(self) -> str:
        """Return the code that lays a state over its buffers."""
        views = []
        for key in self.sections:
            whole = key in self._whole
            place = self._whole.index(key) if whole else len(self._whole) + 1 + self._real.index(key)
            view = f"{'ints' if whole else 'floats'}[ints[{place}]:ints[{place + 1}]]"
            views.append(f"{key}={view}" + (".view(uint64)" if self.declarations[key][0] == Words else ""))
        return f"def lay(buffers):\n own, ints, floats = buffers\n return State(own=own, {', '.join(views)})\n"

    def laid(self) -> Callable[[Any], Any]:
        """Return the function that lays a state over its buffers."""
        names: dict[str, Any] = {"State": self.State, "uint64": np.uint64}
        exec(self.code(), names)  # noqa: S102 -- of names that this package declares
        lay: Callable[[Any], Any] = names["lay"]
        return lay


def opened(buffers: Any) -> Any:
    """Lay the state over its buffers."""
    layout = type(buffers).layout
    if not hasattr(layout, "_lay"):
        layout._lay = layout.laid()
    return layout._lay(buffers)


@overload(opened, jit_options=FORCED)
def _opened(buffers: Any) -> Any:
    return buffers.instance_class.layout.laid()


def relaid(buffers: Any, sizes: Mapping[str, int], sections: Sequence[str]) -> Any:
    """Return a copy in which some sizes are others; numbers, and the sections named, are taken over."""
    layout = type(buffers).layout
    old = buffers.own[0]
    kept = {key: int(old[key]) for key in layout.sizes} | dict(sizes)
    new = layout.made(kept, {key: old[key] for key in layout.stored})
    for key in (*layout.derived, *layout.gathered):
        new.own[key] = old[key]
    before, after = opened(buffers), opened(new)
    for key in sections:
        getattr(after, key)[:] = getattr(before, key)
    return new


def copied(buffers: Any) -> Any:
    """Return a copy that shares nothing."""
    return type(buffers)(*(array.copy() for array in buffers))
