"""Machine code for the policies of experiments: compiled in a child process if it is not cached, then loaded here.

Compiling takes seconds of a whole core. In a thread of this process requests would wait for it, but not in a child.
Workers that start together take turns: the first has a child compile, and the others find the result in the cache. An
experiment waits until its policy is compiled, because one interpreted decision can take as long as a thousand.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from maskedbandits.service.server import logging

if TYPE_CHECKING:
    from maskedbandits.service.config import StoredConfig

GROUPS = ".groups"  # code of contextual policies beside that of their policies
DEFAULT_POLICY = "auto"  # new experiments have it by default, and may be created at any time
CHECK_EVERY_S = 0.1
NO_CHILD = "compiling in this process"

Names = tuple[str, ...]


def list_store_code(storage: str) -> Names:
    """Return the names of the code for all experiments of a store and for new ones by default.

    Archived experiments can wait. Those with a damaged configuration are quarantined later.
    """
    from maskedbandits.service.config import StoredConfig, find_fault
    from maskedbandits.service.storage import open_store

    with open_store(storage) as store:
        rows = [row for row in store.list_experiments() if row.status != "archived"]
        rows = [row for row in rows if find_fault(row, store.list_arms(row.id)) is None]
    every = _list_policy_code(DEFAULT_POLICY, {}), *(list_code(StoredConfig.decode(row.config)) for row in rows)
    return tuple(dict.fromkeys(name for names in every for name in names))


def list_code(config: StoredConfig) -> Names:
    """Return the names of the code that an experiment needs."""
    return _list_policy_code(config.policy, config.parameters, *([GROUPS] if config.groups else []))


def _list_policy_code(policy: str, parameters: dict[str, object], *more: str) -> Names:
    from maskedbandits.policies import kind_of
    from maskedbandits.policies.runtime import list_parts

    layout = kind_of(policy).variant(parameters).layout
    return tuple(layout.storage.name + part for part in ("", *list_parts(layout), *more))


def find_uncached(names: Iterable[str]) -> list[str]:
    """Return the names of code that is not in the cache."""
    from maskedbandits._numba import cache
    from maskedbandits._numba.jit import INTERPRETED

    return [] if INTERPRETED else [name for name in names if not cache.is_stored(name)]


def are_loaded(names: Iterable[str]) -> bool:
    """Tell whether this process has loaded all of the code."""
    from maskedbandits._numba.jit import INTERPRETED
    from maskedbandits.policies.runtime import is_loaded

    return INTERPRETED or all(map(is_loaded, names))


def load_code(names: Iterable[str], stop: threading.Event) -> None:
    """Load code from the cache until ``stop`` is set; code that no child could cache is compiled here."""
    from maskedbandits._numba.jit import INTERPRETED
    from maskedbandits.policies.runtime import compile_named

    for name in () if INTERPRETED else names:
        if not stop.is_set():
            compile_named(name)


def compile_in_child(names: Iterable[str], stop: threading.Event) -> None:
    """Let a child process fill the cache, and wait for it; a failure is logged, and ``stop`` kills the child."""
    from maskedbandits._numba import cache
    from maskedbandits.policies.runtime import start_compiler

    with _lock_cache(cache.folder(), stop):
        absent = find_uncached(names)  # another process may have just compiled it
        if not absent or stop.is_set():
            return
        logging.event("compiling for this machine", kernels=len(absent))
        try:
            code = _wait_for(start_compiler(absent), stop)
        except OSError as error:
            logging.event(NO_CHILD, reason=error.strerror)
        else:
            if not stop.is_set() and (code or find_uncached(absent)):
                logging.event(NO_CHILD, code=code, kernels=len(find_uncached(absent)))


def _wait_for(child: subprocess.Popen[bytes], stop: threading.Event) -> int:
    """Return the exit code of a child, which is killed when ``stop`` is set."""
    while True:
        try:
            return child.wait(CHECK_EVERY_S)
        except subprocess.TimeoutExpired:
            if stop.is_set():
                child.kill()


@contextlib.contextmanager
def _lock_cache(folder: Path | None, stop: threading.Event) -> Iterator[None]:
    """Wait until no other process compiles into this folder, or ``stop`` is set."""
    if folder is None or sys.platform == "win32":
        yield
        return
    import fcntl

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a full disk, or one without locks: the same may be compiled twice then
            file = stack.enter_context((folder / "warm.lock").open("w"))
            while not stop.is_set():
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released when it is closed, even by a crash
                    break
                except BlockingIOError:
                    stop.wait(CHECK_EVERY_S)
        yield


class CodeLoader:
    """Loads code in a thread of its own, for one policy after another."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._tasks: dict[Names, Future[None]] = {}
        self._tasks_lock = threading.Lock()
        self._executor = ThreadPoolExecutor(1, "maskedbandits-code-loader")  # it starts its thread when it is needed

    def has(self, names: Names) -> bool:
        """Tell whether code is loaded; load it if it is cached, or else start to compile it.

        An error of an earlier attempt to compile it is raised, once.
        """
        if self._stop.is_set():  # the caller stops soon, too
            return are_loaded(names)
        if not are_loaded(names) and not find_uncached(names):
            load_code(names, self._stop)
        if are_loaded(names):
            return True
        with self._tasks_lock:
            done = self._tasks.pop(names) if names in self._tasks and self._tasks[names].done() else None
        if done is not None:
            done.result()
        self._start(names)
        return False

    async def load(self, names: Names) -> None:
        """Wait until code is loaded."""
        if not are_loaded(names):
            await asyncio.shield(asyncio.wrap_future(self._start(names)))  # other requests may wait for the same

    def wait(self, names: Names) -> bool:
        """Wait in a thread until code is loaded; tell whether it is, since this process may stop before."""
        if not are_loaded(names) and not self._stop.is_set():
            try:
                self._start(names).result()
            except (CancelledError, RuntimeError):  # stopped meanwhile
                if not self._stop.is_set():
                    raise
        return are_loaded(names)

    def _start(self, names: Names) -> Future[None]:
        with self._tasks_lock:
            if names not in self._tasks or self._tasks[names].done():
                self._tasks[names] = self._executor.submit(self._work, names)
            return self._tasks[names]

    def _work(self, names: Names) -> None:
        if find_uncached(names):
            compile_in_child(names, self._stop)
        load_code(names, self._stop)

    def stop(self) -> None:
        """Stop soon; a child that compiles is killed."""
        self._stop.set()
        self._executor.shutdown(wait=False, cancel_futures=True)
