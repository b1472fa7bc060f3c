"""The service on a real socket: odd bodies, paths and connections."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from running import Running, running

from children import LONGEST, wait_until

LIMIT = 2048
DECISIONS = "/v1/experiments/none/decisions"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    storage = f"sqlite:///{tmp_path_factory.mktemp('wire')}/bandits.db"
    with running(storage, environment={"MASKEDBANDITS_BODY_LIMIT": str(LIMIT)}) as started:
        started.wait_until_ready()
        yield started


def connected(service: Running) -> socket.socket:
    place = urlsplit(service.address)
    assert place.hostname
    assert place.port
    return socket.create_connection((place.hostname, place.port), timeout=LONGEST)


def talk(service: Running, *pieces: bytes) -> bytes:
    """Send pieces, and return all that comes back until the connection ends."""
    with connected(service) as wire:
        for piece in pieces:
            try:
                wire.sendall(piece)
            except OSError:  # it has answered, and does not listen any more
                break
        return received(wire)


def received(wire: socket.socket) -> bytes:
    found = b""
    while True:
        try:
            piece = wire.recv(65_536)
        except ConnectionResetError:
            return found
        if not piece:
            return found
        found += piece


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: localhost", *lines, "", ""]).encode()


def is_ready(wire: socket.socket) -> bool:
    """Tell whether the worker at the other end is ready."""
    wire.sendall(head("GET", "/readyz"))
    found = b""
    while not found.endswith(b"}"):  # the body may come after the head
        piece = wire.recv(65_536)
        assert piece, found
        found += piece
    return found.startswith(b"HTTP/1.1 200 ")


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


CLOSE = "connection: close"


def test_chunked_body_is_read(service: Running) -> None:
    answer = talk(
        service, head("POST", DECISIONS, "transfer-encoding: chunked", CLOSE), chunk(b'{"n"'), chunk(b":2}"), chunk(b"")
    )
    assert answer.startswith(b"HTTP/1.1 404 ")


def test_endless_chunked_body_gets_413(service: Running) -> None:
    pieces = [chunk(b"x" * 1000)] * 1000
    answer = talk(service, head("POST", DECISIONS, "transfer-encoding: chunked"), *pieces)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"longer than 2048 bytes" in answer


def test_long_content_length_gets_413_at_once(service: Running) -> None:
    answer = talk(service, head("POST", DECISIONS, "content-length: 999999999"), b"x")
    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "request_",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        head("POST", DECISIONS, "content-length: x"),
        head("POST", DECISIONS, "transfer-encoding: chunked") + b"zz\r\n",
        head("G\xe9T", "/"),
    ],
)
def test_invalid_requests_are_refused(service: Running, request_: bytes) -> None:
    answer = talk(service, request_)
    assert answer.startswith(b"HTTP/1.1 4")
    assert service.ask("GET", "/readyz")[0] == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/%ff%fe", 404),
        ("/healthz?" + "x" * 1000, 200),
        ("/v1/experiments/%00", 404),
        ("//healthz", 404),
        ("/../healthz", 404),
    ],
)
def test_odd_paths(service: Running, path: str, status: int) -> None:
    answer = talk(service, head("GET", path, CLOSE))
    assert answer.startswith(b"HTTP/1.1 %d " % status)


def test_connection_serves_several_requests(service: Running) -> None:
    answer = talk(service, head("GET", "/healthz") * 3 + head("GET", "/healthz", CLOSE))
    assert answer.count(b'{"status":"ok"}') == 4
    assert b"server:" not in answer.lower()
    assert answer.lower().count(b"\r\ndate: ") == 4  # ours, and not the web server's beside it


def test_two_authorization_headers_are_refused(service: Running) -> None:
    twice = ["authorization: Bearer one", "Authorization: Bearer two"]
    answer = talk(service, head("GET", "/v1/experiments", *twice, CLOSE))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"two Authorization headers: send one" in answer


def test_head_and_options(service: Running) -> None:
    assert talk(service, head("HEAD", "/healthz", CLOSE)).endswith(b"\r\n\r\n")
    answer = talk(service, head("OPTIONS", "/healthz", "origin: https://evil.example", CLOSE))
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"access-control-allow-origin" not in answer


def is_closed(service: Running) -> bool:
    """Tell whether a connection is refused at once, instead of waiting."""
    try:
        connected(service).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_request_in_progress_is_finished_at_stop(tmp_path: Path, workers: int) -> None:
    storage = f"sqlite:///{tmp_path}/bandits.db"
    with running(storage, "--workers", workers) as service, connected(service) as wire:
        service.wait_until_ready()
        wait_until(lambda: is_ready(wire), service.process)  # its own worker, which may be the slower one
        wire.sendall(head("POST", DECISIONS, "content-length: 2") + b"{")
        assert service.ask("GET", "/healthz")[0] == 200  # by now the request has begun
        service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: is_closed(service), service.process)  # no new connection is accepted
        wire.sendall(b"}")
        assert received(wire).startswith(b"HTTP/1.1 404 ")
        assert service.process.wait(LONGEST) == 0
