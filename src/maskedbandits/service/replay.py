"""Replay of a log from its first event, or from the oldest snapshot, which proves that states follow from the log.

A log that retention has cut begins with a snapshot, which is the truth from then on. States are compared to the last
bit, by digests. Sums of other code or another machine may differ in their last bits. Such a state is compared number
by number, and called "rounded otherwise" if that is the only difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from maskedbandits.errors import UserError
from maskedbandits.service import snapshots
from maskedbandits.service.config import DAMAGE, find_fault, find_log_mismatch
from maskedbandits.service.event_columns import EventColumns
from maskedbandits.service.recovery import (
    BASE_KERNEL,
    SNAPSHOT_KERNEL,
    DamagedError,
    load_oldest,
    load_snapshot,
    read_all,
)
from maskedbandits.service.snapshots import get_kernel_key
from maskedbandits.service.state import ExperimentState
from maskedbandits.service.storage import Store
from maskedbandits.service.storage.models import ExperimentRow, SnapshotHead
from maskedbandits.service.storage.retention import LOG_HASH

AGREES, ROUNDED, OTHER_MACHINE, EARLY = "agrees", "rounded otherwise", "other machine", "early release"
CONTRADICTS, BEYOND_END = "contradicts", "beyond the end"
BAD = (CONTRADICTS, BEYOND_END)


@dataclass(frozen=True)
class Claim:
    """A claimed state, or hash, of the log at an event."""

    source: str  # "snapshot", "log hash", or the address of a service
    seq: int
    digest: str
    kernel: str = ""  # of a snapshot, its kind; of a service, the key of its code and machine


@dataclass(frozen=True)
class Verdict:
    """A claim, and whether it follows from the log."""

    claim: Claim
    verdict: str


@dataclass(frozen=True)
class ReplayResult:
    """The state that a replay reached, and the claims that it checked."""

    name: str
    start: int  # the event whose snapshot the replay began with; 0: the log is complete
    seq: int
    reports: int  # after the start
    digest: str  # of the state at the end
    log_hash: str
    kernel: str
    verdicts: tuple[Verdict, ...]

    def list_claims(self, *verdicts: str) -> list[Claim]:
        """Return the claims with some verdicts."""
        return [each.claim for each in self.verdicts if each.verdict in verdicts]

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the log."""
        return not any(each.verdict in BAD for each in self.verdicts)


@dataclass
class Walk:
    """A state on its way through a log, and those of other machines that only round otherwise."""

    store: Store
    row: ExperimentRow
    state: ExperimentState
    others: list[ExperimentState] = field(default_factory=list)
    reports: int = 0

    def apply(self, events: EventColumns) -> None:
        """Apply the next events to all states."""
        try:
            for state in (self.state, *self.others):
                state.apply_columns(events)
        except UserError as refusal:
            raise DamagedError(f"{self.row.name}: {refusal}") from refusal
        except DAMAGE as error:
            what = f"event {self.state.seq + 1} or one soon after it is damaged ({type(error).__name__})"
            raise DamagedError(f"{self.row.name}: {what}: restore another backup") from error
        self.reports += events.size - len(events.changes)

    def judge(self, claim: Claim) -> str:
        """Return the verdict about a claim at the event that has been reached."""
        if claim.source == LOG_HASH:
            return AGREES if claim.digest == self.state.log_hash.value or self.state.log_hash.start else CONTRADICTS
        if claim.digest == self.state.compute_digest()[1]:
            return AGREES
        if any(claim.digest == state.compute_digest()[1] for state in self.others):
            return ROUNDED
        if claim.source != "snapshot":
            is_elsewhere = claim.kernel not in ("", get_kernel_key()) or self.state.kernel != get_kernel_key()
            return OTHER_MACHINE if is_elsewhere else CONTRADICTS
        try:
            found = load_snapshot(self.store, self.row.id, SnapshotHead(claim.seq, claim.kernel, claim.digest))
        except snapshots.EarlyFormatError:
            return CONTRADICTS if claim.kernel in (SNAPSHOT_KERNEL, BASE_KERNEL) else EARLY  # one of today is damaged
        except UserError:  # it is damaged, and no process will use it
            return CONTRADICTS
        is_elsewhere = {found.kernel, self.state.kernel} != {get_kernel_key()}
        if not is_elsewhere or snapshots.compare_bits(found.describe()[0], self.state.describe()[0]) != "rounding":
            return CONTRADICTS
        self.others.append(found)  # what follows from it is as true
        return ROUNDED


def list_claims(store: Store, experiment: int) -> list[Claim]:
    """Return what a store itself claims about a log."""
    states = [Claim("snapshot", head.seq, head.sha256, head.kernel) for head in store.list_states(experiment)]
    return [*states, *(Claim(LOG_HASH, *each) for each in store.list_snapshots(experiment, LOG_HASH))]


def replay(
    store: Store, row: ExperimentRow, claims: list[Claim], progress: Callable[[float], None] = lambda share: None
) -> ReplayResult:
    """Apply a log from its first event on, or from its oldest snapshot, and compare the state with each claim."""
    if (fault := find_fault(row, store.list_arms(row.id))) is not None:
        raise DamagedError(fault)
    walk = Walk(store, row, load_oldest(store, row))
    start = walk.state.seq
    known = [claim for claim in (*claims, *list_claims(store, row.id)) if claim.seq >= start]
    verdicts = _judge_all(walk, known, progress)
    if walk.state.seq < row.seq:
        raise DamagedError(f"{row.name}: the log ends at event {walk.state.seq} of {row.seq}; restore a backup")
    if (fault := find_log_mismatch(row, store.list_arms(row.id), walk.state.any_policy)) is not None:
        raise DamagedError(fault)
    end = walk.state
    digest, log_hash = end.compute_digest()[1], end.log_hash.value
    found = tuple(Verdict(claim, verdicts.get(claim, BEYOND_END)) for claim in known)
    return ReplayResult(row.name, start, end.seq, walk.reports, digest, log_hash, get_kernel_key(), found)


def _judge_all(walk: Walk, claims: list[Claim], progress: Callable[[float], None]) -> dict[Claim, str]:
    """Walk to the end of a log, and return the verdict about each claim that is within reach."""
    end = max([walk.row.seq, *(claim.seq for claim in claims if claim.source not in ("snapshot", LOG_HASH))])
    verdicts: dict[Claim, str] = {}
    for stop in sorted({*(claim.seq for claim in claims if claim.seq <= end), end}):
        for events in read_all(walk.store, walk.row, walk.state.seq, stop):
            walk.apply(events)
            progress(walk.state.seq / end)
        if walk.state.seq != stop:
            break
        verdicts |= {claim: walk.judge(claim) for claim in claims if claim.seq == stop}
    return verdicts
