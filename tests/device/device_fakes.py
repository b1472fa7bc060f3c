"""A fake service on the loopback address, and a clock that tests set."""

import base64
import contextlib
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest

from helpers.private import next_due, replace_network
from maskedbandits.device import Device, Timing
from maskedbandits.device.http import HttpClient

START = 1_800_000_000.0  # a day in 2027
QUICK = Timing(min_report_after=0.0, min_window=1.0, min_jitter=0.0)  # limits for tests: nobody is behind these devices


class Clock:
    """A clock that tests set, in place of the device's."""

    def __init__(self, at: float = START) -> None:
        self.at = at

    def time(self) -> float:
        return self.at


class Arrival(NamedTuple):
    """A report as the network saw it: its time, total size and contents."""

    at: float
    size: int
    token: str
    bit: int
    epsilon: float


class Service:
    """Answer as the service does; tests can change every reply."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock, self._lock = clock, threading.Lock()
        self.report_after, self.expires_after = 60.0, 86_400.0
        self.date = "Thu, 01 Jan 1970 00:00:00 GMT"  # as a proxy may write it: no device looks at it
        self.decision: dict[str, Any] = {}  # changes what a decision answers
        self.fails: Callable[[int], str] = lambda count: ""  # "before" or "after" it is taken in, for the n-th report
        self.answers: tuple[int, Any] | None = None  # instead of anything else
        self.questions: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.arrivals: list[Arrival] = []  # every request, also those that got no answer
        self.taken: dict[str, int] = {}  # bits by token: what is learned from
        self.visitors: dict[str, dict[str, Any]] = {}
        self.issued: dict[str, float] = {}  # when each token was given out

    def decide(self, question: dict[str, Any]) -> tuple[int, Any]:
        self.questions.append(question)
        now, visitor = self.clock(), question.get("visitor")
        if visitor in self.visitors:
            without = {"token": None, "participate": False} if question.get("participate") is False else {}
            return 200, self.visitors[visitor] | {"now": now} | without
        token = base64.urlsafe_b64encode(os.urandom(48)).decode()
        arm = question.get("eligible_arms", ["plain"])[0]
        times = {"now": now, "report_at": now + self.report_after, "expires": now + self.expires_after}
        reply = {"token": token, "arm": arm, "payload": {"text": "Hello"}, "epsilon": 1.0, **times}
        reply |= {"probability": 0.5, "participate": True, "experiment": "headline", **self.decision}
        self.issued[token] = now
        if question.get("participate") is False and not self.decision:
            reply |= {"token": None, "participate": False}
        if visitor is not None:
            self.visitors[visitor] = reply
        return 200, reply

    def report(self, content: dict[str, Any], size: int) -> tuple[int, Any] | None:
        token = content["token"]
        bit = content["answer"] if "answer" in content else content["bit"]
        with self._lock:
            self.arrivals.append(Arrival(self.clock(), size, token, bit, content["epsilon"]))
            count = len(self.arrivals)
        failure = self.fails(count)
        if failure == "before":
            return None
        if self.clock() >= self.issued.get(token, 0.0) + self.expires_after:
            return 410, {"status": 410, "code": "late"}
        status = "duplicate" if token in self.taken else "accepted"
        self.taken.setdefault(token, bit)
        return None if failure == "after" else (200, {"status": status})


def _handler(service: Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            content = json.loads(body)
            service.headers.append(dict(self.headers.items()))
            service.paths.append(self.path)
            if service.answers is not None:
                answer: tuple[int, Any] | None = service.answers
            elif self.path.endswith("/decisions"):
                answer = service.decide(content)
            else:
                answer = service.report(content, len(self.requestline) + len(str(self.headers)) + len(body))
            if answer is None:
                self.close_connection = True
                return
            text = answer[1] if isinstance(answer[1], bytes) else json.dumps(answer[1]).encode()
            self.send_response_only(answer[0])
            self.send_header("Date", service.date)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing of those who hang up."""


@contextlib.contextmanager
def serving(service: Service, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve on a free port, encrypted if there is a context; yield the address."""
    with _Server(("127.0.0.1", 0), _handler(service)) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def raw(answer: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """Answer every connection arbitrarily after reading its request."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)

        def serve() -> None:
            while not over.is_set():
                with contextlib.suppress(OSError):
                    link, _ = server.accept()
                    with link:
                        link.settimeout(10)
                        link.recv(1 << 16)
                        answer(link, over)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


@contextlib.contextmanager
def direct(service: Service) -> Iterator[str]:
    """Answer the requests of all devices by a call, much faster than over a network; yield the address."""

    def exchange(self: HttpClient, path: str, body: bytes) -> tuple[int, bytes]:
        content = json.loads(body)
        reply = service.decide(content) if path.endswith("/decisions") else service.report(content, len(body))
        if reply is None:
            raise ConnectionResetError
        return reply[0], json.dumps(reply[1]).encode()

    with pytest.MonkeyPatch.context() as patch:
        replace_network(patch, exchange)
        yield "http://127.0.0.1:9"


def opened(url: str, **options: Any) -> Device:
    """Return a device that sends when its test says so."""
    arguments = {"cap": 10_000, "max_epsilon": 2, "background": False, "jitter": 20.0, "timing": QUICK, **options}
    return Device(url, "headline", **arguments)


def pass_time(device: Device, clock: Clock, seconds: float) -> None:
    """Advance the clock, and let the device do what is due on the way."""
    end = clock.at + seconds
    while (due := next_due(device)) is not None and due <= end:
        clock.at = max(clock.at, due)
        device.send_due()
    clock.at = end
    device.send_due()
