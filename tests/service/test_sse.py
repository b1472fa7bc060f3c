"""Streams as such: how many there may be, who is dropped, and how all of them end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest
from streaming import Reader, scope_of

from maskedbandits.service import sse
from maskedbandits.service.http import Refused
from maskedbandits.service.sse import Stream, Streams, framed


async def counting(closed: list[bool]) -> AsyncGenerator[bytes, None]:
    """Events without an end."""
    try:
        for number in range(10**9):
            yield framed("number", number)
            await asyncio.sleep(0)
    finally:
        closed.append(True)


async def poured(opened: Streams, reader: Reader, closed: list[bool], method: str = "GET") -> None:
    scope = scope_of("/", {}, reader, method)
    await opened.pour(scope, reader.receive, reader.send, Stream(counting(closed)), [(b"a", b"b")])


def test_an_event_is_one_line_whatever_is_in_it() -> None:
    text = "a\nb\r\n\n event: x"
    event = framed("said", {"text": text})
    assert event.startswith(b"event: said\ndata: ")
    assert event.endswith(b"\n\n")
    assert event.count(b"\n") == 3
    assert json.loads(event.split(b"\n")[1].removeprefix(b"data: ")) == {"text": text}


def test_whoever_leaves_ends_the_stream() -> None:
    async def use() -> None:
        opened, reader, closed = Streams(), Reader(), list[bool]()
        task = asyncio.create_task(poured(opened, reader, closed))
        assert await reader.event() == ("number", 0)
        assert opened.open == 1
        reader.leave()
        await asyncio.wait_for(task, 30)
        assert (opened.open, closed, reader.ended) == (0, [True], False)
        assert (b"content-type", b"text/event-stream") in reader.start["headers"]
        assert (b"a", b"b") in reader.start["headers"]

    asyncio.run(use())


def test_whoever_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "STALLED", 0.05)

    async def use() -> None:
        opened, reader, closed = Streams(), Reader(), list[bool]()
        task = asyncio.create_task(poured(opened, reader, closed))
        await reader.event()
        reader.stop_reading()
        await asyncio.wait_for(task, 30)
        assert (reader.aborted, opened.open, closed) == (True, 0, [True])

    asyncio.run(use())


def test_all_end_when_the_service_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LAST", 0.05)

    async def use() -> None:
        opened, readers, closed = Streams(), [Reader(), Reader()], list[bool]()
        tasks = [asyncio.create_task(poured(opened, reader, closed)) for reader in readers]
        for reader in readers:
            await reader.event()
        readers[1].stop_reading()
        opened.end()
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        assert [(reader.ended, reader.aborted) for reader in readers] == [(True, False), (False, True)]
        assert len(closed) == 2
        with pytest.raises(Refused):
            opened.refuse_if_full()

    asyncio.run(use())


def test_there_are_never_too_many() -> None:
    opened = Streams(most=2)
    opened.open = 1
    opened.refuse_if_full()
    opened.open = 2
    with pytest.raises(Refused) as refusal:
        opened.refuse_if_full()
    assert refusal.value.status == 503
    assert (b"retry-after", b"5") in refusal.value.headers


def test_head_has_no_events() -> None:
    async def use() -> None:
        reader = Reader()
        await asyncio.wait_for(poured(Streams(), reader, [], "HEAD"), 30)
        assert (reader.start["status"], reader.rest, reader.ended) == (200, b"", True)

    asyncio.run(use())


def test_a_fault_of_ours_is_told_as_such() -> None:
    async def faulty() -> AsyncGenerator[bytes, None]:
        yield framed("number", 1)
        raise ZeroDivisionError

    async def use() -> None:
        opened, reader = Streams(), Reader()
        with pytest.raises(ZeroDivisionError):
            await opened.pour(scope_of("/", {}, reader), reader.receive, reader.send, Stream(faulty()), [])
        assert opened.open == 0

    asyncio.run(use())
