"""Where cells are played: in threads of this process, in other processes, or on a cluster (``ray_backend.py``).

A backend takes loads (``work_units.py``) and gives them back played, in any order. A worker that dies loses nothing but
its load, which another plays: the numbers are the same.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, Protocol, Self

from maskedbandits.errors import UserError
from maskedbandits.experiments.work_units import Piece, get_ready, play_elsewhere, play_load
from maskedbandits.simulation.simulator import Simulation, cores

PATIENCE = 0.5  # seconds to wait for a load before looking around
DEATHS = 5  # of workers, with nothing coming back in between, before it is given up

Load = Sequence[Piece]
Played = tuple[Load, list[Simulation]]


class Backend(Protocol):
    """Workers somewhere."""

    workers: int

    def __enter__(self) -> Self:
        """Call the workers."""

    def __exit__(self, *error: object) -> None:
        """Send them home."""

    def send(self, load: Load) -> None:
        """Give a load to whoever is free."""

    def back(self) -> list[Played]:
        """Return what has come back, after waiting for some of it for a moment."""

    def under_way(self) -> int:
        """Return how many steps of what has not come back are played, as far as is known."""


def named(name: str, *, threads: int | None = None, workers: int | None = None, address: str | None = None) -> Backend:
    """Return the backend of a name."""
    if address is not None and name != "ray":
        raise UserError(f"--address {address}: expected only with --backend ray")
    if workers is not None and name == "threads":
        raise UserError(f"--workers {workers}: expected only with --backend processes or ray; for threads, --threads")
    if threads is not None and name != "threads":
        raise UserError(f"--threads {threads}: expected only with --backend threads; for {name}, --workers")
    if name == "ray":
        from maskedbandits.experiments.ray_backend import Ray

        return Ray(workers, address)
    return Threads(threads) if name == "threads" else Processes(workers)


def dying() -> UserError:
    """Return what is said when nobody who plays a load survives it."""
    return UserError("workers die again and again: is there enough memory? Ask for fewer with --workers")


class Stopped(Exception):  # noqa: N818 -- no error
    """Nobody waits for what is played."""


class Threads:
    """Threads of this process: compiled code lets others run beside it."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()
        self.open: dict[Future[list[Simulation]], Load] = {}
        self.steps: dict[int, int] = {}  # that are played of each open load
        self.ready: set[Any] = set()
        self.stop = threading.Event()

    def __enter__(self) -> Self:
        self.pool = ThreadPoolExecutor(self.workers)
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        self.pool.shutdown(wait=True, cancel_futures=True)

    def send(self, load: Load) -> None:
        """Give a load to whoever is free; what has to be compiled is compiled here, where Ctrl-C is heard."""
        get_ready(load, self.ready)
        self.open[self.pool.submit(self._play, load)] = load

    def _play(self, load: Load) -> list[Simulation]:
        """Play a load, take note of how far it is, and stop when nobody waits for it any longer."""
        finished = 0

        def tell(done: int, total: int) -> None:
            nonlocal finished
            if self.stop.is_set():
                raise Stopped
            self.steps[id(load)] = finished + done
            finished += total * (done == total)

        return play_load(load, tell)

    def back(self) -> list[Played]:
        """Return what has come back."""
        played = []
        for future in waited(self.open):
            load = self.open.pop(future)
            self.steps.pop(id(load), None)
            played.append((load, future.result()))
        return played

    def under_way(self) -> int:
        """Return how many steps are played."""
        return sum(list(self.steps.values()))


def waited(open_loads: dict[Future[list[Simulation]], Load]) -> set[Future[list[Simulation]]]:
    """Return which loads are done, after waiting for the first of them for a moment."""
    return wait(open_loads, timeout=PATIENCE, return_when=FIRST_COMPLETED).done


class Processes:
    """Processes of this machine."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()
        self.open: dict[Future[list[Simulation]], Load] = {}
        self.ready: set[Any] = set()
        self.deaths = 0

    def __enter__(self) -> Self:
        with unheard():  # Python has a process that looks after what others share
            resource_tracker.ensure_running()
        self.pool = self._pool()
        return self

    def __exit__(self, *error: object) -> None:
        for process in list((self.pool._processes or {}).values()):
            process.terminate()  # whatever still plays is for nobody
        self.pool.shutdown(wait=True, cancel_futures=True)

    def _pool(self) -> ProcessPoolExecutor:
        # Not forked: this process may have threads, and compiled code that runs.
        return ProcessPoolExecutor(self.workers, multiprocessing.get_context("spawn"), initializer=follow_parent)

    def send(self, load: Load) -> None:
        """Give a load to whoever is free; what was never compiled is compiled here, and not by each of them."""
        get_ready(load, self.ready, only_new=True)
        try:
            with unheard():
                self.open[self.pool.submit(play_elsewhere, load)] = load
        except BrokenProcessPool:  # somebody has died since we last looked
            self._replace_workers([load])

    def back(self) -> list[Played]:
        """Return what has come back; loads of workers that died are given to new ones."""
        played: list[Played] = []
        lost: list[Load] = []
        for future in waited(self.open):
            load = self.open.pop(future)
            try:
                played.append((load, future.result()))
            except BrokenProcessPool:
                lost.append(load)
        if lost:
            self._replace_workers(lost)
        elif played:
            self.deaths = 0
        return played

    def _replace_workers(self, lost: list[Load]) -> None:
        self.deaths += 1
        if self.deaths > DEATHS:
            raise dying()
        lost += self.open.values()  # one death breaks the pool for all
        self.open.clear()
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.pool = self._pool()
        for load in lost:
            self.send(load)

    def under_way(self) -> int:
        """Return nothing: it is not known."""
        return 0


@contextmanager
def unheard() -> Iterator[None]:
    """Let no process that is started meanwhile hear what a terminal says: who starts it does, and sends it home."""
    said = {getattr(signal, name) for name in ("SIGINT", "SIGHUP") if hasattr(signal, name)}
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, said)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def follow_parent() -> None:
    """See to it that this process ends when the one that gave it work has ended, however that was."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=end_after, args=(parent.join,), daemon=True).start()


def end_after(wait_for_it: Callable[[], None]) -> None:
    """End this process at once after something, whatever else it does."""
    wait_for_it()
    os._exit(1)
