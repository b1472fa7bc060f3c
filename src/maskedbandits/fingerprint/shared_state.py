"""State that two objects share and that changes while one of them is used: their runs disturb each other.

All that their code refers to is compared by digests (``values.py``): class attributes, global variables, default
arguments, closures, and objects that both hold. Not seen are changes of results that ``functools.cache`` keeps, and of
objects that cannot be pickled.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from maskedbandits.fingerprint.sources import OWN, place_of
from maskedbandits.fingerprint.values import PLAIN, WRAPPED, Description, names_in

CODE = (FunctionType, type, ModuleType, *WRAPPED)
OTHERS = "a value that their code refers to"  # one that no name leads to directly

Place = tuple[str, str]  # the function, class or object that has a value, and the value's name in it


class SharedState:
    """A snapshot of the state that two objects share.

    Parameters
    ----------
    factory
        The function or class that has built both objects.
    first, second
        The objects.

    """

    def __init__(self, factory: Any, first: object, second: object) -> None:
        self._code = [factory, type(first)]
        self._held = list(list_held_by_both(first, second))
        self._before = self._take()

    def _take(self) -> dict[Place, str]:
        """Return a digest of each shared value."""
        values = {("", path): digest_of(value) for path, value in self._held}
        values |= {place: digest_of(value) for place, value in list_places(self._code)}
        return values | {("", OTHERS): digest_of(self._code)}

    def find_change(self) -> str | None:
        """Return the name of a shared value that has changed since, or None."""
        now = self._take()
        changed = [place for place in {**now, **self._before} if now.get(place) != self._before.get(place)]
        return changed[0][1] if changed else None


def digest_of(value: Any) -> str:
    """Return a digest of a value as it is now."""
    description = Description()
    description.add(value)
    return description.digest


def list_held_by_both(first: object, second: object) -> Iterator[tuple[str, Any]]:
    """Yield the objects that two objects hold in common, with the path to each."""
    others = {id(value) for _, value in walk(second)}
    for path, value in walk(first):
        if id(value) in others:
            yield path, value


def walk(top: object) -> Iterator[tuple[str, Any]]:
    """Yield all that an object holds and that may change, with the path to it."""
    todo, seen = [("", top)], {id(top)}
    while todo:
        path, value = todo.pop()
        for name, inner in list_parts(path, value):
            if id(inner) not in seen and not isinstance(inner, (*PLAIN, *CODE)):
                seen.add(id(inner))
                yield name, inner
                todo.append((name, inner))


def list_parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object, or the entries of a collection, with their paths."""
    if isinstance(value, dict):
        yield from ((f"{path}[{key!r}]", each) for key, each in list(value.items()))
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"{path}[{index}]", each) for index, each in enumerate(list(value)))
    names = [*getattr(value, "__dict__", ())]
    names += [name for each in type(value).__mro__ for name in _list_slots(each)]
    for name in names:
        if hasattr(value, name):
            yield (f"{path}.{name}" if path else name), getattr(value, name)


def _list_slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    return [
        f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
        for name in names
    ]


def list_places(roots: Iterable[Any]) -> Iterator[tuple[Place, Any]]:
    """Yield the values that your own code refers to: in classes, global variables, default arguments and closures."""
    todo, seen = list(roots), set[int]()
    while todo:
        code = todo.pop()
        if isinstance(code, WRAPPED):  # a method, a property or a cached function
            todo += [getattr(code, name, None) for name in ("__func__", "__wrapped__", "fget", "fset", "fdel")]
        if id(code) in seen or not isinstance(code, (FunctionType, type)) or not is_own(code):
            continue
        seen.add(id(code))
        for name, value in list_names(code):
            if isinstance(value, CODE):
                todo.append(value)
            else:
                yield (f"{code.__module__}.{code.__qualname__}", name), value
        todo += code.__bases__ if isinstance(code, type) else ()


def list_names(code: FunctionType | type) -> Iterator[tuple[str, Any]]:
    """Yield what a class defines, or what a function uses, by name."""
    if isinstance(code, type):
        yield from ((key, value) for key, value in list(vars(code).items()) if not _is_beside(key))
        return
    variables = code.__code__.co_varnames[: code.__code__.co_argcount]
    defaults = code.__defaults__ or ()
    yield from zip(variables[len(variables) - len(defaults) :], defaults, strict=True)
    yield from (code.__kwdefaults__ or {}).items()
    yield from code.__dict__.items()
    for name, cell in zip(code.__code__.co_freevars, code.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # it is still empty
            continue
    names = names_in(code.__code__)
    for name in sorted(names & code.__globals__.keys()):
        value = code.__globals__[name]
        yield name, value
        if isinstance(value, ModuleType) and is_own(value):
            yield from ((f"{name}.{inner}", vars(value)[inner]) for inner in sorted(names & vars(value).keys()))


def _is_beside(key: str) -> bool:
    """Return whether an attribute of a class is Python's own; its methods are not."""
    return key in ("__dict__", "__weakref__", "__module__", "__doc__", "__annotations__", "__slots__")


def is_own(code: FunctionType | type | ModuleType) -> bool:
    """Return whether code is yours, and not that of a package."""
    home = code if isinstance(code, ModuleType) else sys.modules.get(code.__module__ or "")
    return home is None or place_of(home).owner == OWN
