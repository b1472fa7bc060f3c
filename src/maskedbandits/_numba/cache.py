"""Stores machine code between processes, and compiles without storing it where that is impossible.

Numba decides whether stored machine code is still valid by the file of the outermost function alone. After an edit of a
helper in another file it would run the old code. So the folder is named after the key of machine code
(``fingerprint``): the sources that count, versions, and the processor. In the folder, code that was compiled for a
policy outside this package is found by the fingerprint of that policy. The folder is in the first writable location of:

    $MASKEDBANDITS_CACHE        if it is set
    beside the source           as __pycache__ is
    $XDG_CACHE_HOME/maskedbandits, or ~/.cache/maskedbandits
    a temporary folder          removed with the process: then every process compiles, and a warning says so once

Code that is loaded from the folder is executed. So only this user may write to it, and a folder that others can write
to is not used.
"""

import atexit
import contextlib
import os
import pickle
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numba

from maskedbandits._numba import internals
from maskedbandits._util.files import user_cache
from maskedbandits.fingerprint import MACHINE_CODE, Origin, package_has_changed, package_key, trace

HERE = Path(__file__).parents[1]
VARIABLE = "MASKEDBANDITS_CACHE"
FOLDER_PREFIX, KEY_DIGITS = "compiled-", 16  # of the folder's name
MAX_AGE_S = 30 * 86_400.0  # after which the code of another version is removed from a shared location
OWN_SUFFIX, MAX_OWN_FILES = ".own.nbc", 32  # files for policies outside this package, and how many a kernel keeps


def _list_locations() -> Iterator[Path]:
    """Yield the locations for the folder, the best first."""
    if os.environ.get(VARIABLE):
        yield Path(os.environ[VARIABLE])
    yield HERE / "__pycache__"
    with contextlib.suppress(RuntimeError):  # there is no home directory
        yield user_cache()


def _is_writable(folder: Path) -> bool:
    """Create a folder if needed, and tell whether this user, and no other, can write to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"room")
        return _is_private(folder.stat())
    except OSError:
        return False


def _is_private(status: os.stat_result) -> bool:
    return sys.platform == "win32" or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def _remove_stale(folder: Path) -> None:
    """Remove the code of other versions: beside the source at once, since no other version is used, elsewhere later."""
    is_alone = folder.parent == HERE / "__pycache__"
    for other in folder.parent.glob(f"{FOLDER_PREFIX}{'[0-9a-f]' * KEY_DIGITS}"):
        with contextlib.suppress(OSError):  # another process may be removing it too
            if other != folder and (is_alone or time.time() - other.stat().st_mtime > MAX_AGE_S):
                shutil.rmtree(other)


@cache
def folder() -> Path | None:
    """Return the folder of this version's machine code, or None if there is none."""
    if not package_key(MACHINE_CODE):
        say("the sources of maskedbandits cannot be read, so all is compiled in every process; install it unpacked")
        return None
    name = f"{FOLDER_PREFIX}{package_key(MACHINE_CODE)[:KEY_DIGITS]}"
    for location in _list_locations():
        if _is_writable(location / name):
            _remove_stale(location / name)
            return location / name
        if str(location) == os.environ.get(VARIABLE):
            what = f"{VARIABLE} = {location} cannot be written to by this user, or can be by others"
            say(f"{what}: machine code is kept elsewhere; name a folder of this user's own")
    return _create_temporary(name)


def _create_temporary(name: str) -> Path | None:
    """Return a folder that is removed with the process, if it can be created, and say what that means.

    It is inside another folder that only this user can read. Child processes use that one as their location.
    """
    created = None
    with contextlib.suppress(OSError):
        location = Path(tempfile.mkdtemp(prefix="maskedbandits-"))
        atexit.register(shutil.rmtree, location, ignore_errors=True)
        created = location / name
        created.mkdir(mode=0o700)
    say(f"no folder for machine code can be written to, so all is compiled in every process; name one with {VARIABLE}")
    return created


def child_environment() -> dict[str, str]:
    """Return the environment of a child process that stores machine code where this process looks for it."""
    found = folder()
    return {**os.environ} if found is None else {**os.environ, VARIABLE: str(found.parent)}


_said: set[str] = set()


def _write_to_standard_error(line: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"maskedbandits: {line}\n")
        sys.stderr.flush()


_listener: Callable[[str], None] = _write_to_standard_error


def set_listener(listener: Callable[[str], None]) -> None:
    """Send messages to a function, such as a structured log, instead of standard error."""
    global _listener
    _listener = listener


def say(line: str) -> None:
    """Send a message, at most once in a process."""
    if line not in _said:
        _said.add(line)
        _listener(line)


def mark_stored(name: str) -> None:
    """Note that the machine code of this name is stored, if it is."""
    found = folder()
    with contextlib.suppress(OSError):
        if found is not None and all(map(internals.is_storing, _kernels)):
            (found / f"{name}.ready").touch()


def is_stored(name: str) -> bool:
    """Tell whether the machine code of this name is stored."""
    found = folder()
    return internals.CAN_STORE and found is not None and (found / f"{name}.ready").exists()


def load_entry(kernel: Any, signature: tuple[Any, ...]) -> Any:
    """Return the machine code of a kernel, loaded or compiled; damaged files are removed."""
    try:
        return internals.compile_entry(kernel, signature)
    except numba.errors.NumbaError:
        raise
    except OSError as error:  # stored files stay: other processes can use them
        say(f"there is no room for machine code ({error.strerror}): it is compiled without keeping it")
    except Exception:  # a damaged file can raise anything
        say("machine code that was kept is damaged: it is thrown away, and compiled without keeping it")
        _remove_files()
    _stop_storing()
    return internals.compile_entry(kernel, signature)


def _stop_storing() -> None:
    for kernel in _kernels:
        internals.stop_storing(kernel)


def _remove_files() -> None:
    """Remove all stored code, so that the next process stores it again."""
    found = folder()
    for file in found.rglob("*") if found is not None else []:
        with contextlib.suppress(OSError):
            if file.suffix in (".nbi", ".nbc", ".ready"):
                file.unlink()


_kernels: list[Any] = []  # those that may store their code


class KernelFiles(internals.CacheFiles):  # type: ignore[misc]
    """The files of one kernel's machine code, a new one for each kind of state.

    Numba numbers the files. Two processes that compile a kernel for two kinds at once would use the same number, and
    one kind would run the code of the other. Here one of the two is lost at worst, and compiled again.

    Each entry of the index is packed separately, because a process may lack the policy of another entry. Numba
    identifies a class by its name alone, so the fingerprint of code from outside the package is part of the key.
    """

    kernel: Any = None

    def save(self, key: Any, data: Any) -> None:
        """Store machine code; the index lists a file only when it is complete."""
        own, doubt = self._fingerprint(key)
        if package_has_changed(MACHINE_CODE):
            say("the sources of maskedbandits have changed since it was imported: machine code is not kept")
            _stop_storing()
        elif doubt:
            say(f"machine code of your own policy is not kept, and is compiled in every process: {doubt}")
        else:
            name = f"{self._index_name.removesuffix('.nbi')}.{uuid.uuid4().hex}{OWN_SUFFIX if own else '.nbc'}"
            self._save_data(name, data)
            self._save_index(self._trim({**self._load_index(), self._dump((key, own)): name}))

    def load(self, key: Any) -> Any:
        """Return stored machine code, or None; entries of kinds that this process lacks are skipped."""
        own, doubt = self._fingerprint(key)
        for packed, name in {} if doubt else self._load_index().items():
            with contextlib.suppress(AttributeError, ImportError):
                if pickle.loads(packed) == (key, own):  # noqa: S301 -- only this user can write to the folder
                    return self._load_and_touch(name)
        return None

    def _load_and_touch(self, name: str) -> Any:
        """Return machine code from a file, and note when it was used; None if the file has just been removed."""
        with contextlib.suppress(OSError):
            os.utime(self._data_path(name))
        with contextlib.suppress(OSError):
            return self._load_data(name)
        return None

    def _fingerprint(self, key: Any) -> tuple[str, str]:
        """Return a digest of all code behind a key from outside the package, and why it may be unreliable."""
        origins = [trace((self.kernel, None))] if self.kernel is not None else []
        for each in _list_classes(key):
            origin = getattr(each, "origin", None)
            origins.append(origin if isinstance(origin, Origin) else trace((each, None)))
        return " ".join(o.digest for o in origins if o.digest), "; ".join({o.doubt: 0 for o in origins if o.doubt})

    def _trim(self, index: dict[bytes, str]) -> dict[bytes, str]:
        """Return an index without the code of outside policies that was used longest ago, and remove its files."""
        used = {}
        for name in filter(lambda name: name.endswith(OWN_SUFFIX), index.values()):
            path = Path(self._data_path(name))
            with contextlib.suppress(OSError):  # another process may have removed it
                used[path] = path.stat().st_mtime
        old = sorted(used, key=lambda path: used[path])[:-MAX_OWN_FILES]
        for path in old:
            path.unlink(missing_ok=True)
        gone = {path.name for path in old}
        return {packed: name for packed, name in index.items() if name not in gone}


def _list_classes(kinds: Any) -> Iterator[type]:
    """Yield the classes of all tuples among numba's types."""
    if isinstance(kinds, (tuple, list)):
        for each in kinds:
            yield from _list_classes(each)
    elif isinstance(internals.class_of(kinds), type):
        yield internals.class_of(kinds)
        yield from _list_classes(kinds.types)
    elif hasattr(kinds, "return_type"):  # a signature
        yield from _list_classes(kinds.args)


def register(kernel: Any) -> None:
    """Let a kernel that stores its machine code use ``KernelFiles``."""
    internals.set_cache_files(kernel, KernelFiles)
    _kernels.append(kernel)


@contextlib.contextmanager
def redirect_numba() -> Iterator[None]:
    """Let numba use the folder for kernels that are declared meanwhile."""
    if not internals.CAN_STORE:
        yield
        return
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder() or "")
    try:
        yield
    finally:
        config.CACHE_DIR = before
