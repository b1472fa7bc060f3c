"""Connections lost during COMMIT: senders still learn whether their report was accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from registries import build_registry, until
from web import SMALL, Served

from maskedbandits.service.storage import Store, StoreUnavailable, open_store
from maskedbandits.service.storage.models import NewReport

pytest_plugins = ["service_fixtures", "store_fixtures"]

DECISIONS, REPORTS = "/v1/experiments/headline/decisions", "/v1/reports"


class Losing:
    """Appends and loses the reply, or does not append at all."""

    def __init__(self, kind: type[Store], times: int, written: bool, meanwhile: Any = None) -> None:
        self._append, self.times, self.written, self.meanwhile = kind.append, times, written, meanwhile

    def __call__(self, store: Store, reports: Sequence[NewReport]) -> list[int]:
        if not self.times:
            return self._append(store, reports)
        self.times -= 1
        if self.written:
            self._append(store, reports)
        if self.meanwhile is not None:
            self.meanwhile(self._append, reports)
        raise StoreUnavailable("the connection was lost", may_be_committed=True)


@pytest.fixture
def lost(any_url: str, any_store: Store, restless: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A service on each backend, and a function that makes its commits fail."""
    with Served(build_registry(any_url)) as served:
        assert served.post("/v1/experiments", SMALL).status == 201

        def lose(times: int, *, written: bool, meanwhile: Any = None) -> Losing:
            losing = Losing(type(any_store), times, written, meanwhile)
            monkeypatch.setattr(type(any_store), "append", lambda *given: losing(*given))
            return losing

        yield served, lose, any_store


def tokens(served: Served, count: int) -> list[str]:
    return [each["token"] for each in served.post(DECISIONS, {"n": count}).json["decisions"]]


def statuses(served: Served, reported: Sequence[str], bit: int = 1) -> list[str]:
    reply = served.post(REPORTS, {"reports": [{"token": each, "bit": bit} for each in reported]})
    assert reply.status == 200, reply
    return [each["status"] for each in reply.json["results"]]


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("times", [1, 2])
def test_written_reports_are_accepted_once_after_lost_commit(lost: Any, written: bool, times: int) -> None:
    served, lose, store = lost
    before, *new = tokens(served, 4)
    assert statuses(served, [before]) == ["accepted"]
    losing = lose(times if not written else 1, written=written)
    assert statuses(served, [new[0], before, *new[1:], new[0]]) == [
        *("accepted", "duplicate", "accepted", "accepted", "duplicate")
    ]
    assert losing.times == 0
    assert store.read_heads() == {1: 5}
    assert 'maskedbandits_reports_total{status="accepted"} 4\n' in served.get("/metrics").body.decode()
    served.close()
    assert store.sum_refused(1) == {"duplicate": 2}


def test_single_report_is_accepted_after_lost_commit(lost: Any) -> None:
    served, lose, store = lost
    (token,) = tokens(served, 1)
    lose(1, written=True)
    reply = served.post(REPORTS, {"token": token, "bit": 1})
    assert (reply.status, reply.json) == (200, {"status": "accepted"})
    assert statuses(served, [token]) == ["duplicate"]
    assert store.read_heads() == {1: 2}


@pytest.mark.parametrize("written", [True, False])
def test_report_sent_again_later_is_duplicate(lost: Any, written: bool) -> None:
    served, lose, store = lost
    (token,) = tokens(served, 1)
    assert statuses(served, [token]) == ["accepted"]
    served.run(until(lambda: served.registry.get_by_id(1).state.seq == 2))
    lose(1, written=written)
    assert statuses(served, [token]) == ["duplicate"]
    assert store.read_heads() == {1: 2}


def test_one_of_two_senders_of_a_token_is_accepted(lost: Any) -> None:
    """Another process appends a report of the same decision with another bit, while ours is in doubt."""
    served, lose, store = lost
    new = tokens(served, 2)

    def elsewhere(append: Any, reports: Sequence[NewReport]) -> None:
        with open_store(served.registry.settings.storage) as other:
            assert append(other, [reports[0]._replace(bit=0)]) == [2]

    lose(1, written=False, meanwhile=elsewhere)
    assert statuses(served, new) == ["duplicate", "accepted"]
    assert [event.bit for event in store.read_events(1, 1, 9)] == [0, 1]
