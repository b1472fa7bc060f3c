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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import Choice
from maskedbandits._numba.sections import short_type, teach
from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.errors import UserError
from maskedbandits.fingerprint import Origin

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
Declarations = Mapping[str, tuple[Any, Any]]  # by name: the type, and one of the classes below


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


class Storage:
    """The record and the class of states: of one layout, or shared by several, whose kernels are compiled once for all.

    In a shared one ``choices`` are numbers of the record that say which of several modules plays each part (see
    ``compiled.Choice``). Layouts that share it have some of its numbers and sections; their other sections are empty.
    """

    def __init__(
        self, name: str, parts: Sequence[Declarations], module: str, origin: Origin, code: Mapping[str, Any]
    ) -> None:
        self.name, self.origin = name, origin
        self.choices = [each.number for each in code.values() if isinstance(each, Choice)]
        self._layouts: dict[tuple[int, ...], Layout] = {}
        types: dict[str, Any] = dict.fromkeys(self.choices, int)
        for key, (kind, what) in (item for part in parts for item in part.items()):
            if isinstance(what, Given) and not what.stored:
                continue
            if types.setdefault(key, kind) != kind:
                raise UserError(f"{name}: two parts of its state declare {key!r}: rename one of them")
        self.sections = {key: kind for key, kind in types.items() if kind in (Ints, Floats, Words)}
        numbers = [(key, _number_type(kind)) for key, kind in types.items() if key not in self.sections]
        # One number has a name of its own: numba would take a record for another one that begins with the same numbers.
        self.dtype = _record_type([*numbers, (f"is_{name}", np.int64)], self.sections)
        self.State: Any = _state_class(self, module, code)
        empty = self.State(np.zeros(1, self.dtype), np.zeros(1, dtype=np.int64), np.zeros(1))
        self.numba_type = short_type(empty, self.State.__name__)

    def holder(self, key: str) -> str:
        """Return which of the arrays holds a section."""
        return "floats" if self.sections[key] == Floats else "ints"

    def is_of_words(self, key: str) -> bool:
        """Tell whether a section holds numbers without a sign."""
        return bool(self.sections[key] == Words)

    def add(self, layout: "Layout") -> None:
        """Let states of a layout be kept here."""
        self._layouts[tuple(layout.choices.values())] = layout

    def layout_of(self, own: Any) -> "Layout":
        """Return the layout of a state by its record."""
        return self._layouts[tuple(int(own[key]) for key in self.choices)]


class Layout:
    """A kind of state: the numbers and sections that its parts declare, in order, and where its states are kept."""

    def __init__(
        self,
        name: str,
        parts: Sequence[type[Record]],
        module: str,
        *,
        origin: Origin = NOBODYS,
        shared: Storage | None = None,
        choices: Mapping[str, int] | None = None,
        **code: Any,
    ) -> None:
        self.name, self.origin = name, origin
        self.declarations: dict[str, tuple[Any, Any]] = {}
        for part in parts:
            _declare(name, self.declarations, declarations_of(part))
        told = self.declarations.items()
        self.given: dict[str, Given] = {key: what for key, (_, what) in told if isinstance(what, Given)}
        self.gathered: dict[str, Gathered] = {key: what for key, (_, what) in told if isinstance(what, Gathered)}
        self.sizes: dict[str, Size] = {key: what for key, (_, what) in told if isinstance(what, Size)}
        self.derived = [key for key, (_, what) in told if isinstance(what, Derived)]
        self.sections: dict[str, Section] = {key: what for key, (_, what) in told if isinstance(what, Section)}
        self.stored = [key for key, what in self.given.items() if what.stored]
        numbers = [*self.sizes, *self.stored, *self.derived, *self.gathered]
        types = [(key, _number_type(self.declarations[key][0])) for key in numbers]
        self.saved_dtype = _record_type(types, self.sections)
        self.storage = shared or Storage(name, [self.declarations], module, origin, code)
        self.choices = {key: (choices or {})[key] for key in self.storage.choices}
        self.storage.add(self)
        self.State = self.storage.State

    def refuse_if_changed(self, title: str) -> None:
        """Refuse to go on with code of your own that was changed in this process, such as by a notebook's cell."""
        if self.origin.has_changed():
            raise UserError(
                f"the code of {title} has changed since it was registered: register it again, and make a new policy"
            )

    def _contents(self, own: Any) -> tuple[dict[str, int], dict[str, int]]:
        """Return where the sections begin and end, and how long the arrays are."""
        places: dict[str, int] = {}
        ends = {"ints": 0, "floats": 0}
        for key, section in self.sections.items():
            begin, end = ends_of(key)
            holder = self.storage.holder(key)
            places[begin] = ends[holder]
            ends[holder] += int(section.length(own))
            places[end] = ends[holder]
        return places, ends

    def made(self, sizes: Mapping[str, int], parameters: Mapping[str, Any]) -> Any:
        """Return a state of these sizes and parameters; what is gathered is at its start."""
        sizes = {key: int(sizes.get(key, what.default)) for key, what in self.sizes.items()}
        places, ends = self._contents(SimpleNamespace(**sizes))
        values: dict[str, Any] = {**sizes, **places, **self.choices}
        values |= {key: parameters[key] for key in self.stored}
        values |= {key: changing.reset for key, changing in self.gathered.items()}
        own = np.zeros(1, dtype=self.storage.dtype)
        own[0] = tuple(values.get(key, 0) for key in own.dtype.names or ())  # at once: one by one takes a while
        return self.State(own.view(np.recarray), np.zeros(ends["ints"], dtype=np.int64), np.zeros(ends["floats"]))

    def packed(self, own: Any) -> Any:
        """Return records as they are saved: without what belongs to other layouts."""
        out = np.zeros(own.size, dtype=self.saved_dtype)
        for key in self.saved_dtype.names or ():
            out[key] = own[key]
        return out

    def unpacked(self, saved: Any) -> Any:
        """Return records that were saved as this process keeps them."""
        if saved.dtype != self.saved_dtype or saved.ndim != 1:
            raise ValueError("its record is of another kind")
        own = np.zeros(saved.size, dtype=self.storage.dtype)
        for key in self.saved_dtype.names or ():
            own[key] = saved[key]
        for key, choice in self.choices.items():
            own[key] = choice
        return own.view(np.recarray)

    def contents_told(self, own: Any) -> tuple[dict[str, int], dict[str, int]]:
        """Return where sections begin and end, and how long the arrays are, by a record that comes from elsewhere."""
        if own.shape != (1,) or any(own[key][0] < 0 for key in self.sizes):
            raise ValueError("its record is of another kind")
        return self._contents(SimpleNamespace(**{key: int(own[key][0]) for key in self.sizes}))  # which cannot overflow

    def is_of_this_kind(self, state: Any) -> bool:
        """Tell whether arrays from elsewhere are as long as their record says, and the contents in place."""
        own, ints, floats = state
        places, ends = self.contents_told(own)
        same_types = ints.dtype == np.int64 and floats.dtype == np.float64
        same_lengths = ints.shape == (ends["ints"],) and floats.shape == (ends["floats"],)
        return same_types and same_lengths and all(own[key][0] == place for key, place in places.items())


def declarations_of(part: type[Record]) -> Declarations:
    """Return all that a class and its bases declare, bases first."""
    found: dict[str, tuple[Any, Any]] = {}
    for base in reversed(part.__mro__):
        _declare(part.__name__, found, base.__dict__.get("declarations", {}))
    return found


def _declare(name: str, found: dict[str, tuple[Any, Any]], more: Declarations) -> None:
    """Add declarations; two parts may share a parameter, but nothing that changes."""
    for key, (_, what) in more.items():
        before = found.get(key, (None, what))[1]
        if before is not what and not (isinstance(before, Given) and isinstance(what, Given)):
            raise UserError(f"{name}: two parts of its state declare {key!r}: rename one of them")
    found.update(more)


def layout_of(state: Any) -> Layout:
    """Return the layout of a state."""
    storage: Storage = type(state).storage
    return storage.layout_of(state.own[0])


def has_field(state: Any, key: str) -> bool:
    """Tell whether a kind of state has a number or a section of this name; a shared record has those of other kinds."""
    return key in layout_of(state).declarations


def _number_type(kind: Any) -> type:
    return np.float64 if kind is float else np.int64


def _record_type(numbers: Sequence[tuple[str, type]], sections: Iterable[str]) -> np.dtype[Any]:
    """Return the type of a record: its numbers, and where its sections begin and end."""
    contents = [(place, np.int64) for key in sections for place in ends_of(key)]
    return np.dtype([*numbers, *contents], align=True)


def ends_of(key: str) -> tuple[str, str]:
    """Return the names of the numbers that tell where a section begins and ends."""
    return f"{key}_begin", f"{key}_end"


def _state_class(storage: Storage, module: str, code: Mapping[str, Any]) -> Any:
    """Return the class of states: a tuple of three arrays that knows its sections by name."""
    plain: Any = namedtuple("plain", ["own", "ints", "floats"])
    attributes = {**code, "storage": storage, "origin": storage.origin, "__module__": module}
    views = {key: lockfree_cached_property(_view(storage, key)) for key in storage.sections}
    made: Any = type(f"{storage.name}State", (plain,), {**views, **attributes})
    for key, view in views.items():
        view.__set_name__(made, key)
        teach(key)
    return made


def _view(storage: Storage, key: str) -> Callable[[Any], Any]:
    begin, end = ends_of(key)

    def view(state: Any) -> Any:
        own = state.own[0]
        found = getattr(state, storage.holder(key))[own[begin] : own[end]]
        return found.view(np.uint64) if storage.is_of_words(key) else found

    return view


def relaid(state: Any, sizes: Mapping[str, int], sections: Sequence[str]) -> Any:
    """Return a copy in which some sizes are others; numbers, and the sections named, are taken over."""
    layout = layout_of(state)
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
    for key, what in layout_of(state).sections.items():
        old, wide = getattr(state, key), getattr(new, key)
        wide[: old.size] = old
        wide[old.size :] = what.added(new.own[0]) if callable(what.added) else what.added
    return new


def copied(state: Any) -> Any:
    """Return a copy that shares nothing."""
    return type(state)(*(array.copy() for array in state))


def digest(state: Any) -> str:
    """Return the SHA-256 of a state, but for scratch: two that observed the same have the same."""
    layout = layout_of(state)
    told = hashlib.sha256(layout.name.encode())
    for key, (_, what) in layout.declarations.items():
        if getattr(what, "scratch", False) or (isinstance(what, Given) and not what.stored):
            continue
        numbers = getattr(state, key) if isinstance(what, Section) else state.own[key]
        told.update(f" {key} {numbers.size} ".encode() + numbers.tobytes())
    return told.hexdigest()
