"""Heads of requests that are too long or too slow, on real connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from maskedbandits.service import sse
from maskedbandits.service.http import MAX_HEAD_BYTES, Response, read_body, send_response
from maskedbandits.service.server import http_protocol
from maskedbandits.service.server.http_protocol import HttpProtocol

GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n"
POST = GET.replace(b"GET", b"POST")
LAST = GET + b"connection: close\r\n"
ENDLESS = 100.0  # times as much as is allowed


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    body = await read_body(scope, receive, 1 << 24)
    await send_response(send, Response(200, b"%d %d" % (len(scope["headers"]), len(body))))


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]


def talked(talk: Talk, keep_alive: int = 60, app: ASGIApp | None = None) -> bytes:
    """Return the bytes that a client receives."""

    async def run() -> bytes:
        config = uvicorn.Config(
            app or application,
            port=0,
            http=HttpProtocol,
            lifespan="off",
            log_config=None,
            timeout_keep_alive=keep_alive,
        )
        server = uvicorn.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup()
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return await talk(reader, writer)
        finally:
            writer.close()
            await server.shutdown()

    return asyncio.run(run())


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, piece: bytes) -> bytes:
    """Send a head that never ends, and return the response."""
    heard = asyncio.create_task(reader.read())
    try:
        writer.write(GET)
        for _ in range(int(ENDLESS * MAX_HEAD_BYTES / len(piece))):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
            if heard.done():
                break
    except ConnectionError:
        pass  # it does not listen any more
    try:
        return await heard
    except ConnectionError:
        return b"reset"


@pytest.mark.parametrize("piece", [b"a: b\r\n" * 1000, b"x" * 5000], ids=["many headers", "one header"])
def test_endless_head_is_refused(piece: bytes) -> None:
    heard = talked(lambda reader, writer: flood(reader, writer, piece))
    assert heard == b"reset" or heard.startswith(b"HTTP/1.1 431 ")
    assert heard == b"reset" or b"send fewer headers" in heard


def head_of(size: int, kind: str) -> bytes:
    """A whole head of so many bytes: most of them in one header, in many, or in the path."""
    rest = size - len(LAST) - 2
    if kind == "path":
        return LAST.replace(b"GET /", b"GET /" + b"x" * rest) + b"\r\n"
    if kind == "many":
        lines, last = divmod(rest, 100)
        return LAST + (b"a: " + b"x" * 95 + b"\r\n") * (lines - 1) + b"b: " + b"x" * (last + 95) + b"\r\n\r\n"
    return LAST + b"a: " + b"x" * (rest - 5) + b"\r\n\r\n"


async def send_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pieces: Sequence[bytes]) -> bytes:
    """Send pieces, and return all that is answered."""
    heard = asyncio.create_task(reader.read())
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
    try:
        return await heard
    except ConnectionError:
        return b"reset"


@pytest.mark.parametrize("piece", [1 << 20, 5000, 997], ids=["at once", "5000", "997"])
@pytest.mark.parametrize("kind", ["one", "many", "path"])
@pytest.mark.parametrize(
    ("size", "fits"),
    [(MAX_HEAD_BYTES - 1, True), (MAX_HEAD_BYTES, True), (MAX_HEAD_BYTES + 1, False), (100_000, False)],
)
def test_head_length_limit_is_exact(size: int, fits: bool, kind: str, piece: int) -> None:
    head = head_of(size, kind)
    assert len(head) == size
    pieces = [head[begin : begin + piece] for begin in range(0, size, piece)]
    heard = talked(lambda reader, writer: send_all(reader, writer, pieces))
    if fits:
        assert heard.startswith(b"HTTP/1.1 200 ")
    else:
        assert heard == b"reset" or heard.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "before", [GET + b"\r\n", POST + b"content-length: 9000\r\n\r\n" + b"x" * 9000], ids=["head", "body"]
)
def test_long_pipelined_head_is_refused(before: bytes) -> None:
    """In one write; the first request is answered or not, the second never is."""
    heard = talked(lambda reader, writer: send_all(reader, writer, [before + head_of(100_000, "many")]))
    assert heard.count(b"HTTP/1.1 200 ") <= 1


@pytest.mark.parametrize(
    "sent",
    [
        b"BREW / HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"nonsense\r\n\r\n",
        POST + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        POST + b"transfer-encoding: chunked\r\n\r\nxyz\r\n",
        GET + b"\r\nBREW / HTTP/1.1\r\n\r\n",
    ],
    ids=["method", "nonsense", "two lengths", "chunk", "after another"],
)
def test_invalid_http_is_refused_in_json(sent: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(sent)
        return await reader.read()

    head, _, body = talked(talk).rpartition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-type: application/problem+json\r\n" in head
    assert json.loads(body)["detail"] == http_protocol.NO_HTTP


def test_long_heads_and_bodies_are_accepted() -> None:
    """Pieces that hold the end of a body and the beginning of a head count for neither."""
    head = GET.replace(b"GET", b"POST") + b"a: b\r\n" * 5000
    body = b"x" * 3_000_000
    one = head + b"content-length: %d\r\n\r\n" % len(body) + body

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(one * 3 + GET + b"connection: close\r\n\r\n")
        return await reader.read()

    heard = talked(talk)
    assert heard.count(b"5002 3000000") == 3
    assert heard.endswith(b"2 0")


def test_half_a_head_gets_408(monkeypatch: pytest.MonkeyPatch) -> None:
    """At first, and after a request that was answered."""
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_S", 0.05)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(GET)
        return await reader.read()

    assert talked(talk).startswith(b"HTTP/1.1 408 ")

    async def later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(GET + b"\r\n")
        assert (await reader.readuntil(b"1 0")).startswith(b"HTTP/1.1 200 ")
        writer.write(GET)
        return await reader.read()

    assert talked(later).startswith(b"HTTP/1.1 408 ")


def test_silent_connection_is_closed() -> None:
    assert talked(lambda reader, writer: reader.read(), keep_alive=0) == b""


def test_slow_body_is_not_cut_off_by_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_S", 1.0)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        for piece in (b"POST / HTTP/1.1\r\ncontent-length: 2\r\n", b"connection: close\r\n\r\n", b"x", b"y"):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(1.5 if piece == b"x" else 0)
        return await reader.read()

    assert talked(talk).endswith(b"2 2")


def test_reader_who_stalls_is_dropped(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """However much waits in between, of which the system keeps some megabytes."""
    monkeypatch.setattr(sse, "SEND_TIMEOUT_S", 0.2)
    opened, ended = sse.Streams(), asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        while True:
            yield bytes(1 << 20)

    async def pouring(scope: Scope, receive: Receive, send: Send) -> None:
        await opened.send_stream(scope, receive, send, sse.Stream(endless()), [])
        ended.set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(GET + b"\r\n")
        await asyncio.wait_for(ended.wait(), 30)
        with contextlib.suppress(ConnectionResetError):
            while await reader.read(1 << 20):
                pass
        return b"it has ended"

    assert talked(talk, app=pouring) == b"it has ended"
    assert opened.open == 0
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
