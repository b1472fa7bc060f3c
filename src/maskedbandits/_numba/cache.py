"""Where machine code is kept between processes, and what is done when it cannot be.

Numba decides whether cached machine code is still good by looking at the file of the outermost function alone: after an
edit of a helper in another file it would run the old code. So the folder is named after the key of machine code
(``fingerprint``): the sources that count, versions, and the processor. In it, code compiled for a policy of your own is
found by the fingerprint of that policy. The folder is in the first of these places that can be written to:

    $MASKEDBANDITS_CACHE        if that is set
    beside the source           as __pycache__ does
    $XDG_CACHE_HOME/maskedbandits, or ~/.cache/maskedbandits
    a temporary folder          gone with the process: then all is compiled each time, which is said once

What is loaded from there is run. So the folder is this user's own, and nobody else can write to it: one that somebody
has put in its place is not used.
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
from numba.core.caching import IndexDataCacheFile, NullCache
from numba.core.errors import NumbaError

from maskedbandits._util.files import user_cache
from maskedbandits.fingerprint import MACHINE_CODE, Origin, package_has_changed, package_key, trace

HERE = Path(__file__).parents[1]
VARIABLE = "MASKEDBANDITS_CACHE"
NAME, DIGITS = "compiled-", 16  # of the folder, with so many of the digest's
KEPT_FOR = 30 * 86_400.0  # seconds after which the code of another version is removed from a shared place
OWN, KEPT_OWN = ".own.nbc", 32  # files for policies of your own, and how many of them a kernel keeps


def _places() -> Iterator[Path]:
    """Yield where the folder may lie, the best place first."""
    if os.environ.get(VARIABLE):
        yield Path(os.environ[VARIABLE])
    yield HERE / "__pycache__"
    with contextlib.suppress(RuntimeError):  # nobody's home
        yield user_cache()


def _is_writable(folder: Path) -> bool:
    """Tell whether this user can write to a folder, and nobody else; it is made if there is none."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"room")
        return _is_private(folder.stat())
    except OSError:
        return False


def _is_private(about: os.stat_result) -> bool:
    return sys.platform == "win32" or (about.st_uid == os.geteuid() and not about.st_mode & 0o022)


def _remove_stale(folder: Path) -> None:
    """Remove the code of other versions: at once beside the source, where no other is used, elsewhere after a while."""
    alone = folder.parent == HERE / "__pycache__"
    for other in folder.parent.glob(f"{NAME}{'[0-9a-f]' * DIGITS}"):
        with contextlib.suppress(OSError):  # another process may be removing it too
            if other != folder and (alone or time.time() - other.stat().st_mtime > KEPT_FOR):
                shutil.rmtree(other)


@cache
def folder() -> Path | None:
    """Return the folder of this version's machine code, or None if nothing can be kept anywhere."""
    if not package_key(MACHINE_CODE):
        say("the sources of maskedbandits cannot be read, so all is compiled in every process; install it unpacked")
        return None
    name = f"{NAME}{package_key(MACHINE_CODE)[:DIGITS]}"
    for place in _places():
        if _is_writable(place / name):
            _remove_stale(place / name)
            return place / name
        if str(place) == os.environ.get(VARIABLE):
            what = f"{VARIABLE} = {place} cannot be written to by this user, or can be by others"
            say(f"{what}: machine code is kept elsewhere; name a folder of this user's own")
    return _temporary(name)


def _temporary(name: str) -> Path | None:
    """Return a folder that is gone with the process, if there can be one, and say what that means.

    It lies in another that nobody else can look into: children are told of that one, as of any place.
    """
    made = None
    with contextlib.suppress(OSError):
        place = Path(tempfile.mkdtemp(prefix="maskedbandits-"))
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        made = place / name
        made.mkdir(mode=0o700)
    say(f"no folder for machine code can be written to, so all is compiled in every process; name one with {VARIABLE}")
    return made


def for_children() -> dict[str, str]:
    """Return the environment of a child that keeps machine code where this process looks for it."""
    place = folder()
    return {**os.environ} if place is None else {**os.environ, VARIABLE: str(place.parent)}


_said: set[str] = set()  # once is enough


def _to_standard_error(line: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"maskedbandits: {line}\n")
        sys.stderr.flush()


_teller: Callable[[str], None] = _to_standard_error


def tell_by(teller: Callable[[str], None]) -> None:
    """Let somebody else say what is to be said, such as a log with a form of its own."""
    global _teller
    _teller = teller


def say(line: str) -> None:
    """Say something once, to whoever is there to read it."""
    if line not in _said:
        _said.add(line)
        _teller(line)


def mark(name: str) -> None:
    """Note that the machine code of this name is kept, if it is."""
    place = folder()
    with contextlib.suppress(OSError):
        if place is not None and not any(isinstance(each._cache, NullCache) for each in _kept):
            (place / f"{name}.ready").touch()


def is_marked(name: str) -> bool:
    """Tell whether the machine code of this name is kept."""
    place = folder()
    return place is not None and (place / f"{name}.ready").exists()


def entry_point(kernel: Any, signature: tuple[Any, ...]) -> Any:
    """Return the machine code of a kernel, loaded or compiled; what is kept and damaged is thrown away."""
    try:
        return kernel.compile(signature)
    except NumbaError:
        raise
    except OSError as error:  # what is there already stays: others can use it
        say(f"there is no room for machine code ({error.strerror}): it is compiled without keeping it")
    except Exception:  # a damaged file shows as anything
        say("machine code that was kept is damaged: it is thrown away, and compiled without keeping it")
        _throw_away()
    _keep_no_more()
    return kernel.compile(signature)


def _keep_no_more() -> None:
    for each in _kept:
        each._cache = NullCache()


def _throw_away() -> None:
    """Throw away what is kept, so that the next process makes it anew."""
    place = folder()
    for file in place.rglob("*") if place is not None else []:
        with contextlib.suppress(OSError):
            if file.suffix in (".nbi", ".nbc", ".ready"):
                file.unlink()


_kept: list[Any] = []  # kernels that have a cache


class ApartFiles(IndexDataCacheFile):
    """The files of one kernel's machine code, a new one for each kind of state.

    Numba numbers them. Two processes that compile a kernel for two kinds at once would give both the same number, and
    one kind would be run by the code of the other. Here one of the two is forgotten at worst, and compiled again.

    The index has every kind packed by itself: a policy of somebody's own is not known to every process that reads it.
    Numba knows a class by its name alone, so the fingerprint of code from outside the package is part of the key.
    """

    kernel: Any = None

    def save(self, key: Any, data: Any) -> None:
        """Keep machine code; a file stands in the index only when all of it is there."""
        own, doubt = self._fingerprint(key)
        if package_has_changed(MACHINE_CODE):
            say("the sources of maskedbandits have changed since it was imported: machine code is not kept")
            _keep_no_more()
        elif doubt:
            say(f"machine code of your own policy is not kept, and is compiled in every process: {doubt}")
        else:
            name = f"{self._index_name.removesuffix('.nbi')}.{uuid.uuid4().hex}{OWN if own else '.nbc'}"
            self._save_data(name, data)
            self._save_index(self._trim({**self._load_index(), self._dump((key, own)): name}))

    def load(self, key: Any) -> Any:
        """Return machine code that is kept, or None; kinds that this process does not know are passed over."""
        own, doubt = self._fingerprint(key)
        for packed, name in {} if doubt else self._load_index().items():
            with contextlib.suppress(AttributeError, ImportError):
                if pickle.loads(packed) == (key, own):  # noqa: S301 -- the folder is this user's own
                    return self._used(name)
        return None

    def _used(self, name: str) -> Any:
        """Return machine code from a file, and note when it was used; None if the file has just been removed."""
        with contextlib.suppress(OSError):
            os.utime(self._data_path(name))
        with contextlib.suppress(OSError):
            return self._load_data(name)
        return None

    def _fingerprint(self, key: Any) -> tuple[str, str]:
        """Return a digest of all code behind a key that is not this package's, and why it may not be relied on."""
        origins = [trace((self.kernel, None))] if self.kernel is not None else []
        for each in _classes(key):
            origin = getattr(each, "origin", None)
            origins.append(origin if isinstance(origin, Origin) else trace((each, None)))
        return " ".join(o.digest for o in origins if o.digest), "; ".join({o.doubt: 0 for o in origins if o.doubt})

    def _trim(self, index: dict[bytes, str]) -> dict[bytes, str]:
        """Return an index without the code of your own policies that was used longest ago, and remove that."""
        used = {}
        for name in filter(lambda name: name.endswith(OWN), index.values()):
            path = Path(self._data_path(name))
            with contextlib.suppress(OSError):  # another process may have removed it
                used[path] = path.stat().st_mtime
        old = sorted(used, key=lambda path: used[path])[:-KEPT_OWN]
        for path in old:
            path.unlink(missing_ok=True)
        gone = {path.name for path in old}
        return {packed: name for packed, name in index.items() if name not in gone}


def _classes(types: Any) -> Iterator[type]:
    """Yield the classes of all tuples among numba's types."""
    if isinstance(types, (tuple, list)):
        for each in types:
            yield from _classes(each)
    elif isinstance(getattr(types, "instance_class", None), type):
        yield types.instance_class
        yield from _classes(types.types)
    elif hasattr(types, "return_type"):  # a signature
        yield from _classes(types.args)


def keep(kernel: Any) -> None:
    """Take note of a kernel that has a cache."""
    if not isinstance(kernel._cache, NullCache):
        kernel._cache._cache_file.__class__ = ApartFiles
        kernel._cache._cache_file.kernel = kernel
    _kept.append(kernel)


@contextlib.contextmanager
def in_its_folder() -> Iterator[None]:
    """Let numba keep what is declared meanwhile in the folder."""
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder() or "")
    try:
        yield
    finally:
        config.CACHE_DIR = before
