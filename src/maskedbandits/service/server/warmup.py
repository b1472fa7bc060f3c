"""Machine code before anybody is let in: what is not kept yet is compiled in a child process, then loaded here.

To compile takes seconds of a whole core. In a thread of the process that answers, others would wait for it; in a child
they do not. Workers that start together take turns: the first has a child compile, and the others find the work done.
An experiment whose policy this process has no machine code of is not decided for before there is some: interpreted, one
decision may take as long as a thousand.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from maskedbandits.service.server import logging

if TYPE_CHECKING:
    from maskedbandits.service.config import Terms

GROUPS = ".groups"  # what contextual policies need, beside what a policy does
DEFAULT = "auto"  # what an experiment has that does not say otherwise: it may be created any moment
LOOK = 0.1  # seconds between two looks at whether it is still wanted
HERE = "a child could not compile: this process does, and whoever asks meanwhile may wait"

Names = tuple[str, ...]


def needed(storage: str) -> Names:
    """Return the names of all machine code that a store's experiments need, and new ones as they are by default.

    Those that are archived can wait. Those whose configuration cannot be read are set aside later.
    """
    from maskedbandits.service.config import Terms, fault_of
    from maskedbandits.service.storage import open_store

    with open_store(storage) as store:
        rows = [row for row in store.list_experiments() if row.status != "archived"]
        rows = [row for row in rows if fault_of(row, store.list_arms(row.id)) is None]
    every = _needed(DEFAULT, {}), *(needed_by(Terms.read(row.config)) for row in rows)
    return tuple(dict.fromkeys(name for names in every for name in names))


def needed_by(terms: Terms) -> Names:
    """Return the names of all machine code that an experiment needs."""
    return _needed(terms.policy, terms.parameters, *([GROUPS] if terms.groups else []))


def _needed(policy: str, parameters: dict[str, object], *more: str) -> Names:
    from maskedbandits.policies import kind_of
    from maskedbandits.policies.runtime import list_parts

    layout = kind_of(policy).variant(parameters).layout
    return tuple(layout.storage.name + part for part in ("", *list_parts(layout), *more))


def missing(names: Iterable[str]) -> list[str]:
    """Return which of them are not kept yet."""
    from maskedbandits._numba import cache
    from maskedbandits._numba.jit import INTERPRETED

    return [] if INTERPRETED else [name for name in names if not cache.is_stored(name)]


def are_loaded(names: Iterable[str]) -> bool:
    """Tell whether all of them are at work in this process."""
    from maskedbandits._numba.jit import INTERPRETED
    from maskedbandits.policies.runtime import is_loaded

    return INTERPRETED or all(map(is_loaded, names))


def load(names: Iterable[str], over: threading.Event) -> None:
    """Load machine code, until it is over; what no child could keep is compiled here."""
    from maskedbandits._numba.jit import INTERPRETED
    from maskedbandits.policies.runtime import compile_named

    for name in () if INTERPRETED else names:
        if not over.is_set():
            compile_named(name)


def compile_beside(names: Iterable[str], over: threading.Event) -> None:
    """Let a child fill the cache, and wait for it; when it is over it is ended. A failure is said."""
    from maskedbandits._numba import cache
    from maskedbandits.policies.runtime import start_compiler

    with _alone(cache.folder(), over):
        absent = missing(names)  # perhaps another process has just compiled it
        if not absent or over.is_set():
            return
        logging.event("compiling for this machine, once", kernels=len(absent))
        try:
            code = _ended(start_compiler(absent), over)
        except OSError as error:
            logging.event(HERE, reason=error.strerror)
        else:
            if not over.is_set() and (code or missing(absent)):
                logging.event(HERE, code=code, kernels=len(missing(absent)))


def _ended(child: subprocess.Popen[bytes], over: threading.Event) -> int:
    """Return how a child has ended, by itself or since it is over."""
    while True:
        try:
            return child.wait(LOOK)
        except subprocess.TimeoutExpired:
            if over.is_set():
                child.kill()


@contextlib.contextmanager
def _alone(folder: Path | None, over: threading.Event) -> Iterator[None]:
    """Wait until no other process has something compiled into this folder, or it is over."""
    if folder is None or sys.platform == "win32":
        yield
        return
    import fcntl

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a disk that is full, or knows no locks: then the same may be done twice
            file = stack.enter_context((folder / "warm.lock").open("w"))
            while not over.is_set():
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # let go of when it is closed, whoever dies
                    break
                except BlockingIOError:
                    over.wait(LOOK)
        yield


class Warming:
    """Gets machine code for this process beside those who decide, one policy's after the other's."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._asked: dict[Names, Future[None]] = {}
        self._asking = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "maskedbandits-warming")  # it has none before it is asked

    def has(self, names: Names) -> bool:
        """Tell whether machine code is at work here: what is kept is loaded, and what is not there is asked for.

        What has kept it from being compiled since it was asked for is raised, once.
        """
        if self._over.is_set():  # whoever still asks ends soon, too
            return are_loaded(names)
        if not are_loaded(names) and not missing(names):
            load(names, self._over)
        if are_loaded(names):
            return True
        with self._asking:
            asked = self._asked.pop(names) if names in self._asked and self._asked[names].done() else None
        if asked is not None:
            asked.result()
        self._ask(names)
        return False

    async def get(self, names: Names) -> None:
        """Return when machine code is at work here."""
        if not are_loaded(names):
            await asyncio.shield(asyncio.wrap_future(self._ask(names)))  # others may wait for the same

    def _ask(self, names: Names) -> Future[None]:
        with self._asking:
            if names not in self._asked or self._asked[names].done():
                self._asked[names] = self._thread.submit(self._work, names)
            return self._asked[names]

    def _work(self, names: Names) -> None:
        if missing(names):
            compile_beside(names, self._over)
        load(names, self._over)

    def stop(self) -> None:
        """End soon; a child that compiles is ended."""
        self._over.set()
        self._thread.shutdown(wait=False, cancel_futures=True)
