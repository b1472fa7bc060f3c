"""Replay of a log from its first event, which proves that a live state or a snapshot follows from the log.

States are compared to the last bit, by digests. Snapshots of other code or another machine may round differently: they
are not compared, and count as no contradiction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from maskedbandits.errors import UserError
from maskedbandits.service.config import DAMAGE, find_fault, find_log_mismatch
from maskedbandits.service.state import ExperimentState, get_kernel_key
from maskedbandits.service.storage import Store
from maskedbandits.service.storage.models import ExperimentRow

EVENTS_AT_ONCE = 5_000


class DamagedError(UserError):
    """A log that cannot be replayed."""


@dataclass(frozen=True)
class Claim:
    """A claimed state of the log at an event."""

    source: str  # "snapshot", or the address of a service
    seq: int
    digest: str


@dataclass(frozen=True)
class ReplayResult:
    """The state that a replay reached, and the claims that it checked."""

    name: str
    seq: int
    reports: int
    digest: str  # of the state at the end
    kernel: str
    agreeing: tuple[Claim, ...]
    contradicting: tuple[Claim, ...]
    out_of_reach: tuple[Claim, ...]  # beyond the end of the log

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the log."""
        return not self.contradicting and not self.out_of_reach


def replay(
    store: Store, row: ExperimentRow, claims: list[Claim], progress: Callable[[float], None] = lambda share: None
) -> ReplayResult:
    """Apply a log from its first event on, and compare the state with each claim."""
    if (fault := find_fault(row, store.list_arms(row.id))) is not None:
        raise DamagedError(fault)
    claims = [*claims, *(Claim("snapshot", *each) for each in store.list_snapshots(row.id, get_kernel_key()))]
    state, reports, digests = _apply_log(store, row, claims, progress)
    if state.seq < row.seq:
        raise DamagedError(f"{row.name}: the log ends at event {state.seq} of {row.seq}; restore a backup")
    if (fault := find_log_mismatch(row, store.list_arms(row.id), state.any_policy)) is not None:
        raise DamagedError(fault)
    reached = [claim for claim in claims if claim.seq in digests]
    return ReplayResult(
        row.name,
        state.seq,
        reports,
        state.compute_digest()[1],
        get_kernel_key(),
        tuple(claim for claim in reached if claim.digest == digests[claim.seq]),
        tuple(claim for claim in reached if claim.digest != digests[claim.seq]),
        tuple(claim for claim in claims if claim.seq not in digests),
    )


def _apply_log(
    store: Store, row: ExperimentRow, claims: list[Claim], progress: Callable[[float], None]
) -> tuple[ExperimentState, int, dict[int, str]]:
    """Return the state at the end, the number of reports, and the digests at all claimed events."""
    stops = sorted({claim.seq for claim in claims})
    end = max([row.seq, *(claim.seq for claim in claims if claim.source != "snapshot")])
    state, reports = ExperimentState(), 0
    digests: dict[int, str] = {}
    while True:
        following = next((stop for stop in stops if stop > state.seq), end)
        events = store.read_events(row.id, state.seq, min(EVENTS_AT_ONCE, max(1, following - state.seq)))
        if not events or state.seq >= end:
            return state, reports, digests
        try:
            state.apply_events(events)
        except UserError as refusal:
            raise DamagedError(f"{row.name}: {refusal}") from refusal
        except DAMAGE as error:
            what = f"event {state.seq + 1} or one soon after it is damaged ({type(error).__name__})"
            raise DamagedError(f"{row.name}: {what}: restore another backup") from error
        reports += sum(event.kind == "report" for event in events)
        if state.seq in stops:
            digests[state.seq] = state.compute_digest()[1]
        progress(state.seq / end)
