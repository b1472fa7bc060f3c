"""HTTP on a connection: the head of a request may be neither endless nor endlessly slow.

The web server limits neither. Bodies are limited where they are read (``http.py``); here it is everything before them.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from maskedbandits.service.http import MOST_HEAD, SLOWEST, Refused
from maskedbandits.service.sse import ABORT

PIECE = 1 << 12  # bytes that are parsed at once; a head that begins within a piece may be longer by less than that
TOO_LONG = f"the head of the request is longer than {MOST_HEAD} bytes: send fewer headers, or shorter ones"
TOO_SLOW = f"the head of the request did not arrive within {SLOWEST:g} seconds: send it again"

NO_HTTP = "the request is not sound HTTP/1.1, in its method, a header or the size of a chunk: send it as that"


class Wire(HttpToolsProtocol):
    """A connection."""

    def __init__(self, *arguments: Any, **others: Any) -> None:
        super().__init__(*arguments, **others)
        self._head = 0  # bytes of a head that is not whole
        self._is_in_head = True
        self._has_turned = False  # whether a head or a body has ended in what has just come
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give whoever comes as long as whoever stays."""
        super().connection_made(transport)
        self._wait(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nobody any more."""
        self._wait(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come, in pieces: of a large one the parser does not say where in it a head has ended."""
        begin = 0
        while begin < len(data) and not self.transport.is_closing():
            piece = data[begin : begin + min(PIECE, MOST_HEAD - self._head)]
            begin += len(piece)
            self._parse(piece)

    def _parse(self, piece: bytes) -> None:
        """Read on, unless a head has become too long; one that came in part has a while to come as a whole."""
        self._has_turned = False
        super().data_received(piece)
        if self.transport.is_closing():
            return
        self._head = 0 if self._has_turned or not self._is_in_head else self._head + len(piece)
        if self._head >= MOST_HEAD:  # and there is more of it
            self._refuse(431, TOO_LONG)
        elif self._head == len(piece) and self._is_idle():  # the first piece of it
            self._wait(SLOWEST)

    def on_message_begin(self) -> None:
        """Offer, beyond what ASGI has, to drop whoever does not read."""
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]

    def on_headers_complete(self) -> None:
        """Note that a body begins."""
        self._is_in_head, self._has_turned = False, True
        self._wait(None)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the next head begins."""
        self._is_in_head = self._has_turned = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP in a line of JSON, as everything is; within an answer nothing can be said."""
        if self._is_idle() or not self.cycle.response_started:
            self._say(400, NO_HTTP)
        self.transport.close()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self, seconds: float | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = None if seconds is None else self.loop.call_later(seconds, self._refuse, 408, TOO_SLOW)

    def _refuse(self, status: int, why: str) -> None:
        """Say why, unless an earlier request is being answered or nothing has been asked; and end the connection."""
        if self._head and self._is_idle() and not self.transport.is_closing():
            self._say(status, why)
        self.transport.close()

    def _say(self, status: int, why: str) -> None:
        _, body, headers = Refused(status, why).answer()
        lines = [b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode())]
        told = [*headers, (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
        lines += [b"%b: %b" % header for header in told]
        self.transport.write(b"\r\n".join([*lines, b"", body]))
