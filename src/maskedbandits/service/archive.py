"""Archived experiments: neither loaded at the start nor followed, but opened when somebody asks for one.

The final state comes from the last snapshot and the events after it. A second thread loads it, so that no running
experiment waits. A few loaded experiments are kept.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from maskedbandits.errors import UserError
from maskedbandits.service.config import StoredConfig, find_fault
from maskedbandits.service.experiment import ArmTable, LiveExperiment
from maskedbandits.service.http import RequestError, retry_later
from maskedbandits.service.log_reader import LogReader
from maskedbandits.service.server import logging
from maskedbandits.service.server.warmup import list_code
from maskedbandits.service.storage import StoreUnavailable
from maskedbandits.service.storage.models import ArmRow, ExperimentRow

MAX_LOADED = 8  # archived experiments in memory with their states
MAX_DESCRIBED = 1000  # archived experiments in memory with their configuration alone
DESCRIBED_S = 5.0  # after which a description is read again, since another process may delete the experiment
LOAD_TIMEOUT_S = 10.0  # for a state; loading goes on after it
LOADING = "the state of this archived experiment is being computed: send the request again in a moment"
UNREADABLE = "this archived experiment cannot be read: see the log of the service"


class ArchivedExperiment:
    """An archived experiment without its state."""

    def __init__(self, row: ExperimentRow, arms: Sequence[ArmRow]) -> None:
        self.row, self.id, self.name, self.status, self.seq = row, row.id, row.name, row.status, row.seq
        self.config, self.arms = StoredConfig.decode(row.config), ArmTable(arms)


class Archive:
    """The archived experiments that somebody has asked for; all methods are for the event loop."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader  # not started: it only loads
        self._pool = ThreadPoolExecutor(1, "maskedbandits-archive")
        self._described: OrderedDict[str, tuple[float, ArchivedExperiment]] = OrderedDict()  # by name
        self._loaded: OrderedDict[int, LiveExperiment] = OrderedDict()  # by id, the last used one at the end
        self._loading: dict[int, asyncio.Task[LiveExperiment]] = {}

    def describe(self, row: ExperimentRow, arms: Sequence[ArmRow]) -> ArchivedExperiment:
        """Return an experiment for its row and arms, and remember it for a moment; refuse a damaged one."""
        if (fault := find_fault(row, arms)) is not None:
            logging.event("an archived experiment cannot be read", experiment=row.name, reason=fault)
            raise retry_later(503, UNREADABLE, 60.0, "experiment_unreadable")
        experiment = ArchivedExperiment(row, arms)
        self._described[row.name] = time.monotonic() + DESCRIBED_S, experiment
        while len(self._described) > MAX_DESCRIBED:
            self._described.popitem(last=False)
        return experiment

    def get(self, name: str) -> ArchivedExperiment | None:
        """Return an experiment that was described a moment ago."""
        until, experiment = self._described.get(name, (0.0, None))
        return experiment if time.monotonic() < until else None

    def drop(self, experiment: ArchivedExperiment) -> None:
        """Forget an experiment that is deleted."""
        self._described.pop(experiment.name, None)
        self._loaded.pop(experiment.id, None)

    async def load(self, archived: ArchivedExperiment) -> LiveExperiment:
        """Return an experiment with its final state; raise a `RequestError` while that takes long."""
        if archived.id in self._loaded:
            self._loaded.move_to_end(archived.id)
            return self._loaded[archived.id]
        task = self._loading.get(archived.id)
        if task is None:
            task = self._loading[archived.id] = asyncio.create_task(self._load(archived))
            task.add_done_callback(lambda done: self._finish(archived, done))
        try:
            return await asyncio.wait_for(asyncio.shield(task), LOAD_TIMEOUT_S)
        except TimeoutError:
            raise retry_later(503, LOADING, 5.0, "state_pending") from None

    async def _load(self, archived: ArchivedExperiment) -> LiveExperiment:
        loop = asyncio.get_running_loop()
        await self._reader.code_loader.load(list_code(archived.config))
        try:
            experiment = await loop.run_in_executor(self._pool, self._reader.load_archived, archived.id)
        except (StoreUnavailable, RequestError):
            raise
        except Exception as error:  # of this experiment alone
            reason = {"reason": str(error)} if isinstance(error, UserError) else {}
            logging.fault("an archived experiment cannot be read", error, experiment=archived.name, **reason)
            raise retry_later(503, UNREADABLE, 60.0, "experiment_unreadable") from error
        if experiment is None:
            raise StoreUnavailable("the service is stopping")
        return experiment

    def _finish(self, archived: ArchivedExperiment, task: asyncio.Task[LiveExperiment]) -> None:
        """Keep a loaded experiment, or the fact that it could not be loaded to those who wait."""
        self._loading.pop(archived.id, None)
        if task.cancelled() or task.exception() is not None:
            return
        self._loaded[archived.id] = task.result()
        while len(self._loaded) > MAX_LOADED:
            self._loaded.popitem(last=False)

    async def stop(self) -> None:
        """Stop loading."""
        self._reader.stop()
        for task in [*self._loading.values()]:
            task.cancel()
        await asyncio.gather(*self._loading.values(), return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._pool.shutdown()
        self._reader.close()
