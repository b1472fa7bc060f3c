"""The service on a real socket: odd bodies, paths and connections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running import Running, running
from wires import connected, head, received, stop_during_request

from children import LONGEST

LIMIT = 2048
DECISIONS = "/v1/experiments/none/decisions"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    storage = f"sqlite:///{tmp_path_factory.mktemp('wire')}/bandits.db"
    with running(storage, environment={"MASKEDBANDITS_BODY_LIMIT": str(LIMIT)}) as started:
        started.wait_until_ready()
        yield started


def talk(service: Running, *pieces: bytes) -> bytes:
    """Send pieces, and return all that comes back until the connection ends."""
    with connected(service) as wire:
        for piece in pieces:
            try:
                wire.sendall(piece)
            except OSError:  # it has answered, and does not listen any more
                break
        return received(wire)


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


@pytest.mark.slow  # test_serve has two workers
def test_request_in_progress_is_finished_at_stop(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path}/bandits.db") as service, connected(service) as wire:
        service.wait_until_ready()
        stop_during_request(service, wire)
        assert service.process.wait(LONGEST) == 0
