"""All experiments of a store in one process: the interface for the handlers of requests.

Decisions are made at once, from the state in this process. Everything else goes to one of two threads: the log writer
(``log_writer.py``) and the log reader (``log_reader.py``).
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from maskedbandits.errors import UserError
from maskedbandits.service.archive import Archive, ArchivedExperiment
from maskedbandits.service.clock import Clock
from maskedbandits.service.config import StoredConfig, check_changed, check_limits
from maskedbandits.service.experiment import LiveExperiment
from maskedbandits.service.http import RequestError, retry_later, unknown_experiment
from maskedbandits.service.log_reader import LogReader
from maskedbandits.service.log_writer import LogWriter
from maskedbandits.service.pending import count_issued, count_missing
from maskedbandits.service.schemas import ExperimentConfig, NewArm
from maskedbandits.service.server import logging
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.server.warmup import CodeLoader, list_code
from maskedbandits.service.shared_table import SharedTable
from maskedbandits.service.storage import ExperimentDeleted, Store, StoreUnavailable, open_store
from maskedbandits.service.storage.audit import AdminRequest
from maskedbandits.service.storage.models import ARCHIVED, Change, ExperimentRow, NewArmRow, Visit
from maskedbandits.service.unmasked_reports import UnmaskedAlarms

Experiment = LiveExperiment | ArchivedExperiment

MAX_CLOSED_IDS = 100_000
APPLY_TIMEOUT_S = 10.0  # for a durable change to be applied here
CATCH_UP_TIMEOUT_S = 1.0  # after which a request is answered from what is known
PAUSE_S = 0.005
BEHIND = "the logs could not be read to their end, so this experiment may be missing: send the request again"
NOT_APPLIED = "the change is stored, but not readable yet: get the experiment again in a moment"
QUARANTINED = "this experiment cannot be read: see the log of the service, which tries again"


class ExperimentRegistry:
    """The experiments of a store, live in this process."""

    def __init__(
        self,
        settings: Settings,
        process: str = "",
        clock: Clock | None = None,
        table: SharedTable | None = None,
        store_outage: logging.Outage | None = None,
    ) -> None:
        self.settings = settings
        self.process = process or secrets.token_hex(8)
        self.clock = clock or Clock()
        self.unmasked_alarms = UnmaskedAlarms(table)
        self.code_loader = CodeLoader()
        self.store_outage = store_outage or logging.build_store_outage()
        self.log_reader = self._build_reader(self.store_outage)
        self.archive = Archive(self._build_reader(logging.build_store_outage()))
        self._closed: dict[int, bool] = {}  # by id, of archived experiments and deleted ones: whether it is deleted
        self._log_writer: LogWriter | None = None
        self._has_started = False

    def _build_reader(self, outage: logging.Outage) -> LogReader:
        return LogReader(self._open_store, self.process, self.clock, self.settings, self.code_loader, outage)

    def _open_store(self) -> Store:
        return open_store(self.settings.storage)

    async def start(self) -> None:
        """Read the logs, then start to follow them and to write."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.log_reader.start)
        reader = self.log_reader
        self._log_writer = LogWriter(
            self._open_store, loop, reader.wake, self.settings.queue, reader.last_seq, self.store_outage
        )
        self._log_writer.start()
        self._has_started = True

    async def stop(self) -> None:
        """Write everything that is waiting, and stop."""
        loop = asyncio.get_running_loop()
        self._has_started = False
        self.code_loader.stop()
        await self.archive.stop()
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
        """Return an experiment by name, if this process follows it."""
        return self.log_reader.by_name.get(name)

    def get_by_id(self, experiment_id: int) -> LiveExperiment | None:
        """Return an experiment by id, if this process follows it."""
        return self.log_reader.by_id.get(experiment_id)

    async def resolve(self, name: str) -> Experiment:
        """Return an experiment by name, or raise a `RequestError`; another process may have just created it."""
        experiment = self._get_readable(name) or self.archive.get(name)
        if experiment is not None:
            return experiment
        has_caught_up = await self.catch_up()
        experiment = self._get_readable(name)
        if experiment is not None:
            return experiment
        found = await self.call_store(lambda store: store.find_described(name))
        if found is not None and found[0].status == ARCHIVED:
            return self.archive.describe(*found)
        if found is not None or not has_caught_up:
            raise retry_later(503, BEHIND, code="logs_behind")
        raise unknown_experiment()

    def _get_readable(self, name: str) -> LiveExperiment | None:
        """Return an experiment if this process follows it; raise an error if it cannot."""
        experiment = self.get(name)
        if experiment is None and self.is_quarantined(name):
            raise retry_later(503, QUARANTINED, code="experiment_unreadable")
        return experiment

    async def resolve_open(self, name: str) -> LiveExperiment:
        """Return an experiment that can change; raise an error if it is archived."""
        experiment = await self.resolve(name)
        if isinstance(experiment, ArchivedExperiment):
            what = f"the experiment {name!r} is archived, which is final: create another"
            raise RequestError(409, what, code="archived_is_final")
        return experiment

    async def resolve_loaded(self, name: str) -> LiveExperiment:
        """Return an experiment with its state; that of an archived one is loaded."""
        experiment = await self.resolve(name)
        return await self.archive.load(experiment) if isinstance(experiment, ArchivedExperiment) else experiment

    def is_known_closed(self, experiment_id: int) -> bool:
        """Tell whether an experiment is known to be archived or deleted, which is final."""
        return experiment_id in self._closed or experiment_id in self.log_reader.closed

    def is_known_deleted(self, experiment_id: int) -> bool:
        """Tell whether an experiment is known to be deleted."""
        return self._closed.get(experiment_id, False)

    async def is_closed(self, experiment_id: int) -> bool:
        """Tell whether an experiment is archived or deleted; its id is never used again."""
        if self.is_known_closed(experiment_id):
            return True
        row, last = await self.call_store(lambda store: (store.find_experiment(experiment_id), store.read_last_id()))
        is_closed = bool(row.status == ARCHIVED if row is not None else experiment_id <= last)
        if is_closed:
            if len(self._closed) >= MAX_CLOSED_IDS:
                self._closed.clear()  # they are found again
            self._closed[experiment_id] = row is None
        return is_closed

    def is_quarantined(self, which: str | int) -> bool:
        """Tell whether an experiment, by its name or id, cannot be followed now."""
        found = self.log_reader.quarantined
        return which in found if isinstance(which, int) else which in [each.name for each in [*found.values()]]

    def count_quarantined(self) -> int:
        """Return the number of experiments that cannot be read."""
        return sum(each.has_failed for each in [*self.log_reader.quarantined.values()])

    def count_compiling(self) -> int:
        """Return the number of experiments whose policy is being compiled."""
        return len(self.log_reader.quarantined) - self.count_quarantined()

    def count_queued(self) -> int:
        """Return the number of reports that wait to be written."""
        return 0 if self._log_writer is None else self._log_writer.queued

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
        """Return all experiments that are not archived, the oldest first."""
        return sorted(self.log_reader.by_name.values(), key=lambda experiment: experiment.id)

    # Changes

    async def create(self, config: ExperimentConfig, admin: AdminRequest | None = None) -> LiveExperiment:
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
            lambda store: store.create_experiment(config.name, stored.encode(), arms, default, hour, admin)
        )
        return await self._wait_until_applied(row)

    async def change(
        self, experiment: LiveExperiment, changes: dict[str, Any], admin: AdminRequest | None = None
    ) -> Experiment:
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
        if not steps:
            return experiment
        row = await self._store_changes(experiment, *steps, admin=admin)
        return await (self._wait_until_closed(row) if row.status == ARCHIVED else self._wait_until_applied(row))

    async def add_arm(
        self, experiment: LiveExperiment, arm: NewArm, admin: AdminRequest | None = None
    ) -> LiveExperiment:
        """Add an arm, which is explored from now on."""
        stored = _to_store(arm)
        change = Change("arm", self.clock.hour(), name=stored.name, payload=stored.payload)
        return await self._wait_until_applied(await self._store_changes(experiment, change, admin=admin))

    async def set_payload(
        self, experiment: LiveExperiment, name: str, payload: Any, admin: AdminRequest | None = None
    ) -> LiveExperiment:
        """Replace the payload of an arm, which devices receive from now on."""
        text = msgspec.json.encode(payload).decode()
        change = Change("payload", self.clock.hour(), place=experiment.arms.find_open(name), payload=text)
        return await self._wait_until_applied(await self._store_changes(experiment, change, admin=admin))

    async def delete(self, experiment: Experiment, admin: AdminRequest | None = None) -> None:
        """Delete an archived experiment; its rows go in the background, and its name is free."""
        minute = self.clock.minute()
        await self._call_for(lambda store: store.delete_experiment(experiment.id, minute, admin))
        self._closed[experiment.id] = True
        if isinstance(experiment, ArchivedExperiment):
            self.archive.drop(experiment)

    async def retire(self, experiment: LiveExperiment, name: str, admin: AdminRequest | None = None) -> LiveExperiment:
        """Retire an arm, which is never shown again."""
        arm = experiment.arms.find_open(name)
        if len(experiment.arms.open) == 1:
            raise UserError(f"{name!r} is the last open arm: add another first, or archive the experiment")
        if arm == experiment.row.default_arm:
            others = [experiment.arms.names[each] for each in experiment.arms.open if each != arm]
            raise UserError(f"{name!r} is the default arm: make another the default first, such as {others[0]!r}")
        change = Change("retire", self.clock.hour(), place=arm)
        return await self._wait_until_applied(await self._store_changes(experiment, change, admin=admin))

    async def _store_changes(
        self, experiment: LiveExperiment, *changes: Change, admin: AdminRequest | None
    ) -> ExperimentRow:
        check = check_changed if any(change.kind in ("arm", "config") for change in changes) else None
        row: ExperimentRow = await self._call_for(lambda store: store.change(experiment.id, changes, check, admin))
        return row

    async def _call_for(self, work: Callable[[Store], Any]) -> Any:
        """Call a function with the store that changes an experiment, which another request may have just deleted."""
        try:
            return await self.call_store(work)
        except ExperimentDeleted as deleted:
            raise unknown_experiment() from deleted

    async def _wait_until_closed(self, row: ExperimentRow) -> Experiment:
        """Wait until this process does not follow an experiment any more that was just archived."""
        self.log_reader.wake()
        for _ in range(int(APPLY_TIMEOUT_S / PAUSE_S)):
            if row.id in self.log_reader.closed:
                return await self.resolve(row.name)
            await asyncio.sleep(PAUSE_S)
        raise StoreUnavailable(NOT_APPLIED)

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
        raise StoreUnavailable(NOT_APPLIED)

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

    def find_poisoning(self, experiment: LiveExperiment) -> list[str]:
        """Return the signs of fake reports that an experiment shows now."""
        signs = {
            "unmasked": self.unmasked_alarms.is_raised(experiment.id),
            "surge": experiment.surges.is_raised(experiment.clock.now()),
        }
        return [name for name, is_raised in signs.items() if is_raised]

    async def view(self, experiment: Experiment) -> dict[str, Any]:
        """Return the state of an experiment and the outcomes of its decisions; another thread computes it."""
        # In this order, or a decision in between would look as if its report were missing.
        if isinstance(experiment, ArchivedExperiment):
            experiment = await self.archive.load(experiment)
        known, refused = await self.call_store(
            lambda store: (store.sum_issued(experiment.id), store.sum_refused(experiment.id))
        )
        issued = _add_unflushed(experiment, known)
        state = await asyncio.get_running_loop().run_in_executor(None, experiment.view)
        balance = _balance(issued, state["reported"], state["pending"])
        poisoning = self.find_poisoning(experiment)
        return {**state, **balance, **experiment.view_missing(), "refused": refused, "poisoning": poisoning}

    async def outcomes(self, experiments: Sequence[LiveExperiment]) -> dict[str, dict[str, int]]:
        """Return the outcomes of the decisions of some experiments that are not archived, by their names."""
        totals = await self.call_store(lambda store: store.sum_all_issued())
        issued = [_add_unflushed(experiment, totals.get(experiment.id, {})) for experiment in experiments]
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
