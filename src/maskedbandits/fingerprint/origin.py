"""The origin of your own code: one digest of its sources and of its functions and values in memory."""

import hashlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from maskedbandits.fingerprint.sources import OURS, STANDARD, Sources, collect_sources, place_of
from maskedbandits.fingerprint.values import Description

Root = tuple[Any, Iterable[str] | None]  # a module with names in it, or a function or a class


@dataclass(frozen=True)
class Origin:
    """The origin of code; without a digest, all of it belongs to this package."""

    digest: str = ""
    doubt: str = ""  # why results that depend on it may not be stored, or empty
    sources: str = ""  # a digest of the files alone
    modules: tuple[str, ...] = ()  # the names of all modules of your own behind it
    kernels: tuple[Any, ...] = field(default=(), compare=False)  # compiled functions of your own
    _values: str = field(default="", compare=False)
    _roots: tuple[Root, ...] = field(default=(), compare=False)

    def has_changed(self) -> bool:
        """Tell whether the code in memory has changed, for example by running a cell again or reloading a module."""
        return bool(self._roots) and _describe(self._roots).digest != self._values


def trace(*roots: Root) -> Origin:
    """Return the origin of code: of modules, each with the names that count, or of functions and classes."""
    own = tuple(root for root in roots if _is_own(root[0]))
    if not own:
        return Origin()
    values = _describe(own)
    homes = [home for value, _ in own if (home := _home(value)) is not None]
    sources = Sources(doubt=values.doubt) if values.doubt else collect_sources([*homes, *values.modules.values()])
    files = _hash_sources(sources)
    digest = hashlib.sha256(f"{values.digest} {files}".encode()).hexdigest()
    return Origin(
        digest,
        sources.doubt,
        files,
        tuple(sorted(sources.files)),
        kernels=tuple(values.kernels),
        _values=values.digest,
        _roots=own,
    )


def _home(value: Any) -> ModuleType | None:
    """Return the module that something is defined in."""
    if isinstance(value, ModuleType):
        return value
    function = getattr(value, "py_func", value)
    if not isinstance(function, (FunctionType, BuiltinFunctionType, type)):
        return None  # an object: its values lead to its modules
    return sys.modules.get(function.__module__ or "")


def _is_own(value: Any) -> bool:
    home = _home(value)
    return home is None or place_of(home).owner not in (OURS, STANDARD)


def _describe(roots: Iterable[Root]) -> Description:
    """Describe code as it is in memory."""
    tops = {place_of(home).top for value, _ in roots if (home := _home(value)) is not None}
    found = Description(tops)
    for value, names in roots:
        if isinstance(value, ModuleType):
            found.add_module(value, names)
        else:
            found.add(value)
    return found


def _hash_sources(sources: Sources) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(sources.files.items()):
        digest.update(f"{len(name)} {len(content)} {name}".encode() + content)
    digest.update(str(sorted(sources.versions.items())).encode())
    return digest.hexdigest()
