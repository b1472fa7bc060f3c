"""A client that calls an ASGI application as a web server would, without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The one line that says what is wrong; there must be one."""
        text = self.json["error"]
        assert isinstance(text, str)
        assert "\n" not in text
        return text


class Client:
    """Asks an application; ``key`` is sent along unless a request has headers of its own for it."""

    def __init__(self, app: ASGIApp, key: str | None = None, host: str = "127.0.0.1:8080") -> None:
        self.app, self.key, self.host = app, key, host

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = b"",
        headers: Mapping[str, str] | None = None,
        pieces: Iterable[Message] | None = None,
        client: str = "203.0.113.7",
    ) -> Reply:
        """Ask; a body that is not bytes is sent as JSON, and ``pieces`` are ASGI messages in its place."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        messages = iter(pieces or [{"type": "http.request", "body": sent, "more_body": False}])
        told = {"host": self.host} | ({"authorization": f"Bearer {self.key}"} if self.key else {})
        if pieces is None:
            told["content-length"] = str(len(sent))
        told |= {name.lower(): value for name, value in (headers or {}).items()}
        bare, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": unquote(bare),
            "raw_path": bare.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in told.items()],
            "client": (client, 1234),
            "server": ("127.0.0.1", 8080),
        }
        answers: list[Message] = []

        async def receive() -> Message:
            return next(messages, {"type": "http.disconnect"})

        async def send(message: Message) -> None:
            answers.append(message)

        await self.app(scope, receive, send)
        return _reply(answers)

    async def get(self, path: str, **more: Any) -> Reply:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, body: Any = b"", **more: Any) -> Reply:
        return await self.ask("POST", path, body, **more)

    async def patch(self, path: str, body: Any, **more: Any) -> Reply:
        return await self.ask("PATCH", path, body, **more)


def _reply(answers: list[Message]) -> Reply:
    if not answers:
        return Reply(0, {}, b"")  # nobody was there to be answered
    start, *rest = answers
    assert start["type"] == "http.response.start"
    assert all(message["type"] == "http.response.body" for message in rest)
    headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    body = b"".join(message.get("body", b"") for message in rest)
    if start["status"] != 204:
        assert int(headers["content-length"]) == len(body) or not body
    return Reply(start["status"], headers, body)


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)
