"""HTTP on a connection, with limits on the head of a request: neither endless nor endlessly slow.

The web server limits neither. Bodies are limited where they are read (``http.py``).
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from maskedbandits.service.http import BODY_TIMEOUT_S, MAX_HEAD_BYTES, RequestError
from maskedbandits.service.sse import ABORT

HEAD_TIMEOUT_S = BODY_TIMEOUT_S
PIECE_BYTES = 1 << 12  # parsed at once; a head that begins within a piece may be longer by less than that
TOO_LONG = f"the head of the request is longer than {MAX_HEAD_BYTES} bytes: send fewer or shorter headers"
TOO_SLOW = f"the head of the request did not arrive within {HEAD_TIMEOUT_S:g} seconds: send it again"
NO_HTTP = "invalid HTTP/1.1: check the method, the headers and the sizes of chunks"


class HttpProtocol(HttpToolsProtocol):
    """A connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes = 0  # of a head that is not complete
        self._is_in_head = True
        self._has_turned = False  # whether a head or a body has ended in the last piece
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give a new connection as long as an idle one."""
        super().connection_made(transport)
        self._set_timer(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._set_timer(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data in pieces, since the parser does not say where in a large one a head has ended."""
        begin = 0
        while begin < len(data) and not self.transport.is_closing():
            piece = data[begin : begin + min(PIECE_BYTES, MAX_HEAD_BYTES - self._head_bytes)]
            begin += len(piece)
            self._parse(piece)

    def _parse(self, piece: bytes) -> None:
        """Parse a piece; refuse a head that is too long, and start the timer of one that is incomplete."""
        self._has_turned = False
        super().data_received(piece)
        if self.transport.is_closing():
            return
        self._head_bytes = 0 if self._has_turned or not self._is_in_head else self._head_bytes + len(piece)
        if self._head_bytes >= MAX_HEAD_BYTES:  # and it is still incomplete
            self._refuse(431, TOO_LONG)
        elif self._head_bytes == len(piece) and self._is_idle():  # its first piece
            self._set_timer(HEAD_TIMEOUT_S)

    def on_message_begin(self) -> None:
        """Offer the application an extension that drops a connection."""
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]

    def on_headers_complete(self) -> None:
        """Note that a body begins."""
        self._is_in_head, self._has_turned = False, True
        self._set_timer(None)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the next head begins."""
        self._is_in_head = self._has_turned = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP with a problem document, unless a response is already under way."""
        if self._is_idle() or not self.cycle.response_started:
            self._send_error(400, NO_HTTP)
        self.transport.close()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._refuse, 408, TOO_SLOW)

    def _refuse(self, status: int, error: str) -> None:
        """Close the connection, with an error if a head has begun and no earlier request is being answered."""
        if self._head_bytes and self._is_idle() and not self.transport.is_closing():
            self._send_error(status, error)
        self.transport.close()

    def _send_error(self, status: int, error: str) -> None:
        _, body, headers = RequestError(status, error).to_response()
        lines = [b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode())]
        sent = [*headers, (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
        lines += [b"%b: %b" % header for header in sent]
        self.transport.write(b"\r\n".join([*lines, b"", body]))
