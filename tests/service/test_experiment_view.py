"""The view of an experiment: of one moment, computed in pieces, with the outcomes of decisions."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from registries import config, open_registry, report_of, reported, storage_in, until

from maskedbandits.policies import Policy
from maskedbandits.service import experiment as module
from maskedbandits.service import log_reader
from maskedbandits.service.clock import Clock
from maskedbandits.service.experiment import LiveExperiment
from maskedbandits.service.pending import count_issued, count_missing
from maskedbandits.service.server.metrics import OUTCOMES
from maskedbandits.service.storage import open_store
from maskedbandits.service.storage.models import EventRow

LOST = {"issued": 4, "reported": 0, "pending": 0, "missing": 4}


def test_view_is_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use() -> None:
        async with open_registry(storage_in(tmp_path)) as registry:
            live = await registry.create(config(arms=2))
            whole, added = Policy.estimates, EventRow(2, "arm", 2, None, None, None, None, None, 0, "{}")

            def meanwhile(self: Policy) -> Any:
                found = whole(self)
                live.state.apply_events([added])
                return found

            monkeypatch.setattr(Policy, "estimates", meanwhile)
            view = live.view()
            assert live.policy.arms == 3
            assert {name: len(each) for name, each in view.items() if isinstance(each, list)} == dict.fromkeys(
                ("arms", "estimates", "intervals", "suspects", "probabilities", "pending", "reported"), 2
            )

    asyncio.run(use())


@pytest.mark.parametrize(("arms", "total"), [(3, 1000), (2_000, 1000), (65_536, 64)])
def test_view_samples_posterior_in_pieces(arms: int, total: int) -> None:
    sizes: list[int] = []

    def probabilities(draws: int) -> Any:
        sizes.append(draws)
        return np.full(arms, 1 / arms)

    policy: Any = SimpleNamespace(arms=arms, kind=SimpleNamespace(draws_from="posterior"), probabilities=probabilities)
    assert sum(module.estimate_probabilities(policy)) == pytest.approx(1.0)
    assert sum(sizes) == total
    assert max(sizes) * arms <= module.MAX_WORK


def test_expired_decisions_are_missing(tmp_path: Path) -> None:
    now = [1_800_000_000.0]

    async def use() -> None:
        async with open_registry(storage_in(tmp_path), Clock(lambda: now[0], lambda: 0.0)) as registry:
            live = await registry.create(config(report_after=60, expires_after=3660))
            issued = live.decide(7)
            arms = [each.arm for each in issued]
            assert await registry.log_writer.append([report_of(live, each, 1) for each in issued[:3]]) == [2, 3, 4]
            await until(lambda: sum(live.state.reported) == 3)
            values = [arms.count(arm) for arm in range(3)]
            view = await registry.view(live)  # without waiting for a flush
            assert view["issued"] == values
            await until(lambda: sum(_issued(registry, live)) == 7)
            view = await registry.view(live)
            assert view["issued"] == values
            assert view["reported"] == [arms[:3].count(arm) for arm in range(3)]
            assert view["pending"] == [arms[3:].count(arm) for arm in range(3)]
            assert view["missing"] == [0, 0, 0]
            now[0] += 7260  # the next full hour after they expire, and a minute
            view = await registry.view(live)
            assert view["pending"] == [0, 0, 0]
            assert view["missing"] == [arms[3:].count(arm) for arm in range(3)]
            assert await registry.outcomes(registry.experiments()) == {
                "headline": {"issued": 7, "reported": 3, "pending": 0, "missing": 4}
            }

    asyncio.run(use())


def test_concurrent_decisions_are_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = storage_in(tmp_path)

    async def use() -> None:
        async with open_registry(storage) as registry:
            live, whole = await registry.create(config()), LiveExperiment.view

            def meanwhile(self: LiveExperiment) -> dict[str, Any]:
                found = whole(self)
                self.decide(5)
                with open_store(storage) as store:
                    while sum(store.sum_issued(self.id).values()) < 5:
                        time.sleep(0.01)
                return found

            monkeypatch.setattr(LiveExperiment, "view", meanwhile)
            assert (await registry.view(live))["missing"] == [0, 0, 0]

    asyncio.run(use())


def _issued(registry: Any, live: Any) -> list[int]:
    """Return the counts of decisions in the store."""
    return list(registry.log_reader.store.sum_issued(live.id).values())


def test_missing_is_never_negative() -> None:
    assert count_missing([3, 0, 5], [1, 1, 2], [1, 0, 4]) == [1, 0, 0]


def test_issued_is_at_least_reported_and_pending() -> None:
    assert count_issued([3, 0, 5], [1, 1, 2], [1, 0, 4]) == [3, 1, 6]


def test_unflushed_remote_decisions_count_as_issued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reports are in the log, but only the process itself knows its decisions."""
    monkeypatch.setattr(log_reader, "SECOND", 3600.0)  # counts are flushed at the start, and then hours later
    storage = storage_in(tmp_path)

    async def use() -> None:
        async with open_registry(storage) as one, open_registry(storage) as other:
            live = await one.create(config())
            await reported(one, live, 5)
            await until(lambda: all(registry.log_reader.last_seq(live.id) == 6 for registry in (one, other)))
            for registry in (one, other):
                view = await registry.view(registry.log_reader.by_name["headline"])
                assert view["issued"] == view["reported"]
                assert sum(view["issued"]) == 5
                outcomes = {"issued": 5, "reported": 5, "pending": 0, "missing": 0}
                assert await registry.outcomes(registry.experiments()) == {"headline": outcomes}

    asyncio.run(use())


def test_archived_experiment_has_nothing_pending(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_registry(storage_in(tmp_path)) as registry:
            plain = await registry.create(config())
            asking = await registry.create(config("kinds", groups=["young", "old"]))
            for live in (plain, asking):
                live.decide(4)
                assert sum((await registry.view(live))["pending"]) == 4
                await registry.change(live, {"status": "archived"})
                view = await registry.view(live)
                assert {name: sum(view[name]) for name in OUTCOMES} == LOST
            assert await registry.outcomes(registry.experiments()) == {}  # of experiments that go on

    asyncio.run(use())
