"""Streams: their number is limited, stalled readers are dropped, and all end with the service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest
from streaming import BodyDecoder, scope_of

from maskedbandits.service import sse
from maskedbandits.service.http import RequestError
from maskedbandits.service.sse import Stream, Streams, format_event


async def counting(closed: list[bool]) -> AsyncGenerator[bytes, None]:
    """Events without an end."""
    try:
        for number in range(10**9):
            yield format_event("number", number)
            await asyncio.sleep(0)
    finally:
        closed.append(True)


async def poured(opened: Streams, reader: BodyDecoder, closed: list[bool], method: str = "GET") -> None:
    scope = scope_of("/", {}, reader, method)
    await opened.send_stream(scope, reader.receive, reader.send, Stream(counting(closed)), [(b"a", b"b")])


def test_event_is_one_line() -> None:
    text = "a\nb\r\n\n event: x"
    event = format_event("said", {"text": text})
    assert event.startswith(b"event: said\ndata: ")
    assert event.endswith(b"\n\n")
    assert event.count(b"\n") == 3
    assert json.loads(event.split(b"\n")[1].removeprefix(b"data: ")) == {"text": text}


def test_leaving_reader_ends_stream() -> None:
    async def use() -> None:
        opened, reader, closed = Streams(), BodyDecoder(), list[bool]()
        task = asyncio.create_task(poured(opened, reader, closed))
        assert await reader.event() == ("number", 0)
        assert opened.open == 1
        reader.leave()
        await asyncio.wait_for(task, 30)
        assert (opened.open, closed, reader.ended) == (0, [True], False)
        assert (b"content-type", b"text/event-stream") in reader.start["headers"]
        assert (b"a", b"b") in reader.start["headers"]

    asyncio.run(use())


def test_stalled_reader_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "SEND_TIMEOUT_S", 0.05)

    async def use() -> None:
        opened, reader, closed = Streams(), BodyDecoder(), list[bool]()
        task = asyncio.create_task(poured(opened, reader, closed))
        await reader.event()
        reader.stop_reading()
        await asyncio.wait_for(task, 30)
        assert (reader.aborted, opened.open, closed) == (True, 0, [True])

    asyncio.run(use())


def test_streams_end_with_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "CLOSE_TIMEOUT_S", 0.05)

    async def use() -> None:
        opened, readers, closed = Streams(), [BodyDecoder(), BodyDecoder()], list[bool]()
        tasks = [asyncio.create_task(poured(opened, reader, closed)) for reader in readers]
        for reader in readers:
            await reader.event()
        readers[1].stop_reading()
        opened.end()
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        assert [(reader.ended, reader.aborted) for reader in readers] == [(True, False), (False, True)]
        assert len(closed) == 2
        with pytest.raises(RequestError):
            opened.refuse_if_full()

    asyncio.run(use())


def test_number_of_streams_is_limited() -> None:
    opened = Streams(max_streams=2)
    opened.open = 1
    opened.refuse_if_full()
    opened.open = 2
    with pytest.raises(RequestError) as refusal:
        opened.refuse_if_full()
    assert refusal.value.status == 503
    assert (b"retry-after", b"5") in refusal.value.headers


def test_head_has_no_events() -> None:
    async def use() -> None:
        reader = BodyDecoder()
        await asyncio.wait_for(poured(Streams(), reader, [], "HEAD"), 30)
        assert (reader.start["status"], reader.rest, reader.ended) == (200, b"", True)

    asyncio.run(use())


def test_fault_in_stream_is_raised() -> None:
    async def faulty() -> AsyncGenerator[bytes, None]:
        yield format_event("number", 1)
        raise ZeroDivisionError

    async def use() -> None:
        opened, reader = Streams(), BodyDecoder()
        with pytest.raises(ZeroDivisionError):
            await opened.send_stream(scope_of("/", {}, reader), reader.receive, reader.send, Stream(faulty()), [])
        assert opened.open == 0

    asyncio.run(use())
