"""A service that runs while its store is upgraded needs no restart, and counts every report once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from older_stores import build_older, interrupt_upgrade, rewrite_nothing
from registries import build_registry, until
from web import SMALL, Served

from maskedbandits.service.replay import AGREES, Claim, replay
from maskedbandits.service.storage import open_store

pytest_plugins = ["service_fixtures", "store_fixtures"]

DECISIONS, REPORTS = "/v1/experiments/headline/decisions", "/v1/reports"


@pytest.fixture
def served(any_url: str, restless: None) -> Iterator[Served]:
    """A service of this release on a store of the one before."""
    build_older(any_url, 3, empty=True)
    with Served(build_registry(any_url)) as service:
        assert service.post("/v1/experiments", SMALL).status == 201
        yield service


def send(served: Served, tokens: Sequence[str]) -> list[str]:
    reply = served.post(REPORTS, {"reports": [{"token": each, "bit": 1} for each in tokens]})
    return [each["status"] for each in reply.json["results"]]


def view_at(served: Served, seq: int) -> dict[str, object]:
    """Return the state of the experiment after an event, without what differs between processes."""
    live = served.registry.get_by_id(1)
    assert live is not None
    served.run(until(lambda: live.state.seq == seq))
    view = live.view()
    return {name: view[name] for name in ("seq", "digest", "pending", "reported")}


def test_service_of_a_shared_store_names_the_remedy(served: Served, any_url: str) -> None:
    assert served.patch("/v1/experiments/headline/arms/short", {"payload": 1}).status == 200
    requests = [
        ("PATCH", "/v1/experiments/headline", {"decide_with": "backend"}),
        ("POST", "/v1/experiments", {**SMALL, "name": "other", "decide_with": "backend"}),
        ("DELETE", "/v1/experiments/headline", b""),
    ]
    for method, path, body in requests:
        if method == "DELETE":
            assert served.patch(path, {"status": "archived"}).status == 200
        reply = served.ask(method, path, body)
        assert (reply.status, reply.json["code"]) == (409, "upgrade_required")
        assert "run maskedbandits upgrade" in reply.error
    with open_store(any_url) as other:
        other.upgrade(rewrite_nothing)
    assert served.ask(*requests[1]).status == 201
    assert served.ask(*requests[2]).status == 202


def test_running_service_counts_reports_once_through_an_upgrade(served: Served, any_url: str) -> None:
    tokens = [each["token"] for each in served.post(DECISIONS, {"n": 8}).json["decisions"]]
    assert send(served, tokens[:2]) == ["accepted"] * 2
    with open_store(any_url) as other:
        interrupt_upgrade(other, "_move_ids")
        assert send(served, tokens[:4]) == [*["duplicate"] * 2, *["accepted"] * 2]
        assert other.upgrade(rewrite_nothing) == (3, 4)
        assert send(served, tokens[:6]) == [*["duplicate"] * 4, *["accepted"] * 2]
        state = view_at(served, 7)
        (row,) = other.list_experiments()
        assert replay(other, row, [Claim("service", 7, str(state["digest"]))]).list_claims(AGREES)
    assert (sum(state["reported"]), sum(state["pending"])) == (6, 2)  # type: ignore[call-overload]
    served.close()
    with Served(build_registry(any_url)) as restarted:
        assert view_at(restarted, 7) == state
        assert send(restarted, tokens) == [*["duplicate"] * 6, *["accepted"] * 2]
