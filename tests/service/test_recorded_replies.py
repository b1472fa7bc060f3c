"""Replies to a fixed sequence of requests over all routes, compared with those in ``recorded_replies.json``.

A reply may change only on purpose. Record the new ones then, and look at the difference:

    python tests/service/test_recorded_replies.py
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("recorded_replies.json")
NOW = 1_800_000_000.0  # unix seconds: the clock of the service does not advance
ONE, REPORTS = "/v1/experiments/headline", "/v1/reports"
GROUPED = {
    "name": "grouped",
    "epsilon": 2,
    "arms": [{"name": "a", "payload": [1]}, {"name": "b"}],
    "groups": ["x", "y"],
}
MASKED_FIELDS = {"token": "TOKEN", "digest": "DIGEST", "kernel": "KERNEL", "version": "VERSION", "arms": "ARMS"}
UNSTABLE_LINES = re.compile(r"request_seconds|^process_|build_info\{|age_seconds\{")  # in the metrics
UNSTABLE_HEADERS = ("content-length", "etag")
REFUSED = 6  # reports to the experiment that are refused before its state is looked at
STATIC = ("/client.js", "/dashboard", "/dashboard/dashboard.css", "/dashboard/plots.js")


def mask(value: Any, *, is_grouped: bool = False) -> Any:
    """Return a reply without the parts that differ from run to run; a null stays a null."""
    if isinstance(value, list):
        return [mask(each, is_grouped=is_grouped) for each in value]
    if not isinstance(value, dict):
        return value
    masked = {name: mask(each, is_grouped=is_grouped) for name, each in value.items()}
    for name, text in MASKED_FIELDS.items():
        if isinstance(masked.get(name), str):
            masked[name] = text
    if is_grouped and "signs" in masked:  # a randomised policy chooses them
        masked["arms"], masked["signs"] = ["ARM"] * len(masked["arms"]), masked["signs"] and ["SIGN"]
    return masked


class Recorder:
    """Sends requests and records the replies."""

    def __init__(self, served: Any) -> None:
        self.served = served
        self.replies: list[dict[str, Any]] = []

    def ask(self, method: str, path: str, body: Any = b"", *, note: str = "", **more: Any) -> Any:
        """Send a request, record the reply, and return it as JSON if it is some."""
        reply = self.served.ask(method, path, body, **more)
        headers = {name: value for name, value in reply.headers.items() if name not in UNSTABLE_HEADERS}
        if reply.status == 429:  # it depends on the time since the last request
            headers["retry-after"] = "SECONDS"
        kind = headers.get("content-type", "")
        found: Any = reply.body.decode()
        if kind in ("application/json", "application/problem+json") and reply.body:
            found = json.loads(found)
        elif kind.startswith("text/plain"):
            found = [line for line in found.splitlines() if not UNSTABLE_LINES.search(line)]
        shown = f"{len(found) > 0}" if path in STATIC else mask(found, is_grouped="grouped" in path)
        request = f"{method} {path}{f' ({note})' if note else ''}"
        self.replies.append({"request": request, "status": reply.status, "headers": headers, "body": shown})
        return found


def record_open(recorder: Recorder) -> None:
    """Send requests to a service without keys."""
    ask = recorder.ask
    from web import SMALL

    for path in (
        "/healthz",
        "/readyz",
        "/openapi.json",
        *STATIC,
        "/",
        "/dashboard/none.js",
        "/none",
        "/v1/experiments",
    ):
        ask("GET", path)
    for method, path in (("HEAD", "/healthz"), ("PUT", REPORTS), ("GET", f"{ONE}/decisions"), ("POST", "/dashboard")):
        ask(method, path)
    ask("POST", "/v1/experiments", {**SMALL, "report_after": 90}, note="create")
    ask("POST", "/v1/experiments", SMALL, note="name is taken")
    for note, body in (("not JSON", b"{"), ("empty", b""), ("unknown field", {**SMALL, "nmae": 1})):
        ask("POST", "/v1/experiments", body, note=note)
    changes: list[dict[str, Any]] = [
        {"policy": "exp3s"},
        {"epsilon": 17},
        {"arms": []},
        {"floor": 0.6},
        {"name": "A"},
        {"shares": [1.0]},
    ]
    for change in changes:
        ask("POST", "/v1/experiments", {**SMALL, "name": "other", **change}, note=f"bad {next(iter(change))}")
    ask("GET", ONE)
    ask("GET", "/v1/experiments/none")
    first = ask("POST", f"{ONE}/decisions")
    many = ask("POST", f"{ONE}/decisions", {"n": 3}, note="three")["decisions"]
    ask("POST", f"{ONE}/decisions", {"eligible_arms": ["long"]}, note="eligible")
    ask("POST", f"{ONE}/decisions", {"eligible_arms": ["lung"]}, note="unknown arm")
    ask("POST", f"{ONE}/decisions", {"participate": False}, note="no part")
    for _ in range(2):
        ask("POST", f"{ONE}/decisions", {"visitor": "v"}, note="visitor")
    ask("POST", f"{ONE}/decisions", {"visitor": "v", "participate": False}, note="visitor without a part")
    ask("POST", f"{ONE}/decisions", {"visitor": "v", "n": 2}, note="two for a visitor")
    ask("POST", f"{ONE}/decisions", {"n": 0}, note="none")
    record_reports(recorder, first["token"], [each["token"] for each in many])
    wait_until_flushed(recorder)
    ask("GET", f"{ONE}/state")
    ask("GET", "/metrics")
    ask("POST", f"{ONE}/arms", {"name": "third", "payload": {"size": 3}}, note="add")
    ask("POST", f"{ONE}/arms", {"name": "third"}, note="again")
    ask("PATCH", f"{ONE}/arms/third", {"payload": [4]}, note="payload")
    ask("PATCH", f"{ONE}/arms/none", {"payload": [4]}, note="unknown arm")
    for arm in ("third", "third", "short", "none"):
        ask("POST", f"{ONE}/arms/{arm}/retire")
    ask("PATCH", ONE, {"floor": 0.25, "source_limit": {"key": 5}}, note="floor")
    ask("PATCH", ONE, {"expires_after": 61}, note="too short")
    ask("PATCH", ONE, {"status": "paused"}, note="pause")
    ask("POST", f"{ONE}/decisions", note="paused")
    ask("PATCH", ONE, {"status": "archived"}, note="archive")
    ask("POST", f"{ONE}/decisions", note="archived")
    ask("POST", REPORTS, {"token": many[2]["token"], "bit": 1}, note="late")
    ask("PATCH", ONE, {"status": "running"}, note="for good")
    record_groups(recorder)
    ask("GET", "/v1/experiments", note="list")
    ask("DELETE", "/v1/experiments/grouped", note="not archived")
    ask("GET", "/v1/experiments?limit=1&status=archived", note="page")
    repeatable = {"idempotency-key": "a"}
    for note in ("key", "key again"):
        ask("POST", "/v1/experiments", {**SMALL, "name": "third"}, headers=repeatable, note=note)
    ask("POST", "/v1/experiments", {**SMALL, "name": "fourth"}, headers=repeatable, note="key of another")
    ask("GET", "/v1/experiments", headers={"x-forwarded-for": "192.0.2.1"}, note="by a proxy")
    ask("GET", "/v1/experiments", headers={"host": "evil.example"}, note="another name")
    ask("DELETE", ONE, headers={"if-match": '"1"'}, note="changed since")
    ask("DELETE", ONE, note="archived")
    ask("POST", REPORTS, {"token": many[2]["token"], "bit": 1}, note="deleted")
    ask("GET", "/v1/audit")


def wait_until_flushed(recorder: Recorder) -> None:
    """Wait until the store has the counts of all refused reports, which it gets every second."""

    async def count() -> int:
        registry = recorder.served.registry
        refused = (await registry.view(registry.experiments()[0]))["refused"]
        return int(sum(refused.values()))

    async def wait() -> None:
        for _ in range(1000):
            if await count() == REFUSED:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(await count())

    recorder.served.run(wait())


def record_reports(recorder: Recorder, token: str, others: list[str]) -> None:
    """Send reports of every kind."""
    ask = recorder.ask
    for note in ("accepted", "duplicate"):
        ask("POST", REPORTS, {"token": token, "bit": 1}, note=note)
    ask("POST", f"{ONE}/reports", {"token": others[0], "bit": 0, "epsilon": 0.5}, note="smaller epsilon")
    for note, report in (
        ("no bit", {"token": others[1]}),
        ("bit of 2", {"token": others[1], "bit": 2}),
        ("larger epsilon", {"token": others[1], "bit": 1, "epsilon": 2.0}),
        ("answer without groups", {"token": others[1], "answer": 1}),
        ("forged", {"token": "x" * 64, "bit": 1}),
        ("no token", {"bit": 1}),
        ("nothing", {}),
        ("both", {"token": token, "reports": [{"token": token, "bit": 1}]}),
        ("unknown field", {"token": token, "bits": 1}),
    ):
        ask("POST", REPORTS, report, note=note)
    batch = [{"token": others[1], "bit": 1}, {"token": token, "bit": 1}, {"token": "forged", "bit": 1}, 7, {"bit": 1}]
    ask("POST", REPORTS, {"reports": batch}, note="batch")
    ask("POST", "/v1/experiments/none/reports", {"token": token, "bit": 1}, note="unknown experiment")


def record_groups(recorder: Recorder) -> None:
    """Send requests for an experiment with groups."""
    ask, path = recorder.ask, "/v1/experiments/grouped"
    ask("POST", "/v1/experiments", {**GROUPED, "policy": "klucb-cf"}, note="grouped")
    query = ask("POST", f"{path}/decisions")
    ask("POST", f"{path}/decisions", {"participate": False}, note="no part")
    ask("POST", f"{path}/decisions", {"n": 2}, note="two")
    ask("POST", f"{path}/reports", {"token": query["token"], "bit": 1}, note="bit of groups")
    for note in ("answer", "answer again"):
        ask("POST", f"{path}/reports", {"token": query["token"], "answer": 1}, note=note)
    ask("POST", f"{ONE}/reports", {"token": query["token"], "answer": 1}, note="foreign")
    state = recorder.served.get(f"{path}/state")  # its values depend on the random question
    recorder.replies.append({"request": f"GET {path}/state", "status": state.status, "body": list(state.json)})
    ask("PATCH", path, {"status": "paused"}, note="pause")
    ask("POST", f"{path}/decisions", note="paused")


def record_keyed(recorder: Recorder, keys: dict[str, str]) -> None:
    """Send requests to a service with keys, an origin and limits."""
    from web import SMALL

    ask = recorder.ask
    for role in ("", "nobody", *keys):
        headers = {"authorization": f"Bearer {keys.get(role, 'wrong')}"} if role else {}
        for method, path in (("POST", "/v1/experiments"), ("GET", "/v1/experiments"), ("POST", f"{ONE}/decisions")):
            body = {**SMALL} if path == "/v1/experiments" and method == "POST" else b""
            ask(method, path, body, headers=headers, note=role or "no key")
    admin = {"authorization": f"Bearer {keys['admin']}"}
    ask("POST", f"{ONE}/decisions", {"n": 1000}, headers=admin, note="over the limit")
    for origin in ("https://shop.example", "https://evil.example"):
        ask("OPTIONS", f"{ONE}/decisions", headers={"origin": origin}, note=origin)
        ask("GET", "/healthz", headers={"origin": origin}, note=origin)


def record_all(folder: Path) -> list[dict[str, Any]]:
    """Return the replies to all requests, from two services in this process."""
    from registries import build_registry, storage_in
    from web import Served

    from maskedbandits.service.auth import create_key
    from maskedbandits.service.clock import Clock
    from maskedbandits.service.server.settings import Settings
    from maskedbandits.service.storage import open_store

    replies: list[dict[str, Any]] = []
    for kind in ("open", "keyed"):
        (folder / kind).mkdir()
        storage = storage_in(folder / kind)
        keys: dict[str, str] = {}
        if kind == "keyed":
            with open_store(storage) as store:
                keys = {role: create_key(store, role, role, 0)[1] for role in ("device", "read", "admin")}
        settings = Settings(cors=("https://shop.example",), key_rate=0.001, burst=10_000.0) if keys else Settings()
        clock = Clock(lambda: NOW, lambda: 0.0)
        with Served(build_registry(storage, clock), settings) as served:
            recorder = Recorder(served)
            record_keyed(recorder, keys) if keys else record_open(recorder)
            replies += recorder.replies
    return replies


def test_replies_are_those_that_were_recorded(tmp_path: Path) -> None:
    expected = json.loads(RECORDED.read_text(encoding="utf-8"))
    found = record_all(tmp_path)
    assert [each["request"] for each in found] == [each["request"] for each in expected]
    for new, old in zip(found, expected, strict=True):
        assert new == old
        assert _order(new["body"]) == _order(old["body"]), new["request"]


def _order(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


if __name__ == "__main__":
    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests), str(tests / "service")]
    import conftest  # noqa: F401 -- sets the variables of tests

    with tempfile.TemporaryDirectory() as scratch:
        RECORDED.write_text(
            json.dumps(record_all(Path(scratch)), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
