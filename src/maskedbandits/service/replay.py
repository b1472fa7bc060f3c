"""Replaying a log from its first event: the proof that a live state, or a snapshot, is what the log says.

States are compared by digests of all that a log determines, to the last bit. Code or a machine of another kind may
round differently: what was reckoned elsewhere is told apart, and is no contradiction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from maskedbandits.errors import UserError
from maskedbandits.service.config import DAMAGE, fault_beside, fault_of
from maskedbandits.service.state import Fold, kernel
from maskedbandits.service.storage import Store
from maskedbandits.service.storage.models import ExperimentRow

AT_ONCE = 5_000  # events


class DamagedError(UserError):
    """A log that cannot be folded."""


@dataclass(frozen=True)
class Claim:
    """A state that somebody says the log has at an event."""

    source: str  # "snapshot", or the address of a service
    seq: int
    digest: str


@dataclass(frozen=True)
class Replayed:
    """What a replay found."""

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
        """Tell whether nothing contradicts the log."""
        return not self.contradicting and not self.out_of_reach


def replay(
    store: Store, row: ExperimentRow, claims: list[Claim], progress: Callable[[float], None] = lambda share: None
) -> Replayed:
    """Fold a log from its first event on, stopping where somebody claims to know the state."""
    if (fault := fault_of(row, store.list_arms(row.id))) is not None:
        raise DamagedError(fault)
    claims = [*claims, *(Claim("snapshot", *kept) for kept in store.list_snapshots(row.id, kernel()))]
    stops = sorted({claim.seq for claim in claims})
    end = max([row.seq, *(claim.seq for claim in claims if claim.source != "snapshot")])
    fold, digests, reports = Fold(), {}, 0
    while True:
        following = next((stop for stop in stops if stop > fold.seq), end)
        events = store.read_events(row.id, fold.seq, min(AT_ONCE, max(1, following - fold.seq)))
        if not events or fold.seq >= end:
            break
        try:
            fold.take(events)
        except UserError as refusal:
            raise DamagedError(f"{row.name}: {refusal}") from refusal
        except DAMAGE as error:
            told = f"event {fold.seq + 1} or one soon after it is damaged ({type(error).__name__})"
            raise DamagedError(f"{row.name}: {told}: restore another backup") from error
        reports += sum(event.kind == "report" for event in events)
        if fold.seq in stops:
            digests[fold.seq] = fold.state()[1]
        progress(fold.seq / end)
    if fold.seq < row.seq:
        raise DamagedError(
            f"{row.name}: the log has a gap: after event {fold.seq} comes none of {row.seq}; restore a backup"
        )
    if (fault := fault_beside(row, store.list_arms(row.id), fold.either)) is not None:
        raise DamagedError(fault)
    reached = [claim for claim in claims if claim.seq in digests]
    return Replayed(
        row.name,
        fold.seq,
        reports,
        fold.state()[1],
        kernel(),
        tuple(claim for claim in reached if claim.digest == digests[claim.seq]),
        tuple(claim for claim in reached if claim.digest != digests[claim.seq]),
        tuple(claim for claim in claims if claim.seq not in digests),
    )
