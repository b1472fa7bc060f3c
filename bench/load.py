"""Load on a server of this machine: connections that each send the next request as soon as the last is answered.

Requests are bytes that were put together before, and of an answer only its status and length are looked at, so that
the server is what is measured. Every loop ends by itself, after so many seconds or when there is nothing left to send.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"


@dataclass
class Load:
    """What came of it."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)  # seconds
    bodies: list[bytes] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Good answers a second."""
        return self.statuses[200] / self.seconds

    def quantile(self, share: float) -> float:
        """Return the latency below which a share of the answers came."""
        found = sorted(self.latencies)
        return found[min(len(found) - 1, int(share * len(found)))]


def request(path: str, body: bytes = b"", method: str = "POST") -> bytes:
    """Return a request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", f"host: {HOST}", "content-type: application/json"]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


class Connection(asyncio.Protocol):
    """One connection: asks, waits for the answer, asks again."""

    def __init__(self, requests: Iterator[bytes], load: Load, until: float, keep: bool) -> None:
        self.requests, self.load, self.until, self.keep = requests, load, until, keep
        self.buffer = bytearray()
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport: Any = transport
        self._next()

    def _next(self) -> None:
        asked = next(self.requests, None) if time.perf_counter() < self.until else None
        if asked is None:
            self.transport.close()
            return
        self.sent = time.perf_counter()
        self.transport.write(asked)

    def data_received(self, data: bytes) -> None:
        """Take an answer, or a part of one."""
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end]).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(self.buffer) < end + 4 + length:
            return
        self.load.latencies.append(time.perf_counter() - self.sent)
        self.load.statuses[int(head[9:12])] += 1
        if self.keep:
            self.load.bodies.append(bytes(self.buffer[end + 4 :]))
        self.buffer.clear()
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        if not self.done.done():
            self.done.set_result(None)


async def _loaded(port: int, requests: Iterator[bytes], connections: int, seconds: float, keep: bool) -> Load:
    load, loop = Load(), asyncio.get_running_loop()
    began = time.perf_counter()
    made = [
        (await loop.create_connection(lambda: Connection(requests, load, began + seconds, keep), HOST, port))[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(each.done for each in made))
    load.seconds = time.perf_counter() - began
    return load


def send_load(port: int, requests: Iterator[bytes], connections: int, seconds: float, *, keep: bool = False) -> Load:
    """Send requests over so many connections at once, for so many seconds at most."""
    import uvloop

    return uvloop.run(_loaded(port, requests, connections, seconds, keep))


def cpu_seconds(process: int) -> float:
    """Return the CPU that a process and its children have used so far."""
    total = 0.0
    for each in [process, *children(process)]:
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def children(process: int) -> list[int]:
    """Return the children of a process, and theirs."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children(int(child))]
    return found


def resident_bytes(process: int) -> int:
    """Return how much memory a process and its children hold."""
    pages = [int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in [process, *children(process)]]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")
