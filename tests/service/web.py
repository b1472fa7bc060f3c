"""The application called in process, without a web server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from helpers.private import date_keys
from maskedbandits.service.app import App
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.secret import load_secrets
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.storage import Store
from maskedbandits.service.tokens import Token

SMALL = {
    "name": "headline",
    "epsilon": 1,
    "report_after": 60,
    "arms": [{"name": "short"}, {"name": "long", "payload": {"size": 2}}],
    "policy": "klucb-cf",  # which other tests need compiled, too
}


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def verdict(self) -> str:
        """The status of a single report: of a refused one it is the code of the error."""
        return str(self.json.get("code") or self.json["status"])

    @property
    def error(self) -> str:
        """The error of the reply, in one line."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        text = self.json["detail"]
        assert isinstance(text, str)
        assert "\n" not in text
        return text


class Client:
    """Sends requests to an application, with ``key`` unless a request has its own header for it."""

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
        messages = pieces or [{"type": "http.request", "body": sent, "more_body": False}]
        values = {"host": self.host} | ({"authorization": f"Bearer {self.key}"} if self.key else {})
        if pieces is None:
            values["content-length"] = str(len(sent))
        values |= {name.lower(): value for name, value in (headers or {}).items()}
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
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in values.items()],
            "client": (client, 1234),
            "server": ("127.0.0.1", 8080),
        }
        return _reply(await exchanged(self.app, scope, messages))


async def exchanged(app: ASGIApp, scope: Scope, messages: Iterable[Message]) -> list[Message]:
    """Send an application all messages of a request, and return all that it answers."""
    answers, rest = [], iter(messages)

    async def receive() -> Message:
        return next(rest, {"type": "http.disconnect"})

    async def send(message: Message) -> None:
        answers.append(message)

    await app(scope, receive, send)
    return answers


def _reply(answers: list[Message]) -> Reply:
    if not answers:
        return Reply(0, {}, b"")  # the client had gone
    start, *rest = answers
    assert start["type"] == "http.response.start"
    assert all(message["type"] == "http.response.body" for message in rest)
    headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    body = b"".join(message.get("body", b"") for message in rest)
    if start["status"] not in (204, 304):
        assert int(headers["content-length"]) == len(body) or not body
    return Reply(start["status"], headers, body)


def token_of(store: Store, answer: dict[str, Any]) -> Token:
    return load_secrets(store).ring.read(answer["token"])


def sign_token(store: Store, token: Token) -> str:
    return load_secrets(store).ring.sign(token)


class Served:
    """The application over a registry, asked from plain tests; both are opened and closed with the ``with``."""

    def __init__(self, registry: ExperimentRegistry, settings: Settings | None = None) -> None:
        self.registry, self.app = registry, App(settings or Settings())
        self.client = Client(self.app)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self.run(self.registry.start())
        self.run(self.app.open(self.registry))
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._runner.close()

    def close(self) -> None:
        """Stop the registry, which then writes its snapshots and counts."""
        self.run(self.app.close())

    async def from_another_loop(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application for a program with another event loop; the registry runs in the loop that started it."""
        messages = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        for answer in await asyncio.to_thread(self.run, exchanged(self.app, scope, messages)):
            await send(answer)

    def renew_keys(self) -> None:
        """Let the application read the keys now, instead of within seconds."""
        self.expire_keys()
        self.run(self.app.renew_keys())

    def expire_keys(self, read_at: float = -10.0) -> None:
        """Let the application regard its keys as read at this time of the monotonic clock."""
        date_keys(self.app, read_at)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(coroutine)

    def ask(self, method: str, path: str, body: Any = b"", **more: Any) -> Reply:
        reply = self.run(self.client.ask(method, path, body, **more))
        assert isinstance(reply, Reply)
        assert reply.status != 500, reply
        return reply

    def get(self, path: str, **more: Any) -> Reply:
        return self.ask("GET", path, **more)

    def post(self, path: str, body: Any = b"", **more: Any) -> Reply:
        return self.ask("POST", path, body, **more)

    def patch(self, path: str, body: Any, **more: Any) -> Reply:
        return self.ask("PATCH", path, body, **more)
