"""All that an audit has found, and what follows for the claim."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from maskedbandits.privacy.audit.evidence import Event, epsilon_at_most
from maskedbandits.privacy.audit.seeds import Seeds
from maskedbandits.privacy.mechanism import Randomizer


@dataclass(frozen=True)
class Channel:
    """Reports that are bits: how often each was seen, how often it should be, and the smallest excess seen, if any."""

    name: str
    zero: Event
    one: Event
    claimed: Fraction
    excess: float | None

    @property
    def intervals(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The bounds on how often a 1 is reported, for each input."""
        return self.one.interval(0), self.one.interval(1)

    @property
    def stated(self) -> tuple[float, float]:
        """How often a 1 should be reported, for each input."""
        stated = Randomizer(self.claimed)
        return float(1 - stated.p00), float(stated.p11)

    @property
    def holds(self) -> bool:
        """Tell whether g may be the stated one."""
        pairs = zip(self.intervals, self.stated, strict=True)
        return all(low <= share <= high for (low, high), share in pairs)

    @property
    def private(self) -> bool:
        """Tell whether epsilon holds to within twice the smallest excess seen, which noise hardly ever exceeds."""
        most = max(epsilon_at_most(one) for one in (self.zero, self.one))
        return self.excess is not None and most <= self.claimed + 2 * self.excess


Outcome = Literal["refuted", "fixed seed", "other g", "cannot tell", "not refuted"]


@dataclass(frozen=True)
class Findings:
    """All that an audit has found."""

    subject: str
    claimed: Fraction
    trials: int  # for each input
    confidence: float
    events: tuple[Event, ...]
    channels: tuple[Channel, ...]  # none where g cannot be checked
    needed: int | None  # trials that could see anything at all, where these could not
    most: int  # trials that can be asked for
    seeds: Seeds | None = None
    randomizer: Randomizer | None = None
    devices: int = 0  # of our own reports, for each input, drawn one by one
    retries: int = 1

    @property
    def epsilon(self) -> float:
        """The lower confidence bound on epsilon."""
        return max(event.epsilon for event in self.events)

    @property
    def outcome(self) -> Outcome:
        """What follows for the claim."""
        if self.epsilon > self.claimed:
            return "refuted"
        if self.seeds is not None and self.seeds.fixed:
            return "fixed seed"
        if not all(channel.holds for channel in self.channels):
            return "other g"
        if self.needed is not None or (self.seeds is not None and self.seeds.deaf):
            return "cannot tell"
        return "not refuted"
