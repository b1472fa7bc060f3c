"""Backends that play cells: threads of this process, processes of this machine, or a cluster of Ray.

A backend takes loads (``work_units.py``) and returns them played, in any order. If a worker dies, another plays its
load: the numbers are the same.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, Protocol, Self

from maskedbandits._util import extras
from maskedbandits.errors import UserError
from maskedbandits.experiments.work_units import WorkUnit, compile_load, play_load, play_remote_load
from maskedbandits.simulation.simulator import Simulation, count_cores

RECEIVE_TIMEOUT_S = 0.5
MAX_DEATHS = 5  # of workers in a row, without a load in between, before the run fails
RAY_TIMEOUT_S = 5.0  # in which a Ray cluster answers a connection
STDERR = 2
# The preface of HTTP/2, which Ray speaks (RFC 9113, section 3.4), followed by an empty frame of settings.
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
SETTINGS_FRAME = 4  # the kind of frame that answers the preface
LOCAL_HOSTS = ("localhost", "127.0.0.1")
RAY_HINT = "start one there with `ray start --head`, or leave out --address to play on this machine"

Load = Sequence[WorkUnit]
PlayedLoad = tuple[Load, list[Simulation]]


class Backend(Protocol):
    """A set of workers that play loads."""

    workers: int

    def __enter__(self) -> Self:
        """Start the workers."""

    def __exit__(self, *error: object) -> None:
        """Stop the workers."""

    def send(self, load: Load) -> None:
        """Hand a load to a free worker."""

    def receive(self) -> list[PlayedLoad]:
        """Return finished loads, after a short wait if there are none yet."""

    def count_steps(self) -> int:
        """Return the number of steps played in open loads, as far as it is known."""


def open_backend(
    name: str, *, threads: int | None = None, workers: int | None = None, address: str | None = None
) -> Backend:
    """Return the backend called ``name``."""
    if address is not None and name != "ray":
        raise UserError(f"--address {address}: expected only with --backend ray")
    if workers is not None and name == "threads":
        raise UserError(f"--workers {workers}: expected only with --backend processes or ray; for threads, --threads")
    if threads is not None and name != "threads":
        raise UserError(f"--threads {threads}: expected only with --backend threads; for {name}, --workers")
    if name == "ray":
        return Ray(workers, address)
    return Threads(threads) if name == "threads" else Processes(workers)


def worker_death_error() -> UserError:
    """Return the error for workers that die again and again."""
    return UserError("workers die again and again: is there enough memory? Ask for fewer with --workers")


class Stopped(Exception):  # noqa: N818 -- not an error
    """Ends a load whose result is not wanted any more."""


class Threads:
    """Threads of this process, which run side by side because compiled code releases the GIL."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or count_cores()
        self.open: dict[Future[list[Simulation]], Load] = {}
        self.steps: dict[int, int] = {}  # played, by the id of an open load
        self.compiled: set[Any] = set()
        self.stop = threading.Event()

    def __enter__(self) -> Self:
        self.pool = ThreadPoolExecutor(self.workers)
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        self.pool.shutdown(wait=True, cancel_futures=True)

    def send(self, load: Load) -> None:
        """Hand a load to a free thread, after compiling its kernels here, where Ctrl-C works."""
        compile_load(load, self.compiled)
        self.open[self.pool.submit(self._play, load)] = load

    def _play(self, load: Load) -> list[Simulation]:
        """Play a load, count its steps, and stop when the backend is closed."""
        finished = 0

        def report(done: int, total: int) -> None:
            nonlocal finished
            if self.stop.is_set():
                raise Stopped
            self.steps[id(load)] = finished + done
            finished += total * (done == total)

        return play_load(load, report)

    def receive(self) -> list[PlayedLoad]:
        """Return finished loads."""
        played = []
        for future in wait_for_loads(self.open):
            load = self.open.pop(future)
            self.steps.pop(id(load), None)
            played.append((load, future.result()))
        return played

    def count_steps(self) -> int:
        """Return the number of steps played in open loads."""
        return sum(list(self.steps.values()))


def wait_for_loads(open_loads: dict[Future[list[Simulation]], Load]) -> set[Future[list[Simulation]]]:
    """Return the loads that are done, after a short wait for the first of them."""
    return wait(open_loads, timeout=RECEIVE_TIMEOUT_S, return_when=FIRST_COMPLETED).done


class Processes:
    """Processes of this machine."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or count_cores()
        self.open: dict[Future[list[Simulation]], Load] = {}
        self.compiled: set[Any] = set()
        self.deaths = 0

    def __enter__(self) -> Self:
        with block_terminal_signals():  # Python starts a process that tracks shared resources
            resource_tracker.ensure_running()
        self.pool = self._open_pool()
        return self

    def __exit__(self, *error: object) -> None:
        for process in list((self.pool._processes or {}).values()):
            process.terminate()  # results of open loads are not wanted
        self.pool.shutdown(wait=True, cancel_futures=True)

    def _open_pool(self) -> ProcessPoolExecutor:
        # Not forked, because this process may have threads and running kernels.
        return ProcessPoolExecutor(self.workers, multiprocessing.get_context("spawn"), initializer=follow_parent)

    def send(self, load: Load) -> None:
        """Hand a load to a free process, after compiling new kernels here, so that not every process does."""
        compile_load(load, self.compiled, only_new=True)
        try:
            with block_terminal_signals():
                self.open[self.pool.submit(play_remote_load, load)] = load
        except BrokenProcessPool:  # a worker has died since the last call
            self._replace_workers([load])

    def receive(self) -> list[PlayedLoad]:
        """Return finished loads; new workers get the loads of workers that died."""
        played: list[PlayedLoad] = []
        lost: list[Load] = []
        for future in wait_for_loads(self.open):
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
        if self.deaths > MAX_DEATHS:
            raise worker_death_error()
        lost += self.open.values()  # one death breaks the whole pool
        self.open.clear()
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.pool = self._open_pool()
        for load in lost:
            self.send(load)

    def count_steps(self) -> int:
        """Return 0: the processes do not report steps."""
        return 0


class Ray:
    """Workers of a Ray cluster, whose nodes all have maskedbandits installed, or of this machine."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        extras.require("--backend ray", ["ray"], "ray")
        self.wanted, self.address = workers, address
        self.workers = 0
        self.open: dict[Any, Load] = {}

    def __enter__(self) -> Self:
        import ray

        options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if self.address is None:  # by default Ray announces this machine's address to others
            options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "num_cpus": self.wanted}
        where = "local" if self.address is None else resolve_address(self.address)
        try:
            with keep_signal_handler(), block_terminal_signals(), silence_stderr():
                ray.init(where, **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            option = f"--address {self.address}" if self.address else "--backend ray"
            raise UserError(f"{option}: Ray cannot be used: {str(error).splitlines()[0]}") from error
        self.workers = self.wanted or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.play = ray.remote(num_cpus=1, max_retries=MAX_DEATHS)(play_remote_load)
        return self

    def __exit__(self, *error: object) -> None:
        import ray

        with silence_stderr():
            ray.shutdown()

    def send(self, load: Load) -> None:
        """Hand a load to a free worker."""
        self.open[self.play.remote(load)] = load

    def receive(self) -> list[PlayedLoad]:
        """Return finished loads; Ray itself plays the loads of dead workers again."""
        import ray

        done, _ = ray.wait(list(self.open), num_returns=len(self.open), timeout=0)
        if not done:
            done, _ = ray.wait(list(self.open), num_returns=1, timeout=RECEIVE_TIMEOUT_S)
        played = []
        for handle in done:
            try:
                outcomes = ray.get(handle)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                raise worker_death_error() from error
            played.append((self.open.pop(handle), outcomes))
        return played

    def count_steps(self) -> int:
        """Return 0: the workers do not report steps."""
        return 0


@contextmanager
def block_terminal_signals() -> Iterator[None]:
    """Let processes started meanwhile ignore signals of the terminal: this process gets them and stops the others."""
    signals = {getattr(signal, name) for name in ("SIGINT", "SIGHUP") if hasattr(signal, name)}
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def follow_parent() -> None:
    """End this process when the one that started it has ended in any way."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=exit_after, args=(parent.join,), daemon=True).start()


def exit_after(wait: Callable[[], None]) -> None:
    """Exit at once when ``wait`` returns, also if other threads are busy."""
    wait()
    os._exit(1)


@contextmanager
def keep_signal_handler() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def silence_stderr() -> Iterator[None]:
    """Drop what Ray writes to standard error from C++, at any level of logging."""
    sys.stderr.flush()
    original = os.dup(STDERR)
    try:
        with Path(os.devnull).open("wb") as null:
            os.dup2(null.fileno(), STDERR)
        yield
    finally:
        os.dup2(original, STDERR)
        os.close(original)


def resolve_address(address: str) -> str:
    """Return an address in the form that Ray needs; raise an error if no Ray answers, since Ray retries for minutes."""
    host, separator, port = address.rpartition(":")
    if not separator or "/" in address:  # auto, ray://...
        return address
    if not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise UserError(f"--address {address}: expected HOST:PORT")
    problem = probe_ray(host.strip("[]"), int(port))
    if host in LOCAL_HOSTS:
        # Ray replaces these names by the machine's own address, where a cluster of this machine alone does not listen.
        if problem is None:
            return f"LOCALHOST:{port}"  # Ray does not replace capitals, and the network resolves them
        import ray

        problem = probe_ray(ray.util.get_node_ip_address(), int(port))
    if problem is not None:
        raise UserError(f"--address {address}: {problem}; {RAY_HINT}")
    return address


def probe_ray(host: str, port: int) -> str | None:
    """Return why no Ray answers at an address; None if one may."""
    try:
        with socket.create_connection((host, port), timeout=RAY_TIMEOUT_S) as connection:
            connection.sendall(HTTP2_PREFACE)
            answer = connection.recv(9)
    except OSError as error:
        return f"no Ray answers ({(error.strerror or str(error)).lower()})"
    return None if len(answer) > 3 and answer[3] == SETTINGS_FRAME else "what answers is no Ray"
