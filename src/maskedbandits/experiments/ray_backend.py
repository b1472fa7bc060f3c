"""Cells played on a cluster, or on this machine, by Ray."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from maskedbandits._util import extras
from maskedbandits.errors import UserError
from maskedbandits.experiments.backends import DEATHS, PATIENCE, Load, Played, dying, unheard
from maskedbandits.experiments.work_units import play_elsewhere

STDERR = 2
ANSWER = 5.0  # seconds in which somebody who is there answers
# How a conversation begins in the protocol that Ray speaks (HTTP/2, RFC 9113, section 3.4): this, and no settings.
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
SETTINGS = 4  # the kind of frame that answers it
HERE = ("localhost", "127.0.0.1")
ELSEWHERE = "start one there with `ray start --head`, or leave out --address to play on this machine"


class Ray:
    """Workers of a cluster, every node of which needs maskedbandits, or of this machine."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        extras.need("--backend ray", ["ray"], "ray")
        self.wanted, self.address = workers, address
        self.workers = 0
        self.open: dict[Any, Load] = {}

    def __enter__(self) -> Self:
        import ray

        options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if self.address is None:  # Ray would tell other machines of this one's address
            options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "num_cpus": self.wanted}
        where = "local" if self.address is None else reached(self.address)
        try:
            with our_signals(), unheard(), hushed():
                ray.init(where, **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            told = f"--address {self.address}" if self.address else "--backend ray"
            raise UserError(f"{told}: Ray cannot be used: {str(error).splitlines()[0]}") from error
        self.workers = self.wanted or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.play = ray.remote(num_cpus=1, max_retries=DEATHS)(play_elsewhere)
        return self

    def __exit__(self, *error: object) -> None:
        import ray

        with hushed():
            ray.shutdown()

    def send(self, load: Load) -> None:
        """Give a load to whoever is free."""
        self.open[self.play.remote(load)] = load

    def back(self) -> list[Played]:
        """Return what has come back; Ray plays again what a dead worker had."""
        import ray

        done, _ = ray.wait(list(self.open), num_returns=len(self.open), timeout=0)
        if not done:
            done, _ = ray.wait(list(self.open), num_returns=1, timeout=PATIENCE)
        played = []
        for handle in done:
            try:
                outcomes = ray.get(handle)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                raise dying() from error
            played.append((self.open.pop(handle), outcomes))
        return played

    def under_way(self) -> int:
        """Return nothing: it is not known."""
        return 0


@contextmanager
def our_signals() -> Iterator[None]:
    """Keep what is done on SIGTERM: Ray would put something of its own in its place."""
    here = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if here:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def hushed() -> Iterator[None]:
    """Keep from whoever reads standard error what Ray writes there, past Python and whatever its level of logging."""
    sys.stderr.flush()
    kept = os.dup(STDERR)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), STDERR)
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)


def reached(address: str) -> str:
    """Return an address as Ray must be told it; where no Ray answers, it would ask for minutes, so that is refused."""
    host, separator, port = address.rpartition(":")
    if not separator or "/" in address:  # auto, ray://...
        return address
    if not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise UserError(f"--address {address}: expected HOST:PORT")
    complaint = silence(host.strip("[]"), int(port))
    if host in HERE:
        # Ray takes these names for the machine's own address, where a cluster of this machine alone does not listen.
        if complaint is None:
            return f"LOCALHOST:{port}"  # in capitals it knows no such name, and the network does
        import ray

        complaint = silence(ray.util.get_node_ip_address(), int(port))
    if complaint is not None:
        raise UserError(f"--address {address}: {complaint}; {ELSEWHERE}")
    return address


def silence(host: str, port: int) -> str | None:
    """Return why it is not Ray that answers; nothing where it may be."""
    try:
        with socket.create_connection((host, port), timeout=ANSWER) as line:
            line.sendall(HELLO)
            answer = line.recv(9)
    except OSError as error:
        return f"no Ray answers ({(error.strerror or str(error)).lower()})"
    return None if len(answer) > 3 and answer[3] == SETTINGS else "what answers is no Ray"
