"""All experiments of a store in one process: the interface for the handlers of requests.

Decisions are made at once, from the state in this process. Everything else goes to one of two threads: the log writer
(``log_writer.py``) and the log reader (``log_reader.py``).
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from maskedbandits.errors import UserError
from maskedbandits.service.clock import Clock
from maskedbandits.service.config import StoredConfig, check_changed, check_limits
from maskedbandits.service.experiment import LiveExperiment
from maskedbandits.service.http import RequestError, retry_later
from maskedbandits.service.log_reader import LogReader
from maskedbandits.service.log_writer import LogWriter
from maskedbandits.service.pending import count_issued, count_missing
from maskedbandits.service.schemas import ExperimentConfig, NewArm
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.server.warmup import CodeLoader, list_code
from maskedbandits.service.storage import Conflict, Store, StoreUnavailable, open_store
from maskedbandits.service.storage.models import Change, ExperimentRow, NewArmRow, Visit

APPLY_TIMEOUT_S = 10.0  # for a durable change to be applied here
CATCH_UP_TIMEOUT_S = 1.0  # after which a request is answered from what is known
PAUSE_S = 0.005
BEHIND = "the logs could not be read to their end, so this experiment may be missing: send the request again"
QUARANTINED = "this experiment cannot be read: see the log of the service, which tries again"


class ExperimentRegistry:
    """The experiments of a store, live in this process."""

    def __init__(self, settings: Settings, process: str = "", clock: Clock | None = None) -> None:
        self.settings = settings
        self.process = process or secrets.token_hex(8)
        self.clock = clock or Clock()
        self.code_loader = CodeLoader()
        self.log_reader = LogReader(self._open_store, self.process, self.clock, settings, self.code_loader)
        self._log_writer: LogWriter | None = None
        self._has_started = False

    def _open_store(self) -> Store:
        return open_store(self.settings.storage)

    async def start(self) -> None:
        """Read the logs, then start to follow them and to write."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.log_reader.start)
        reader = self.log_reader
        self._log_writer = LogWriter(self._open_store, loop, reader.wake, self.settings.queue, reader.last_seq)
        self._log_writer.start()
        self._has_started = True

    async def stop(self) -> None:
        """Write everything that is waiting, and stop."""
        loop = asyncio.get_running_loop()
        self._has_started = False
        self.code_loader.stop()
        if self._log_writer is not None:
            await loop.run_in_executor(None, self._log_writer.stop)
        await loop.run_in_executor(None, self.log_reader.stop)

    @property
    def is_ready(self) -> bool:
        """Whether decisions and reports are accepted now."""
        return self._has_started and self.trouble is None

    @property
    def trouble(self) -> Exception | None:
        """The error that prevents work now, if any."""
        writing = self._log_writer.trouble if self._log_writer is not None else None
        return writing or self.log_reader.trouble

    @property
    def log_writer(self) -> LogWriter:
        """The log writer, once the registry has started."""
        if self._log_writer is None:
            raise StoreUnavailable("the service has not started yet")
        return self._log_writer

    # Experiments

    def get(self, name: str) -> LiveExperiment | None:
        """Return an experiment by name, if this process knows it."""
        return self.log_reader.by_name.get(name)

    def get_by_id(self, experiment_id: int) -> LiveExperiment | None:
        """Return an experiment by id, if this process knows it."""
        return self.log_reader.by_id.get(experiment_id)

    async def resolve(self, name: str) -> LiveExperiment:
        """Return an experiment by name, or raise a `RequestError`; another process may have just created it."""
        experiment = self.get(name)
        if experiment is None and self.is_quarantined(name):
            raise retry_later(503, QUARANTINED)
        has_caught_up = experiment is not None or await self.catch_up()
        if experiment is None:
            experiment = self.get(name)
        if experiment is None and self.is_quarantined(name):
            raise retry_later(503, QUARANTINED)
        if experiment is None and not has_caught_up:
            raise retry_later(503, BEHIND)
        if experiment is None:
            raise RequestError(404, "no such experiment: GET /v1/experiments lists all")
        return experiment

    def is_quarantined(self, which: str | int) -> bool:
        """Tell whether an experiment, by its name or id, cannot be followed now."""
        found = self.log_reader.quarantined
        return which in found if isinstance(which, int) else which in [each.name for each in [*found.values()]]

    async def catch_up(self) -> bool:
        """Read the logs to their end, since another process may have just written; tell whether that worked."""
        wanted = self.log_reader.rounds + 2  # one may be under way
        for _ in range(int(CATCH_UP_TIMEOUT_S / PAUSE_S)):
            self.log_reader.wake()
            await asyncio.sleep(PAUSE_S)
            if self.log_reader.rounds >= wanted:
                return True
        return False

    def experiments(self) -> list[LiveExperiment]:
        """Return all experiments, the oldest first."""
        return sorted(self.log_reader.by_name.values(), key=lambda experiment: experiment.id)

    # Changes

    async def create(self, config: ExperimentConfig) -> LiveExperiment:
        """Create an experiment; a policy that is new to this machine is compiled first."""
        loop, arms = asyncio.get_running_loop(), [_to_store(arm) for arm in config.arms]
        if not self.settings.simulation:
            check_limits(config.report_after, config.expires_after)
        stored = await loop.run_in_executor(None, StoredConfig.from_request, config)  # other requests need not wait
        await self.code_loader.load(list_code(stored))
        await loop.run_in_executor(None, stored.check_memory, len(arms))
        names = [arm.name for arm in config.arms]
        default = 0 if config.default_arm is None else names.index(config.default_arm)
        hour = self.clock.hour()
        row = await self.call_store(
            lambda store: store.create_experiment(config.name, stored.encode(), arms, default, hour)
        )
        return await self._wait_until_applied(row)

    async def change(self, experiment: LiveExperiment, changes: dict[str, Any]) -> LiveExperiment:
        """Change the status or the configuration of an experiment."""
        hour, values = self.clock.hour(), dict(changes)
        times = {name: values.get(name, getattr(experiment.config, name)) for name in ("report_after", "expires_after")}
        if times.keys() & values.keys() and not self.settings.simulation:
            check_limits(**times)
        status = values.pop("status", None)
        default = experiment.arms.find_open(values.pop("default_arm")) if "default_arm" in values else None
        steps: list[Change] = []
        if values or default is not None:  # the store merges it, since another process may have changed something else
            steps.append(Change("config", hour, config=json.dumps(values), default_arm=default))
        if status is not None:
            steps.append(Change("status", hour, status=status))
        return await self._apply_changes(experiment, *steps) if steps else experiment

    async def add_arm(self, experiment: LiveExperiment, arm: NewArm) -> LiveExperiment:
        """Add an arm, which is explored from now on."""
        if arm.name in experiment.arms.index:
            raise Conflict(f"the name {arm.name!r} is or was used by another arm: give a new name")
        stored = _to_store(arm)
        change = Change("arm", self.clock.hour(), name=stored.name, payload=stored.payload)
        return await self._apply_changes(experiment, change)

    async def retire(self, experiment: LiveExperiment, name: str) -> LiveExperiment:
        """Retire an arm, which is never shown again."""
        arm = experiment.arms.find_open(name)
        if len(experiment.arms.open) == 1:
            raise UserError(f"{name!r} is the last open arm: add another first, or archive the experiment")
        if arm == experiment.row.default_arm:
            others = [experiment.arms.names[each] for each in experiment.arms.open if each != arm]
            raise UserError(f"{name!r} is the default arm: make another the default first, such as {others[0]!r}")
        return await self._apply_changes(experiment, Change("retire", self.clock.hour(), place=arm))

    async def _apply_changes(self, experiment: LiveExperiment, *changes: Change) -> LiveExperiment:
        check = check_changed if any(change.kind in ("arm", "config") for change in changes) else None
        return await self._wait_until_applied(
            await self.call_store(lambda store: store.change(experiment.id, changes, check))
        )

    async def _wait_until_applied(self, row: ExperimentRow) -> LiveExperiment:
        """Wait until this process has applied a change that was just written."""
        self.log_reader.wake()
        for _ in range(int(APPLY_TIMEOUT_S / PAUSE_S)):
            experiment = self.get(row.name)
            if experiment is not None and _has_applied(experiment, row):
                return experiment
            if self.is_quarantined(row.id):
                break
            await asyncio.sleep(PAUSE_S)
        raise StoreUnavailable("the change is stored, but not readable yet: get the experiment again in a moment")

    # Reports and visitors

    def count_refused(self, experiment_id: int, reason: str) -> None:
        """Count a report that was refused; 0 is no experiment."""
        self.log_reader.count_refused(experiment_id, reason)

    async def visit(
        self, experiment: LiveExperiment, visitor: bytes, token: bytes, minute: int, instead: bytes = b""
    ) -> bytes:
        """Return the token of a visitor: this one, or an earlier one that has not expired.

        ``instead`` is an earlier token that is no longer of use, and is replaced.
        """
        visit = Visit(experiment.id, visitor, token, minute, self.clock.minute(), instead)
        return await self.log_writer.visit(visit)

    # Views

    async def view(self, experiment: LiveExperiment) -> dict[str, Any]:
        """Return the state of an experiment and the outcomes of its decisions; another thread computes it."""
        # In this order, or a decision in between would look as if its report were missing.
        known, refused = await self.call_store(
            lambda store: (store.sum_issued(experiment.id), store.sum_refused(experiment.id))
        )
        issued = _add_unflushed(experiment, known)
        state = await asyncio.get_running_loop().run_in_executor(None, experiment.view)
        balance = _balance(issued, state["reported"], state["pending"])
        return {**state, **balance, **experiment.view_missing(), "refused": refused}

    async def outcomes(self) -> dict[str, dict[str, int]]:
        """Return the outcomes of the decisions of every experiment, by its name."""
        experiments = self.experiments()
        totals = await self.call_store(lambda store: [store.sum_issued(each.id) for each in experiments])
        issued = [_add_unflushed(*each) for each in zip(experiments, totals, strict=True)]
        answered = await asyncio.get_running_loop().run_in_executor(
            None, lambda: [each.count_answered() for each in experiments]
        )
        return {
            experiment.name: _sum_outcomes(total, *both)
            for experiment, total, both in zip(experiments, issued, answered, strict=True)
        }

    async def call_store(self, work: Callable[[Store], Any]) -> Any:
        """Call a function with the store, in the thread of the log writer."""
        return await self.log_writer.call(work)


def _has_applied(experiment: LiveExperiment, row: ExperimentRow) -> bool:
    return experiment.state.seq >= row.seq and experiment.row.config_version >= row.config_version


def _sum_outcomes(issued: list[int], reported: list[int], pending: list[int]) -> dict[str, int]:
    counts = {**_balance(issued, reported, pending), "reported": reported, "pending": pending}
    return {name: sum(each) for name, each in counts.items()}


def _add_unflushed(experiment: LiveExperiment, known: dict[int, int]) -> list[int]:
    """Return how many decisions were issued: those that the store knows of, and those not flushed to it yet."""
    unflushed = experiment.pending.count_unflushed()
    return experiment.total_issued(
        {slot: known.get(slot, 0) + unflushed.get(slot, 0) for slot in {**known, **unflushed}}
    )


def _balance(issued: list[int], reported: list[int], pending: list[int]) -> dict[str, list[int]]:
    """Return how many decisions were issued, and how many got no report in time."""
    more = [0] * (len(reported) - len(issued))  # an arm may have been added meanwhile
    total = count_issued(issued + more, reported, pending)
    return {"issued": total, "missing": count_missing(total, reported, pending)}


def _to_store(arm: NewArm) -> NewArmRow:
    return NewArmRow(arm.name, msgspec.json.encode(arm.payload).decode())
