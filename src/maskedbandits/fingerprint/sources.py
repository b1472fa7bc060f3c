"""The source files of your own modules, and of all your own modules that they import.

Plain folders and editable installs are your own. Installed packages are not: only their version counts. Imports are
read from the source, also those inside functions, so nothing is executed to find them. References of loaded modules are
followed as well. If an import cannot be followed, the sources are in doubt and nothing that depends on them is stored.
"""

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import SOURCE_SUFFIXES, BuiltinImporter, FrozenImporter, ModuleSpec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from maskedbandits.fingerprint.imports import Import, read_imports
from maskedbandits.fingerprint.package import HERE, MACHINE_CODE, Use, hash_package, list_files, version_of

OURS, STANDARD, INSTALLED, OWN = "ours", "standard", "installed", "own"
INSTALLED_IN = {"site-packages", "dist-packages"}
EVERYTHING = Use(excluded=(), processor=False)

_first_seen: dict[str, bytes] = {}  # contents of files by path, last read before their modules were loaded


@dataclass(frozen=True)
class Place:
    """The location of a module: its name, its file if any, folders of submodules, and its package."""

    name: str
    path: str
    folders: tuple[str, ...]
    package: str
    loader: Any
    module: ModuleType | None = None  # if it is loaded

    @property
    def top(self) -> str:
        """The name of its outermost package."""
        return self.name.partition(".")[0]

    @property
    def label(self) -> str:
        """The name of its file, for messages."""
        return Path(self.path).name or self.name

    @property
    def owner(self) -> str:
        """Its owner: this package, the standard library, an installed package, or you."""
        if self.path or self.folders:
            return owner_of(self.path or self.folders[0])
        return STANDARD if self.loader in (BuiltinImporter, FrozenImporter) else OWN


@dataclass
class Sources:
    """Files of your own by module, versions of installed packages, and why something may be missing."""

    files: dict[str, bytes] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    doubt: str = ""


def place_of(module: ModuleType) -> Place:
    """Return the location of a loaded module."""
    parts = vars(module)  # getattr would call the module's __getattr__, which may warn or fail
    spec = parts.get("__spec__")
    path = parts.get("__file__") or (spec.origin if spec is not None and spec.has_location else None)
    folders = tuple(str(each) for each in parts.get("__path__", ()))
    name = spec.name if spec is not None else module.__name__  # a script is __main__, but its spec may have a name
    package = parts.get("__package__") or (name if folders else name.rpartition(".")[0])
    return Place(name, path or "", folders, package, spec.loader if spec is not None else None, module)


def _place_in(spec: ModuleSpec) -> Place:
    """Return the location of a module that is not loaded."""
    path = spec.origin if spec.has_location and spec.origin else ""
    folders = tuple(spec.submodule_search_locations or ())
    return Place(spec.name, path, folders, spec.name if folders else spec.name.rpartition(".")[0], spec.loader)


@cache
def owner_of(path: str) -> str:
    """Return the owner of a file or folder."""
    real = Path(os.path.realpath(path))
    if real.is_relative_to(os.path.realpath(HERE)):
        return OURS
    if INSTALLED_IN & set(real.parts):
        return INSTALLED
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    standard = {os.path.realpath(sysconfig.get_path(each)) for each in ("stdlib", "platstdlib")}
    return STANDARD if archive in real.parts or any(real.is_relative_to(each) for each in standard) else OWN


@cache
def _list_machine_code_files() -> frozenset[str]:
    """Return the files of this package that count in every key."""
    return frozenset(os.path.realpath(each) for each in list_files(MACHINE_CODE, HERE))


def collect_sources(modules: Iterable[ModuleType]) -> Sources:
    """Return the sources of some modules, which are your own even if they are installed."""
    return _Walk([place_of(module) for module in modules]).sources


class _Walk:
    """Follows imports from module to module."""

    def __init__(self, roots: list[Place]) -> None:
        self.sources = Sources()
        self._own = {root.top for root in roots}  # all of an installed package is your own if one of its modules is
        self._roots = {root.name for root in roots}
        self._todo, self._seen = roots, set[str]()
        while self._todo and not self.sources.doubt:
            place = self._todo.pop()
            if place.name not in self._seen:
                self._seen.add(place.name)
                self._follow(place)

    def _is_own(self, place: Place) -> bool:
        return place.owner == OWN or (place.owner == INSTALLED and place.top in self._own)

    def _follow(self, place: Place) -> None:
        if self._is_own(place):
            content = self.sources.files[place.name] = self._read(place)
            self._doubt_if_edited(place, content)
            self._todo += _parents(place.name)
            for each in read_imports(content):
                self._resolve(each, place)
            self._todo += _list_references(place.module) if place.module is not None else ()
        elif place.owner == INSTALLED:
            self.sources.versions[place.top] = version_of(place.top)
        elif place.owner == OURS and place.path and os.path.realpath(place.path) not in _list_machine_code_files():
            self.sources.files["maskedbandits"] = hash_package(EVERYTHING).encode()  # its imports count, too

    def _read(self, place: Place) -> bytes:
        """Return the source of a module; a package may have none."""
        if not place.path and place.folders:
            return b""
        if not place.path.endswith(tuple(SOURCE_SUFFIXES)):
            self.sources.doubt = f"{place.label} is not in a file of Python source"
            return b""
        try:
            return Path(place.path).read_bytes()
        except OSError:
            pass
        try:
            return bytes(place.loader.get_data(place.path))  # in an archive
        except (AttributeError, OSError):
            self.sources.doubt = f"the source of {place.label} cannot be read"
            return b""

    def _doubt_if_edited(self, place: Place, content: bytes) -> None:
        """Doubt a module that this process loaded from an earlier version of its file.

        Roots are compared in memory (``values.py``), other modules by their files alone.
        """
        if place.module is None:
            _first_seen[place.path] = content
        elif place.name not in self._roots and _first_seen.setdefault(place.path, content) != content:
            self.sources.doubt = f"{place.label} was edited after it was imported: start a new process"

    def _resolve(self, each: Import, place: Place) -> None:
        """Follow an import, or note a doubt."""
        if each.unknown:
            self.sources.doubt = f"{place.label} {each.unknown}"
            return
        written = "." * each.level + each.module
        try:
            name = importlib.util.resolve_name(written, place.package or None)
        except ImportError:
            name = ""
        parts, found = name.split("."), None
        for count in range(1, len(parts) + 1):
            found = _find(".".join(parts[:count]), found)
            if found is None:
                if not each.optional and parts[0] not in sys.stdlib_module_names:
                    self.sources.doubt = f"{place.label} imports {name or written}, which cannot be found"
                return
            self._todo.append(found)
            if found.owner != OURS and not self._is_own(found):
                return
        names = list(_submodules(found)) if "*" in each.names else each.names
        self._todo += [inner for inner in (_find(f"{name}.{inner}", found) for inner in names) if inner is not None]


def _parents(name: str) -> Iterator[Place]:
    """Yield the locations of the packages around a loaded module: Python executes them first."""
    while name := name.rpartition(".")[0]:
        if isinstance(module := sys.modules.get(name), ModuleType):
            yield place_of(module)


def _find(name: str, parent: Place | None) -> Place | None:
    """Return the location of a module, without executing anything."""
    module = sys.modules.get(name)
    if isinstance(module, ModuleType):
        return place_of(module)
    if parent is not None and not parent.folders:
        return None
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, None if parent is None else list(parent.folders))
        except Exception:  # noqa: S112 -- a finder may be anyone's
            continue
        if spec is not None:
            return _place_in(spec)
    return None


def _submodules(package: Place | None) -> Iterator[str]:
    """Yield the names of a package's submodules: an asterisk may import any of them."""
    for folder in package.folders if package is not None else ():
        for path in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if path.suffix in SOURCE_SUFFIXES or path.is_dir():
                yield path.stem


def _list_references(module: ModuleType) -> Iterator[Place]:
    """Yield the locations of the modules that a loaded module refers to."""
    for value in list(vars(module).values()):
        found = value
        if isinstance(value, (type, FunctionType)) or "py_func" in getattr(value, "__dict__", ()):
            found = sys.modules.get(getattr(value, "__module__", None) or "")
        if isinstance(found, ModuleType) and found is not module:
            yield place_of(found)
