"""Registries of experiments on real stores, for tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from maskedbandits.service.clock import Clock
from maskedbandits.service.experiment import IssuedDecision, LiveExperiment
from maskedbandits.service.pending import round_expiry
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.schemas import ExperimentConfig, NewArm
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.storage import open_store
from maskedbandits.service.storage.models import NewReport
from maskedbandits.service.tokens import draw_id


def storage_in(folder: Path) -> str:
    """Return the URL of a new store that does not wait for the disk, since no test cuts the power."""
    url = f"sqlite:///{folder / 'bandits.db'}?durable=no"
    open_store(url, create=True).close()
    return url


def config(name: str = "headline", arms: int = 3, **others: Any) -> ExperimentConfig:
    values = {"epsilon": 1.0, "policy": "klucb-cf", **others}
    return ExperimentConfig(name, [NewArm(f"arm {place}") for place in range(arms)], **values)


def build_registry(storage: str, clock: Clock | None = None, **settings: Any) -> ExperimentRegistry:
    """Build a registry that polls often; it has not started."""
    return ExperimentRegistry(Settings(storage=storage, poll=0.02, **settings), clock=clock)


@asynccontextmanager
async def open_registry(storage: str, clock: Clock | None = None, **settings: Any) -> AsyncIterator[ExperimentRegistry]:
    registry = build_registry(storage, clock, **settings)
    await registry.start()
    try:
        yield registry
    finally:
        await registry.stop()


def report_of(live: LiveExperiment, issued: IssuedDecision, bit: int, epsilon: int | None = None) -> NewReport:
    """Return the report of a decision, as the service builds it from a token."""
    expires = round_expiry(issued.expires, issued.expires - issued.issued)
    own = live.epsilon if epsilon is None else epsilon
    decision = draw_id()
    return NewReport(
        live.id, issued.arm, bit, own, issued.probability, issued.flags, decision, expires, issued.issued // 3600
    )


async def reported(registry: ExperimentRegistry, live: LiveExperiment, count: int) -> list[NewReport]:
    """Decide and report ``count`` times, with random bits."""
    rows = [report_of(live, issued, os.urandom(1)[0] & 1) for issued in live.decide(count)]
    assert all(answer > 0 for answer in await registry.log_writer.append(rows))
    return rows


async def until(found: Any, seconds: float = 10.0) -> None:
    """Wait until a condition holds."""
    for _ in range(int(seconds / 0.01)):
        if found():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")
