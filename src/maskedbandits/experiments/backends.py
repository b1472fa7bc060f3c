"""Where cells are played beside this process: in others of this machine, or on a cluster by Ray.

A backend takes loads (``pieces.py``) and gives them back played, in any order. A worker that dies loses nothing but its
load, which another plays: the numbers are the same.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol, Self

from maskedbandits import extras
from maskedbandits.errors import UserError
from maskedbandits.experiments.pieces import Piece, play_load
from maskedbandits.experiments.results import Outcome

PATIENCE = 0.2  # seconds to wait for a load before looking around
DEATHS = 5  # of workers, with nothing coming back in between, before it is given up

Load = Sequence[Piece]
Played = tuple[Load, list[Outcome]]


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


def named(name: str, workers: int | None = None, address: str | None = None) -> Backend | None:
    """Return the backend of a name; none is needed for this process's threads."""
    if address is not None and name != "ray":
        raise UserError(f"--address {address}: expected only with --backend ray")
    if workers is not None and name == "threads":
        raise UserError(f"--workers {workers}: expected only with --backend processes or ray; for threads, --threads")
    if name == "threads":
        return None
    return Processes(workers) if name == "processes" else Ray(workers, address)


class Processes:
    """Processes of this machine."""

    def __init__(self, workers: int | None = None) -> None:
        from maskedbandits.simulation import cores

        self.workers = workers or cores()
        self.open: dict[Future[list[Outcome]], Load] = {}
        self.deaths = 0

    def __enter__(self) -> Self:
        self.pool = self._pool()
        return self

    def __exit__(self, *error: object) -> None:
        for process in list((self.pool._processes or {}).values()):
            process.terminate()  # whatever still plays is for nobody
        self.pool.shutdown(wait=True, cancel_futures=True)

    def _pool(self) -> ProcessPoolExecutor:
        # Not forked: this process may have threads, and compiled code that runs.
        return ProcessPoolExecutor(self.workers, multiprocessing.get_context("spawn"), initializer=leave_ctrl_c)

    def send(self, load: Load) -> None:
        """Give a load to whoever is free."""
        self.open[self.pool.submit(play_load, load)] = load

    def back(self) -> list[Played]:
        """Return what has come back; loads of workers that died are given to new ones."""
        done, _ = wait(self.open, timeout=PATIENCE, return_when=FIRST_COMPLETED)
        played: list[Played] = []
        lost: list[Load] = []
        for future in done:
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
            raise UserError("workers die again and again: is there enough memory? Ask for fewer with --workers")
        lost += self.open.values()  # one death breaks the pool for all
        self.open.clear()
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.pool = self._pool()
        for load in lost:
            self.send(load)


def leave_ctrl_c() -> None:
    """Let the process that gave the work hear Ctrl-C, and send everybody home."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Ray:
    """A cluster, or this machine, by Ray; every node needs maskedbandits installed."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        extras.need("--backend ray", ["ray"], "ray")
        self.wanted, self.address = workers, address
        self.workers = 0
        self.open: dict[Any, Load] = {}

    def __enter__(self) -> Self:
        import ray

        here: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "num_cpus": self.wanted}
        try:
            ray.init(self.address, logging_level=logging.ERROR, log_to_driver=False, **({} if self.address else here))
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UserError(f"--address {self.address}: Ray does not answer: {str(error).splitlines()[0]}") from error
        self.workers = self.wanted or int(ray.cluster_resources().get("CPU", 1))
        self.play = ray.remote(num_cpus=1, max_retries=-1)(play_load)
        return self

    def __exit__(self, *error: object) -> None:
        import ray

        ray.shutdown()

    def send(self, load: Load) -> None:
        """Give a load to whoever is free."""
        self.open[self.play.remote(load)] = load

    def back(self) -> list[Played]:
        """Return what has come back; Ray plays again what a dead worker had."""
        import ray

        done, _ = ray.wait(list(self.open), num_returns=1, timeout=PATIENCE)
        played = []
        for handle in done:
            try:
                outcomes = ray.get(handle)
            except ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from None
            played.append((self.open.pop(handle), outcomes))
        return played
