"""The decorator that compiles a kernel, and where its machine code is kept between processes.

Numba decides whether cached machine code is still good by looking at the file of the outermost function
alone: after an edit of a helper in another file it would run the old code. So the cache folder is named
after a digest of every file of this package.
"""

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

INTERPRETED = bool(getattr(numba.config, "DISABLE_JIT", 0))
HERE = Path(__file__).parent

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def _digest() -> str:
    sources = (path.read_bytes() for path in sorted(HERE.glob("*.py")))
    return hashlib.sha256(b"\0".join(sources)).hexdigest()[:16]


def _cache_folder() -> Path:
    """Return a writable folder for this version of the kernels: beside the source, or the user's own."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = f"compiled-{_digest()}"
    for parent in (HERE / "__pycache__", home / "maskedbandits"):
        try:
            (parent / name).mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=parent / name).close()
        except OSError:
            continue
        for stale in parent.glob("compiled-*"):
            if stale.name != name:
                with contextlib.suppress(OSError):  # another process may be removing it too
                    shutil.rmtree(stale)
        return parent / name
    return Path(tempfile.mkdtemp(prefix="maskedbandits-"))


CACHE = _cache_folder()

_announced: list[str] = []  # once is enough


def _compile(kernel: Kernel, **options: bool) -> Kernel:
    """Compile without counting references: kernels allocate nothing, and the counting took two thirds of the time."""
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(CACHE)
    settings: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False, **options}
    try:
        return cast("Kernel", numba.njit(**settings)(kernel))
    finally:
        config.CACHE_DIR = before


def compiled(kernel: Kernel) -> Kernel:
    """Compile a function of arrays and scalars; it runs without the interpreter's lock, and allocates nothing."""
    return _compile(kernel)


def inlined(kernel: Kernel) -> Kernel:
    """Compile a small function into its callers: a call that hands over a policy's state costs more than its work."""
    return _compile(kernel, forceinline=True)


def announce(kernel: Callable[..., Any]) -> None:
    """Say what is being waited for, if calling the kernel will first compile it, which takes some seconds."""
    if getattr(kernel, "signatures", True):
        return  # compiled or loaded already, or the compiler is off
    if not _announced and not any(CACHE.rglob(f"*.{kernel.__name__}-*.nbi")):
        _announced.append(kernel.__name__)
        sys.stderr.write("maskedbandits: compiling for this machine, once; this takes some seconds ...\n")
        sys.stderr.flush()
