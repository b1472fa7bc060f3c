"""Readiness of the whole service: all workers decide, or the reasons why something else does not work now.

A service is ready when every worker that accepts requests can decide. While the store is away decisions go on, so the
service stays ready: a load balancer that took it out would turn degraded answers into none.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from maskedbandits.service.server.worker_memory import WorkerMemory, WorkerState

if TYPE_CHECKING:
    from maskedbandits.service.registry import ExperimentRegistry

PUBLISH_EVERY_S = 1.0
PAGE_BYTES = mmap.PAGESIZE
CHECK_EVERY_S = 0.02  # while workers wait for each other
FIRST = 0  # the worker that answers while the service starts


class Reason(NamedTuple):
    """A reason why a service that decides is degraded: a stable code, and one line for a person."""

    code: str
    text: str


def list_reasons(memory: WorkerMemory) -> list[Reason]:
    """Return the reasons why the service is degraded; it is fully ready if there are none."""
    found = []
    if any(memory.get_all("store_lost_at")):
        found.append(Reason("store_away", "The store is unreachable. Decisions go on, reports are refused until then."))
    if any(memory.get_all("log_failed_at")):
        found.append(Reason("log_not_followed", "A worker learns from no reports for now. See the log of the service."))
    absent = memory.get_all("state").count(WorkerState.ABSENT)
    if absent:
        found.append(
            Reason("worker_absent", f"{absent} of {memory.workers} workers are being started again. The others answer.")
        )
    quarantined, compiling = (int(max(memory.get_all(name))) for name in ("quarantined", "compiling"))
    if quarantined:
        text = f"Experiments that cannot be read: {quarantined}. See the log of the service."
        found.append(Reason("experiment_quarantined", text))
    if compiling:
        found.append(Reason("experiment_compiling", f"Experiments whose policy is being compiled: {compiling}."))
    return found


async def wait_for_others(memory: WorkerMemory) -> None:
    """Wait, as the first worker, until no other is starting; each is then ready, or absent and accepts nothing."""
    while any(memory.get_state(other) == WorkerState.STARTING for other in range(memory.workers) if other != FIRST):
        await asyncio.sleep(CHECK_EVERY_S)


def has_first_started(memory: WorkerMemory) -> bool:
    """Tell whether the first worker no longer refuses requests because the service is starting, or has died."""
    return memory.get_state(FIRST) != WorkerState.STARTING


async def wait_until_compiled(registry: ExperimentRegistry) -> None:
    """Wait until no policy of a stored experiment is being compiled; those that fail are quarantined."""
    while registry.count_compiling():
        await asyncio.sleep(CHECK_EVERY_S)


def publish(memory: WorkerMemory, registry: ExperimentRegistry) -> None:
    """Write the condition of this worker where all workers see it."""
    memory.set("store_lost_at", registry.store_outage.since or 0.0)
    memory.set("log_failed_at", registry.log_reader.log_outage.since or 0.0)
    memory.set("log_read_at", registry.log_reader.read_at)
    memory.set("oldest_event_at", registry.log_reader.compactor.oldest_at)
    memory.set("retention_s", 86_400.0 * registry.settings.retention_days)
    memory.set("quarantined", registry.count_quarantined())
    memory.set("compiling", registry.count_compiling())
    memory.set("queued", registry.count_queued())
    memory.set("cpu_seconds", time.process_time())
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # no file can be opened now: the last numbers stay
            memory.set("resident_bytes", int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES)
            memory.set("open_files", len(os.listdir("/proc/self/fd")))  # noqa: PTH208 -- without a Path for each


async def publish_often(memory: WorkerMemory, registry: ExperimentRegistry) -> None:
    """Publish the condition of this worker every second."""
    while True:
        publish(memory, registry)
        await asyncio.sleep(PUBLISH_EVERY_S)
