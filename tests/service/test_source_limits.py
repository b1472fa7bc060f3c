"""Source limits: of 1,000 consecutive reports, few come from one source."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from registries import build_registry, open_registry, storage_in, until
from web import SMALL, Client, Reply, Served

from maskedbandits.service import source_limits
from maskedbandits.service.app import App
from maskedbandits.service.auth import create_key
from maskedbandits.service.clock import Clock
from maskedbandits.service.config import find_fault
from maskedbandits.service.recovery import SNAPSHOT_KERNEL
from maskedbandits.service.replay import Claim, replay
from maskedbandits.service.schemas import SourceLimit
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.source_limits import SourceHasher, SourceWindow
from maskedbandits.service.state import ExperimentState, get_mask
from maskedbandits.service.storage import Store, StoreUnavailable, open_store
from maskedbandits.service.storage.backup import backup, restore
from maskedbandits.service.storage.models import EventRow
from maskedbandits.service.tokens import FLAG_HELD_BACK
from naive.sources import NaiveRing, most_of_one

pytest_plugins = ["postgres_fixtures", "service_fixtures"]

ONE = "/v1/experiments/headline"
DECISIONS, REPORTS, STATE = f"{ONE}/decisions", "/v1/reports", f"{ONE}/state"
LIAR = "203.0.113.7"
LIMITS = st.none() | st.integers(1, 4)
NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.tuples(st.tuples(NAMES, NAMES, NAMES), st.integers(0, 3), st.booleans()), max_size=60)


# The ring


@given(st.tuples(LIMITS, LIMITS, LIMITS), st.integers(2, 9), STEPS)
def test_source_window_matches_twin(limits: tuple[int | None, ...], window: int, steps: list[Any]) -> None:
    """Reports are settled in any order, and some of them are not new."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_limits, "SOURCE_WINDOW", window)
        ring, twin, limit = SourceWindow(), NaiveRing(window), SourceLimit(*limits)
        for names, place, is_new in steps:
            source = tuple(f"{kind}{name}".encode() for kind, name in enumerate(names))
            assert ring.enter(source, limit) == twin.enter(tuple(each.decode() for each in source), limits)
            if len(twin.writing) > place:
                done = twin.writing[place]
                ring.settle(tuple(each.encode() for each in done), is_new=is_new)
                twin.settle(done, is_new)
    for kind, most in enumerate(limits):
        assert most is None or most_of_one(twin.stored, kind, window) <= most


def test_limit_applies_to_1000_consecutive_reports() -> None:
    ring, limit, used = SourceWindow(), SourceLimit(address=2), []
    for number in range(3000):
        source = (b"a" if number % 3 == 0 else b"%d" % number, b"k", b"s")
        if ring.enter(source, limit):
            ring.settle(source, is_new=True)
            used.append(source[0])
    assert [place for place, name in enumerate(used) if name == b"a"] == [0, 3, 1000, 1003, 2000, 2003]


def test_source_digest_is_of_one_process() -> None:
    one, other = SourceHasher(), SourceHasher()
    found = one.hash_source("203.0.113.0/24", "shop-web", 5)
    assert found == one.hash_source("203.0.113.0/24", "shop-web", 5)
    assert [len(each) for each in found] == [16, 16, 16]
    assert not set(found) & set(other.hash_source("203.0.113.0/24", "shop-web", 5))
    assert len(set(one.hash_source("5", "5", 5))) == 3  # a key that is called as an address is none


# The service


class Proxied(Served):
    """A service behind a local proxy; each request has another address."""

    def send(self, method: str, path: str, body: Any = b"", address: str = "198.51.100.1", **more: Any) -> Reply:
        return self.ask(method, path, body, client="127.0.0.1", headers={"x-forwarded-for": address}, **more)

    def create(self, **changes: Any) -> None:
        reply = self.send("POST", "/v1/experiments", {**SMALL, **changes})
        assert reply.status == 201, reply

    def tokens(self, n: int) -> list[str]:
        return [each["token"] for each in self.send("POST", DECISIONS, {"n": n}).json["decisions"]]

    def report(self, token: str, bit: int = 1, address: str = LIAR) -> str:
        return self.send("POST", REPORTS, {"token": token, "bit": bit}, address).verdict

    def state(self) -> dict[str, Any]:
        """The state once all that is written has been folded."""

        def heads(store: Store) -> dict[int, int]:
            return store.read_heads()

        wanted = self.run(wait_for(self.registry.call_store(heads)))
        self.run(until(lambda: all(live.state.seq >= wanted[live.id] for live in self.registry.experiments())))
        return dict(self.send("GET", STATE).json)


async def wait_for(request: Any) -> Any:
    return await request


@pytest.fixture
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store in a file, unless a test asks for PostgreSQL."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return storage_in(tmp_path)
    url = str(request.getfixturevalue("postgres_server").place())
    open_store(url, create=True).close()
    return url


@pytest.fixture
def now() -> list[float]:
    return [1_800_000_000.0]


@pytest.fixture
def proxied(storage: str, store: Store, now: list[float], restless: None) -> Iterator[Proxied]:
    _, key = create_key(store, "admin", "shop-web", 0)
    registry = build_registry(storage, Clock(wall=lambda: now[0], steady=lambda: 0.0))
    with Proxied(registry, Settings(trusted_proxies=("127.0.0.0/8",))) as service:
        service.client.key = key
        yield service


def reports(store: Store) -> list[EventRow]:
    return [event for event in store.read_events(1, 0, 10_000) if event.kind == "report"]


def held(event: EventRow) -> bool:
    return bool((event.flags or 0) & FLAG_HELD_BACK)


def mean(events: list[EventRow], arm: int) -> float:
    """The estimate of an arm by all reports that are not held back: their debiased mean."""
    bits = [event.bit or 0 for event in events if event.arm == arm and not held(event)]
    mask = get_mask(1_000_000)
    return min(1.0, max(0.0, (sum(bits) / len(bits) - (1 - mask.p00)) / mask.slope))


def test_burst_from_one_address_has_little_effect(proxied: Proxied, store: Store) -> None:
    """Without a limit an experiment learned from all 1,000."""
    proxied.create(floor=0.25, source_limit={"address": 20})
    tokens = proxied.tokens(400) + proxied.tokens(1000)
    for number, token in enumerate(tokens[:300]):
        assert proxied.report(token, int(number % 10 < 6), f"100.{number // 256}.{number % 256}.1") == "accepted"
    assert (proxied.state()["observations"], proxied.state()["held_back"]) == (300, 0)
    lies = [{"token": token, "bit": 0} for token in tokens[400:]]
    for start in range(0, 1000, 100):
        address = f"203.0.113.{start // 100}"  # one block
        reply = proxied.send("POST", REPORTS, {"reports": lies[start : start + 100]}, address)
        assert reply.json == {"results": [{"status": "accepted"}] * 100}
    state = proxied.state()
    assert (state["observations"], state["held_back"]) == (320, 980)
    assert [sum(state[name]) for name in ("issued", "reported", "pending", "missing")] == [1400, 1300, 100, 0]
    for number, token in enumerate(tokens[300:400]):  # the experiment learns from others as before
        assert proxied.report(token, 1, f"100.3.{number}.1") == "accepted"
    state, written = proxied.state(), reports(store)
    assert (state["observations"], state["held_back"]) == (420, 980)
    assert state["estimates"] == pytest.approx([mean(written, arm) for arm in (0, 1)])
    assert [held(event) for event in written] == [False] * 320 + [True] * 980 + [False] * 100


def test_held_back_reports_are_shown(proxied: Proxied) -> None:
    proxied.create(source_limit={"address": 1})
    live = proxied.registry.experiments()[0]
    assert proxied.run(proxied.app.broadcaster.refresh(live)).alerts == []
    for token in proxied.tokens(11):
        proxied.report(token)
    proxied.state()
    text = proxied.send("GET", "/metrics").body.decode()
    assert 'maskedbandits_reports_held_back{experiment="headline"} 10' in text.splitlines()
    seen = proxied.app.broadcaster.feeds[live.id]
    seen.at = -10.0  # long enough ago to look again
    assert b'"held_back":10' in proxied.run(proxied.app.broadcaster.refresh(live)).event
    assert [each["kind"] for each in seen.alerts] == ["held_back"]


def test_held_back_report_gets_usual_reply(proxied: Proxied) -> None:
    proxied.create(source_limit={"address": 1})
    answers = []
    for token in proxied.tokens(3):
        replies = [proxied.send("POST", REPORTS, {"token": token, "bit": 1}, LIAR) for _ in range(2)]
        answers.append([(reply.status, reply.headers, reply.body) for reply in replies])
    assert answers[0] == answers[1] == answers[2]
    assert [json.loads(body)["status"] for _, _, body in answers[2]] == ["accepted", "duplicate"]
    assert proxied.state()["held_back"] == 2


def test_held_back_state_survives_replay_and_restore(
    proxied: Proxied, store: Store, storage: str, tmp_path: Path
) -> None:
    proxied.create(source_limit={"address": 2})
    for token in proxied.tokens(20):
        proxied.report(token)
    state = proxied.state()
    assert (state["observations"], state["held_back"]) == (2, 18)
    (row,) = store.list_experiments()
    found = replay(store, row, [Claim("live", state["seq"], state["digest"])])
    assert (found.holds, found.digest, found.reports) == (True, state["digest"], 20)
    proxied.close()
    kept = store.list_snapshots(1, SNAPSHOT_KERNEL)  # the next start begins with it
    assert kept == [(state["seq"], state["digest"])]
    backup(store, tmp_path / "copy")
    restored = f"sqlite:///{tmp_path / 'restored.db'}?durable=no"
    restore(tmp_path / "copy", restored)
    fields = ("digest", "observations", "reported", "held_back")
    with open_store(restored) as copy:
        assert reports(copy) == reports(store)
    for url in (storage, restored):
        with Served(build_registry(url)) as again:
            (live,) = again.registry.experiments()
            assert {name: live.view()[name] for name in fields} == {name: state[name] for name in fields}


def test_snapshot_without_held_back_count_is_refused(proxied: Proxied) -> None:
    proxied.create(source_limit={"address": 1})
    for token in proxied.tokens(3):
        proxied.report(token)
    proxied.state()
    state = proxied.registry.experiments()[0].state
    seq, body, digest = state.snapshot()
    assert ExperimentState.from_snapshot(body, seq, digest).held_back == 2
    state.held_back = 0
    with pytest.raises(Exception, match="damaged"):
        ExperimentState.from_snapshot(state.snapshot()[1], seq, digest)


def test_keys_and_seconds_are_sources(proxied: Proxied, store: Store, now: list[float]) -> None:
    """After a restart or a change, earlier reports do not count."""
    proxied.create(source_limit={"key": 2, "second": 4})
    _, other = create_key(store, "device", "other", 0)
    proxied.renew_keys()
    marks = []
    for number, token in enumerate(proxied.tokens(12)):
        now[0] += number % 4 == 0
        key = other if number % 2 else proxied.client.key
        headers = {"authorization": f"Bearer {key}", "x-forwarded-for": f"100.{number}.0.1"}
        proxied.ask("POST", REPORTS, {"token": token, "bit": 1}, client="127.0.0.1", headers=headers)
        marks.append(held(reports(store)[-1]))
    assert marks == [False] * 4 + [True] * 8  # two of each key
    assert proxied.send("PATCH", ONE, {"source_limit": {"second": 3}}).status == 200
    now[0] += 100
    for number, token in enumerate(proxied.tokens(8)):
        now[0] += number == 5
        proxied.report(token, address=f"100.{number}.0.1")
    assert [held(event) for event in reports(store)[12:]] == [False] * 3 + [True] * 2 + [False] * 3


def test_duplicate_does_not_count_for_source(proxied: Proxied, store: Store) -> None:
    """Duplicates and failed writes do not count for a source."""
    proxied.create(source_limit={"address": 2})
    first, second, third, fourth = proxied.tokens(4)
    assert proxied.report(first) == "accepted"
    assert [proxied.report(first) for _ in range(5)] == ["duplicate"] * 5
    writer = proxied.registry.log_writer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "append", _gone)
        assert proxied.send("POST", REPORTS, {"token": second, "bit": 1}, LIAR).status == 503
    batch = [{"token": token, "bit": 1} for token in (first, second, third, fourth)]
    replies = proxied.send("POST", REPORTS, {"reports": batch}, LIAR).json["results"]
    assert [each["status"] for each in replies] == ["duplicate", "accepted", "accepted", "accepted"]
    # In the batch the duplicate counts until it is known to be one.
    assert [held(event) for event in reports(store)] == [False, True, True, True]
    assert proxied.report(proxied.tokens(1)[0]) == "accepted"
    assert not held(reports(store)[-1])


def _gone(rows: Any) -> Any:
    raise StoreUnavailable("as when the disk is full")


def test_groups_have_source_limits(proxied: Proxied, store: Store) -> None:
    proxied.create(groups=["young", "old"], source_limit={"address": 3})
    batch = [{"token": token, "answer": 1} for token in proxied.tokens(10)]
    assert proxied.send("POST", REPORTS, {"reports": batch}).status == 200
    state = proxied.state()
    assert (state["held_back"], state["reported"], state["pending"]) == (7, [10], [0])
    assert [held(event) for event in reports(store)] == [False] * 3 + [True] * 7
    found = replay(store, store.list_experiments()[0], [Claim("live", state["seq"], state["digest"])])
    assert found.holds


@pytest.mark.parametrize("storage", ["sqlite", "postgresql"], indirect=True)
def test_processes_limit_sources_separately(proxied: Proxied, store: Store, storage: str) -> None:
    proxied.create(source_limit={"address": 2})
    tokens = proxied.tokens(10)
    for token in tokens[:5]:
        proxied.report(token)

    async def elsewhere() -> dict[str, Any]:
        async with open_registry(storage) as registry:
            app = App(Settings())
            await app.open(registry)
            client = Client(app, proxied.client.key)
            for token in tokens[5:]:
                assert (await client.ask("POST", REPORTS, {"token": token, "bit": 1}, client=LIAR)).status == 200
            (live,) = registry.experiments()
            await until(lambda: live.state.seq == 11)
            found = live.view()
            await app.close()
            return found

    other, state = proxied.run(elsewhere()), proxied.state()
    assert [held(event) for event in reports(store)] == ([False] * 2 + [True] * 3) * 2
    assert (other["digest"], other["held_back"]) == (state["digest"], state["held_back"])
    assert state["held_back"] == 6


def test_sources_are_never_written(
    proxied: Proxied, tmp_path: Path, now: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    proxied.create(source_limit={"address": 1, "key": 3, "second": 3})
    for token in proxied.tokens(3):
        proxied.report(token)
    proxied.state()
    gc.collect()
    rings = [each for each in gc.get_objects() if type(each) is SourceWindow]
    assert any(any(vars(ring).values()) for ring in rings)
    kept = "".join(repr(vars(ring)) for ring in rings)
    proxied.close()
    written = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    logged = capsys.readouterr()
    for secret in ("203.0.113", "100.64", str(int(now[0]))):
        assert secret not in kept + logged.out + logged.err
        assert secret.encode() not in written
    assert "shop-web" not in kept + logged.out + logged.err


# The setting


def test_source_limit_can_change(served: Served) -> None:
    assert served.get(ONE).json["source_limit"] is None
    for limit in ({"address": 999, "second": 1}, {"key": 7}, None):
        assert served.patch(ONE, {"source_limit": limit}).json["source_limit"] == limit
        assert served.get(ONE).json["source_limit"] == limit
    assert served.post("/v1/experiments", {**SMALL, "name": "b", "source_limit": {"key": 7}}).status == 201
    assert served.patch("/v1/experiments/b", {"floor": 0.1}).json["source_limit"] == {"key": 7}


@pytest.mark.parametrize(
    ("limit", "complaint"),
    [
        ({}, "source_limit is empty: give address, key or second, or null for no limit"),
        ({"address": 0}, "Expected `int` >= 1 - at `$.source_limit.address`"),
        ({"key": 1000}, "Expected `int` <= 999 - at `$.source_limit.key`"),
        ({"second": 2.5}, "Expected `int | null`, got `float` - at `$.source_limit.second`"),
        ({"adress": 5}, "no field of source_limit is called 'adress'; did you mean 'address'?"),
        (20, "Expected `object | null`, got `int` - at `$.source_limit`"),
    ],
)
@pytest.mark.parametrize("ask", ["post", "patch"])
def test_invalid_source_limit_is_refused(served: Served, ask: str, limit: Any, complaint: str) -> None:
    if ask == "post":
        reply = served.post("/v1/experiments", {**SMALL, "name": "b", "source_limit": limit})
    else:
        reply = served.patch(ONE, {"source_limit": limit})
    assert (reply.status, complaint in reply.error) == (400, True), reply
    assert served.get(ONE).json["source_limit"] is None


@pytest.mark.parametrize("limit", [7, [], {}, {"address": 0}, {"key": "x"}])
def test_damaged_source_limit_is_named(served: Served, store: Store, limit: Any) -> None:
    (row,) = store.list_experiments()
    arms = store.list_arms(row.id)
    assert find_fault(row, arms) is None
    config = {**json.loads(row.config), "source_limit": limit}
    fault = find_fault(row._replace(config=json.dumps(config)), arms)
    assert fault is not None
    assert "its configuration is damaged" in fault
