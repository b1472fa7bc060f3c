"""A digest of code in memory: functions, and the objects and values that they refer to.

This code is compiled and played, and its file may differ: a notebook's cell has no file, and a file may have been
edited since it was imported. Two processes that load the same code get the same digest.
"""

import copyreg
import enum
import functools
import hashlib
import sys
from collections.abc import Iterable, Iterator
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from maskedbandits.fingerprint.sources import INSTALLED, OWN, place_of

PLAIN = (type(None), type(...), type(NotImplemented), bool, int, float, complex, str, bytes)
COLLECTIONS = (tuple, list, dict, MappingProxyType, set, frozenset)
NAMED = (BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType)
WRAPPED = (MethodType, staticmethod, classmethod, property, functools._lru_cache_wrapper)
EMPTY = {"_thread", "threading", "weakref", "_weakref", "_weakrefset"}  # objects of these modules affect no result
GENERATED = ("<string>", "<attrs generated")  # file names of methods that dataclasses, namedtuple and attrs generate
# Attributes of classes that do not affect their behaviour, or are not plain values.
BESIDE = {
    *("__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__firstlineno__", "__static_attributes__"),
    *("__annotations_cache__", "_abc_impl"),
}


class Description:
    """A digest of values, and your own modules that they refer to."""

    def __init__(self, tops: Iterable[str] = ()) -> None:
        self.tops = set(tops)  # installed packages that are your own
        self.modules: dict[str, ModuleType] = {}
        self.kernels: list[Any] = []  # your own compiled functions
        self.doubt = ""
        self._hash = hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._held: list[Any] = []  # so that no other object gets the same id

    @property
    def digest(self) -> str:
        """The digest of everything added."""
        return self._hash.hexdigest()

    def _put(self, *words: str) -> None:
        for word in words:
            text = word.encode("utf-8", "surrogatepass")
            self._hash.update(b"%d " % len(text) + text)

    def _doubt(self, why: str) -> None:
        self.doubt = self.doubt or why

    def _is_own(self, module: ModuleType) -> bool:
        """Tell whether a module is your own, and note it if it is."""
        place = place_of(module)
        own = place.owner == OWN or (place.owner == INSTALLED and place.top in self.tops)
        if own:
            self.modules[module.__name__] = module
        return own

    def add(self, value: Any, *, member: bool = False) -> None:
        """Add a value and everything that it refers to; a member belongs to a class."""
        if type(value) in PLAIN:
            self._put(type(value).__name__, hex(value) if type(value) is int else repr(value))
            return
        if type(value) in (tuple, frozenset):  # equal ones may be one object or two, depending on the process
            self._add_collection(value)
            return
        if id(value) in self._seen:
            self._put("seen", str(self._seen[id(value)]))
            return
        self._seen[id(value)] = len(self._seen)
        self._held.append(value)
        try:
            self._add(value, member)
        except Exception:  # an object may raise anything when it is inspected
            self._add_opaque(value)

    def _add(self, value: Any, member: bool) -> None:
        if isinstance(value, ModuleType):
            self.add_module(value, None)
        elif isinstance(value, FunctionType):
            self._add_function(value, member)
        elif isinstance(value, CodeType):
            self._add_code(value)
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(getattr(value, "py_func", None), FunctionType):
            self._add_kernel(value, member)
        elif isinstance(value, NAMED):
            self._put("named", value.__qualname__)
            self.add(getattr(value, "__self__", getattr(value, "__objclass__", None)))
        elif type(value) in COLLECTIONS:
            self._add_collection(value)
        elif isinstance(value, (np.ndarray, np.generic)):
            self._add_array(np.asarray(value))
        elif isinstance(value, enum.Enum):
            self._put("enum", value.name)
            self.add(value.value)
            self.add(type(value))
        else:
            self._add_object(value, member)

    def _add_collection(self, value: Any) -> None:
        self._put(type(value).__qualname__, str(len(value)))
        if isinstance(value, (set, frozenset)):
            self._put(*sorted(self._apart(each) for each in value))  # their order differs between processes
        elif isinstance(value, (tuple, list)):
            for each in value:
                self.add(each)
        else:
            for key, each in value.items():
                self.add(key)
                self.add(each)

    def _apart(self, value: Any) -> str:
        """Return a separate digest of a value."""
        other = Description(self.tops)
        other.add(value)
        self.modules |= other.modules
        self.kernels += other.kernels
        self._doubt(other.doubt)
        return other.digest

    def _add_array(self, value: Any) -> None:
        self._put("array", str(value.dtype.descr), str(value.shape))
        if value.dtype.hasobject:
            self.add(value.tolist())
        else:
            self._hash.update(value.tobytes())

    def _add_function(self, value: FunctionType, member: bool) -> None:
        """Add a function: your own ones completely, others by their names or by the values in their closures."""
        name = str(value.__globals__.get("__name__"))
        home = sys.modules.get(name)
        self._put("function", name, value.__qualname__)
        known = home is not None and vars(home) is value.__globals__
        if known and not self._is_own(home):  # type: ignore[arg-type]
            if _by_name(home, value.__qualname__) is value:
                return
        else:
            self._doubt_origin(value, home if known else None, member)
            self._add_code(value.__code__)
            self._add_globals(value)
            self.add(value.__dict__)
        self.add(value.__defaults__)
        self.add(value.__kwdefaults__)
        for cell in value.__closure__ or ():
            try:
                self.add(cell.cell_contents, member=member)
            except ValueError:  # it is still empty
                self._put("empty")

    def _doubt_origin(self, value: FunctionType, home: ModuleType | None, member: bool) -> None:
        """Doubt the origin of a function unless it is in its module's file or was generated for its class."""
        file = value.__code__.co_filename
        is_in_file = home is not None and file == getattr(home, "__file__", None)
        if not is_in_file and not (member and file.startswith(GENERATED)):
            self._doubt(f"{value.__qualname__} is not defined in a file")

    def _add_code(self, code: CodeType) -> None:
        for part in (code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags):
            self.add(part)
        for count in (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount):
            self.add(count)
        self.add(code.co_exceptiontable)
        for constant in code.co_consts:
            self.add(constant)

    def _add_globals(self, value: FunctionType) -> None:
        """Add the global values that a function uses."""
        names = names_in(value.__code__)
        for name in sorted(name for name in names if name in value.__globals__):
            self._put("global", name)
            found = value.__globals__[name]
            if isinstance(found, ModuleType):
                self.add_module(found, names)
            else:
                self.add(found)

    def add_module(self, module: ModuleType, names: Iterable[str] | None, above: frozenset[int] = frozenset()) -> None:
        """Add some names of your own module, or everything that it defines; other modules only by name."""
        self._put("module", module.__name__)
        if not self._is_own(module) or id(module) in above:
            return
        inside = vars(module)
        if names is None:
            names = [name for name, value in list(inside.items()) if _is_code(value)]
        for name in sorted(name for name in set(names) if name in inside):
            self._put(name)
            if isinstance(inside[name], ModuleType):
                self.add_module(inside[name], names, above | {id(module)})
            else:
                self.add(inside[name])

    def _add_class(self, value: type) -> None:
        home = sys.modules.get(value.__module__)
        self._put("class", str(value.__module__), value.__qualname__)
        if home is not None and not self._is_own(home) and _by_name(home, value.__qualname__) is value:
            return
        if home is None:
            self._doubt(f"{value.__qualname__} is not defined in a file")
        for base in (type(value), *value.__bases__):
            self.add(base)
        for key in sorted(vars(value).keys() - BESIDE):
            self._put(key)
            self.add(vars(value)[key], member=True)

    def _add_kernel(self, value: Any, member: bool) -> None:
        """Add a compiled function by its Python function."""
        home = sys.modules.get(value.py_func.__module__)
        self._put("compiled", str(value.py_func.__module__), value.py_func.__qualname__)
        if home is not None and not self._is_own(home) and _by_name(home, value.py_func.__qualname__) is value:
            return
        if hasattr(value, "overloads"):
            self.kernels.append(value)
        self.add(dict(getattr(value, "targetoptions", {})))
        self.add(getattr(value, "plain", None))
        self.add(value.py_func, member=member)

    def _add_object(self, value: Any, member: bool) -> None:
        """Add any other object as it would be pickled."""
        kind = type(value)
        self._put("object", kind.__module__, kind.__qualname__)
        if kind.__module__ in EMPTY:
            return
        if isinstance(value, WRAPPED):
            for key in ("__func__", "__self__", "fget", "fset", "fdel", "__wrapped__"):
                self.add(getattr(value, key, None), member=member)
            return
        if kind.__module__.partition(".")[0] == "numba":  # their ids differ between processes
            self._put(str(value))
            return
        reduce = copyreg.dispatch_table.get(kind)
        reduced = reduce(value) if reduce is not None else value.__reduce_ex__(4)
        if isinstance(reduced, str):
            self._put(reduced)
            return
        for part in reduced:
            self.add(list(part) if isinstance(part, Iterator) else part)

    def _add_opaque(self, value: Any) -> None:
        """Add an object by its identity alone."""
        self._put("opaque", str(id(value)))
        self._doubt(f"it depends on an object that cannot be compared, of type {type(value).__qualname__}")


def _is_code(value: Any) -> bool:
    return isinstance(value, (FunctionType, type)) or type(value) in PLAIN or hasattr(value, "py_func")


def names_in(code: CodeType) -> set[str]:
    """Return all names that a function and its inner functions use."""
    return set(code.co_names).union(*(names_in(each) for each in code.co_consts if isinstance(each, CodeType)))


def _by_name(home: ModuleType | None, qualname: str) -> Any:
    """Return the object of a qualified name in a module, or None."""
    found: Any = home
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found
