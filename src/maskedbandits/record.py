"""What a state is made of, declared once: for numpy, for compiled code, for the type checker, for saving and loading.

A state is a record of numbers with names, and sections: arrays of numbers. A class under ``@record`` declares some of
them; a kind of state is a ``Layout`` of several such classes.

    @record
    class Discount:
        gamma: float = given(REQUIRED, between(0, 1), "the discount of a step, such as 0.999")
        weight: float = gathered(1.0)
        faded: Floats = section(lambda own: own.arms)

*Given* numbers are a user's parameters, *derived* ones are made of them. *Gathered* ones start as they say, and change.
A *size* is fixed when a state is made, and decides the lengths of sections. *Scratch* is what observations alone do not
decide: lots, what is awaited, and what was found on the way to a choice, and could be found again.

The record is an array of one element, as compiled code can pass that on and change it in place. All sections of whole
numbers lie one after the other in one array, and all others in a second, because handing over many arrays takes longer
than a step. So a state is a tuple of three arrays, ``own``, ``ints`` and ``floats``. Where each section begins and ends
stands in the record, too, and ``state.counts`` is the section of that name, in compiled code (``sections.py``) and out
of it. Sections are found when they are asked for: tuples of thirty arrays took most of the time to compile.
"""

import hashlib
import inspect
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError
from maskedbandits.fingerprint import Origin
from maskedbandits.remembered import remembered
from maskedbandits.sections import teach

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

REQUIRED = ...
POSITION, DURATION, DECAY = "position", "duration", "decay"  # kinds of times (``policies/log_times.py``)
NOBODYS = Origin()  # of kinds that are this package's own

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
    time: str = ""  # POSITION, DURATION or DECAY if it is a time

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
    scratch: bool = False


@dataclass(frozen=True)
class Size:
    """A number that is fixed when a state is made."""

    default: int
    scratch: bool = False


@dataclass(frozen=True)
class Derived:
    """A number that a policy makes of its parameters when a state is made."""

    scratch: bool = False


@dataclass(frozen=True)
class Section:
    """An array of a state: its length, and between what saved numbers must lie, or that they must be as when made."""

    length: Length
    least: float
    most: Bound
    fixed: bool
    scratch: bool = False
    added: Bound = 0.0  # what an arm that is added later begins with


def given(default: Any, check: Check, hint: str, *, stored: bool = True, time: str = "") -> Any:
    """Declare a parameter."""
    return Given(default, check, hint, stored, time)


def gathered(reset: float, least: float = 0.0, most: Bound = np.inf, *, scratch: bool = False) -> Any:
    """Declare a number that changes."""
    return Gathered(reset, least, most, scratch)


def size(default: int = 0, *, scratch: bool = False) -> Any:
    """Declare a number that is fixed when a state is made."""
    return Size(default, scratch)


def derived(*, scratch: bool = False) -> Any:
    """Declare a number that is made of the parameters when a state is made."""
    return Derived(scratch)


def section(
    length: Length, least: float = -np.inf, most: Bound = np.inf, *, scratch: bool = False, added: Bound = 0.0
) -> Any:
    """Declare an array whose numbers change; those of an arm stand together, and begin as said if it is added later."""
    return Section(length, least, most, fixed=False, scratch=scratch, added=added)


def fixed(length: Length) -> Any:
    """Declare an array that stays as it was when the state was made."""
    return Section(length, -np.inf, np.inf, fixed=True)


def record(declared: Class) -> Class:
    """Take the class's annotations and what stands behind them for declarations."""
    told = inspect.get_annotations(declared)
    found = {name: (told[name], vars(declared)[name]) for name in told if name in vars(declared)}
    declared.declarations = found  # type: ignore[attr-defined]
    return declared


class Record:
    """What all classes of declarations have: in a state, ``own`` is the array that holds the record."""

    declarations: Mapping[str, tuple[Any, Any]] = {}
    own: "Sequence[Self]"


class Layout:
    """A kind of state: the numbers and sections that its parts declare, in order, and the class of its states."""

    def __init__(
        self, name: str, parts: Sequence[type[Record]], module: str, *, origin: Origin = NOBODYS, **code: Any
    ) -> None:
        self.name, self.origin = name, origin
        self.declarations: dict[str, tuple[Any, Any]] = {}
        for part in parts:
            for base in reversed(part.__mro__):
                self._declare(base.__dict__.get("declarations", {}))
        told = self.declarations.items()
        self.given: dict[str, Given] = {key: what for key, (_, what) in told if isinstance(what, Given)}
        self.gathered: dict[str, Gathered] = {key: what for key, (_, what) in told if isinstance(what, Gathered)}
        self.sizes: dict[str, Size] = {key: what for key, (_, what) in told if isinstance(what, Size)}
        self.derived = [key for key, (_, what) in told if isinstance(what, Derived)]
        self.sections: dict[str, Section] = {key: what for key, (_, what) in told if isinstance(what, Section)}
        self.stored = [key for key, what in self.given.items() if what.stored]
        numbers = [(key, self._type(key)) for key in (*self.sizes, *self.stored, *self.derived, *self.gathered)]
        contents = [(place, np.int64) for key in self.sections for place in ends_of(key)]
        self.holders = {key: "floats" if self.declarations[key][0] == Floats else "ints" for key in self.sections}
        self.dtype = np.dtype([*numbers, *contents], align=True)
        self.State: Any = _state_class(self, module, code)

    def _declare(self, more: Mapping[str, tuple[Any, Any]]) -> None:
        """Add declarations; two parts may share a parameter, but nothing that changes."""
        for key, (_, what) in more.items():
            before = self.declarations.get(key, (None, what))[1]
            if before is not what and not (isinstance(before, Given) and isinstance(what, Given)):
                raise UserError(f"{self.name}: two parts of its state declare {key!r}: rename one of them")
        self.declarations.update(more)

    def refuse_if_changed(self, title: str) -> None:
        """Refuse to go on with code of your own that was changed in this process, such as by a notebook's cell."""
        if self.origin.has_changed():
            raise UserError(
                f"the code of {title} has changed since it was registered: register it again, and make a new policy"
            )

    def _type(self, key: str) -> type:
        return np.float64 if self.declarations[key][0] is float else np.int64

    def holder(self, key: str) -> str:
        """Return which of the arrays holds a section."""
        return self.holders[key]

    def is_of_words(self, key: str) -> bool:
        """Tell whether a section holds numbers without a sign."""
        return bool(self.declarations[key][0] == Words)

    def _contents(self, own: Any) -> tuple[dict[str, int], dict[str, int]]:
        """Return where the sections begin and end, and how long the arrays are."""
        places: dict[str, int] = {}
        ends = {"ints": 0, "floats": 0}
        for key, section in self.sections.items():
            begin, end = ends_of(key)
            holder = self.holders[key]
            places[begin] = ends[holder]
            ends[holder] += int(section.length(own))
            places[end] = ends[holder]
        return places, ends

    def made(self, sizes: Mapping[str, int], parameters: Mapping[str, Any]) -> Any:
        """Return a state of these sizes and parameters; what is gathered is at its start."""
        sizes = {key: int(sizes.get(key, what.default)) for key, what in self.sizes.items()}
        places, ends = self._contents(SimpleNamespace(**sizes))
        values: dict[str, Any] = {**sizes, **places}
        values |= {key: parameters[key] for key in self.stored}
        values |= {key: changing.reset for key, changing in self.gathered.items()}
        own = np.zeros(1, dtype=self.dtype)
        own[0] = tuple(values.get(key, 0) for key in self.dtype.names or ())  # at once: one by one takes a while
        return self.State(own.view(np.recarray), np.zeros(ends["ints"], dtype=np.int64), np.zeros(ends["floats"]))

    def contents_told(self, own: Any) -> tuple[dict[str, int], dict[str, int]]:
        """Return where sections begin and end, and how long the arrays are, by a record that comes from elsewhere."""
        if own.dtype != self.dtype or own.shape != (1,) or any(own[key][0] < 0 for key in self.sizes):
            raise ValueError("its record is of another kind")
        return self._contents(SimpleNamespace(**{key: int(own[key][0]) for key in self.sizes}))  # which cannot overflow

    def is_of_this_kind(self, state: Any) -> bool:
        """Tell whether arrays from elsewhere are as long as their record says, and the contents in place."""
        own, ints, floats = state
        places, ends = self.contents_told(own)
        same_types = ints.dtype == np.int64 and floats.dtype == np.float64
        same_lengths = ints.shape == (ends["ints"],) and floats.shape == (ends["floats"],)
        return same_types and same_lengths and all(own[key][0] == place for key, place in places.items())


def ends_of(key: str) -> tuple[str, str]:
    """Return the names of the numbers that tell where a section begins and ends."""
    return f"{key}_begin", f"{key}_end"


def _state_class(layout: Layout, module: str, code: Mapping[str, Any]) -> Any:
    """Return the class of a layout's states: a tuple of three arrays that knows its sections by name."""
    plain: Any = namedtuple("plain", ["own", "ints", "floats"])
    attributes = {**code, "layout": layout, "origin": layout.origin, "__module__": module}
    views = {key: remembered(_view(layout, key)) for key in layout.sections}
    made: Any = type(f"{layout.name}State", (plain,), {**views, **attributes})
    for key, view in views.items():
        view.__set_name__(made, key)
        teach(key)
    return made


def _view(layout: Layout, key: str) -> Callable[[Any], Any]:
    begin, end = ends_of(key)

    def view(state: Any) -> Any:
        own = state.own[0]
        found = getattr(state, layout.holder(key))[own[begin] : own[end]]
        return found.view(np.uint64) if layout.is_of_words(key) else found

    return view


def relaid(state: Any, sizes: Mapping[str, int], sections: Sequence[str]) -> Any:
    """Return a copy in which some sizes are others; numbers, and the sections named, are taken over."""
    layout = type(state).layout
    old = state.own[0]
    kept = {key: int(old[key]) for key in layout.sizes} | dict(sizes)
    new = layout.made(kept, {key: old[key] for key in layout.stored})
    for key in (*layout.derived, *layout.gathered):
        new.own[key] = old[key]
    for key in sections:
        getattr(new, key)[:] = getattr(state, key)
    return new


def widened(state: Any, sizes: Mapping[str, int]) -> Any:
    """Return a copy in which some sizes are larger: sections go on with what an arm that is added begins with."""
    new = relaid(state, sizes, ())
    for key, what in type(state).layout.sections.items():
        old, wide = getattr(state, key), getattr(new, key)
        wide[: old.size] = old
        wide[old.size :] = what.added(new.own[0]) if callable(what.added) else what.added
    return new


def copied(state: Any) -> Any:
    """Return a copy that shares nothing."""
    return type(state)(*(array.copy() for array in state))


def digest(state: Any) -> str:
    """Return the SHA-256 of a state, but for scratch: two that observed the same have the same."""
    layout = type(state).layout
    told = hashlib.sha256(layout.name.encode())
    for key, (_, what) in layout.declarations.items():
        if getattr(what, "scratch", False) or (isinstance(what, Given) and not what.stored):
            continue
        numbers = getattr(state, key) if isinstance(what, Section) else state.own[key]
        told.update(f" {key} {numbers.size} ".encode() + numbers.tobytes())
    return told.hexdigest()
