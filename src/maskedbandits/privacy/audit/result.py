"""The findings of an audit, and the outcome for the claim."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from maskedbandits.privacy.audit.seeds import Seeds
from maskedbandits.privacy.audit.starts import FractionFindings, Starts
from maskedbandits.privacy.audit.statistics import (
    Event,
    clopper_pearson_lower,
    clopper_pearson_upper,
    epsilon_upper_bound,
)
from maskedbandits.privacy.randomized_response import Randomizer


@dataclass(frozen=True)
class Channel:
    """Reports that are bits: observed and stated frequencies, and the smallest detectable excess, if any."""

    name: str
    zero: Event
    one: Event
    claimed: Fraction
    excess: float | None

    @property
    def intervals(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Bounds on the probability of a report of 1, by input."""
        return self.one.interval(0), self.one.interval(1)

    @property
    def stated(self) -> tuple[float, float]:
        """The stated probability of a report of 1, by input."""
        stated = Randomizer(self.claimed)
        return float(1 - stated.p00), float(stated.p11)

    @property
    def holds(self) -> bool:
        """Tell whether g may be the stated one."""
        pairs = zip(self.intervals, self.stated, strict=True)
        return all(low <= share <= high for (low, high), share in pairs)

    @property
    def epsilon(self) -> float:
        """The lower bound on epsilon from its events."""
        return max(self.zero.epsilon, self.one.epsilon)

    @property
    def is_private(self) -> bool:
        """Tell whether epsilon holds to within twice the smallest detectable excess, which noise hardly exceeds."""
        most = max(epsilon_upper_bound(one) for one in (self.zero, self.one))
        return self.excess is not None and most <= self.claimed + 2 * self.excess


@dataclass(frozen=True)
class EvenBlocks:
    """The number of blocks of a length that are flipped almost exactly as often as expected."""

    lines: int
    blocks: int
    close: int
    chance: float  # p-value


@dataclass(frozen=True)
class NameNoise:
    """Counts of decisions with the same name that two runs masked with the same noise."""

    decisions: int
    same: int
    stated: float  # the share by chance
    least: float  # lower bound on the real share

    @property
    def is_repeated(self) -> bool:
        """Tell whether the noise follows from the name."""
        return self.least > self.stated


@dataclass(frozen=True)
class NoiseFindings:
    """Observations of the noise, input xor report."""

    contexts: tuple[Channel, ...]
    blocks: tuple[EvenBlocks, ...]
    names: NameNoise | None
    level: float

    @property
    def uneven(self) -> tuple[Channel, ...]:
        """The contexts in which reports are not as stated, the most revealing first."""
        found = [context for context in self.contexts if not context.holds or context.epsilon > context.claimed]
        return tuple(sorted(found, key=lambda context: -context.epsilon))

    @property
    def too_even(self) -> tuple[EvenBlocks, ...]:
        """The lengths at which noise is as stated far too often, the least likely first."""
        found = [block for block in self.blocks if block.chance < self.level]
        return tuple(sorted(found, key=lambda block: block.chance))

    @property
    def holds(self) -> bool:
        """Tell whether all reports may be masked alike and independently."""
        is_repeated = self.names is not None and self.names.is_repeated
        return not (self.uneven or self.too_even or is_repeated)


AuditOutcome = Literal["refuted", "fixed seed", "other g", "uneven noise", "side channel", "cannot tell", "not refuted"]


@dataclass(frozen=True)
class Findings:
    """The findings of an audit.

    Attributes
    ----------
    outcome
        What follows for the claim, such as "refuted" or "not refuted".
    epsilon
        The lower confidence bound on epsilon.

    Examples
    --------
    >>> from maskedbandits.privacy.audit import audit_program
    >>> findings = audit_program("cat", 1, trials=2000, confidence=0.99)  # it masks nothing
    >>> findings.outcome, findings.epsilon > 1
    ('refuted', True)

    """

    subject: str
    claimed: Fraction
    trials: int  # for each input
    confidence: float
    events: tuple[Event, ...]
    channels: tuple[Channel, ...]  # empty if g cannot be checked
    needed: int | None  # trials that could detect anything at all, if these could not
    most: int  # trials that can be requested
    seeds: Seeds | None = None
    noise: NoiseFindings | None = None  # None if reports are more than bits, or runs are not independent
    randomizer: Randomizer | None = None
    devices: int = 0  # own reports for each input, drawn one by one
    retries: int = 1
    starts: Starts | None = None  # None if there were no short starts
    values: FractionFindings | None = None  # None if no fractions were sent

    @property
    def epsilon(self) -> float:
        """The lower confidence bound on epsilon."""
        contexts = () if self.noise is None else self.noise.contexts
        events = (*self.events, *(() if self.values is None else self.values.events))
        return max([event.epsilon for event in events] + [context.epsilon for context in contexts])

    @property
    def g_holds(self) -> bool:
        """Tell whether reports may be masked as stated."""
        return all(channel.holds for channel in self.channels)

    @property
    def outcome(self) -> AuditOutcome:
        """The verdict on the claim."""
        if self.epsilon > self.claimed:
            return "refuted"
        if (self.seeds is not None and self.seeds.is_fixed) or (self.starts is not None and self.starts.is_fixed):
            return "fixed seed"
        if self.starts is not None and self.starts.leaks:
            return "side channel"
        if not self.g_holds:
            return "other g"
        if self.noise is not None and not self.noise.holds:
            return "uneven noise"
        if self.needed is not None or (self.seeds is not None and self.seeds.ignores_inputs):
            return "cannot tell"
        return "not refuted"


@dataclass(frozen=True)
class AnswerDistance:
    """Counts of the distances between answers and the truth for one group and reward, with the expected counts."""

    where: str  # the kind of queries
    group: int
    reward: int
    steps: int
    hits: int
    trials: int
    stated: float
    level: float

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds on their probability."""
        hits, trials = np.array(self.hits), np.array(self.trials)
        return float(clopper_pearson_lower(hits, trials, self.level)), float(
            clopper_pearson_upper(hits, trials, self.level)
        )


@dataclass(frozen=True, kw_only=True)
class GroupFindings(Findings):
    """The findings of an audit of a device of groups.

    Examples
    --------
    >>> from maskedbandits.privacy.audit import audit_own_groups
    >>> findings = audit_own_groups(1, 2, "bit", arms=2, trials=200, confidence=0.99)
    >>> findings.groups, findings.answers
    (2, 'bit')

    """

    groups: int
    answers: str  # their kind: a bit, or one of many
    distances: int  # frequencies checked, 0 if g cannot be checked
    off: tuple[AnswerDistance, ...]  # those not as stated, the worst first
    strata: tuple[Event, ...]  # true answers and their neighbours, by kind of query

    @property
    def epsilon(self) -> float:
        """The lower confidence bound on epsilon."""
        return max([super().epsilon, *(stratum.epsilon for stratum in self.strata)])

    @property
    def g_holds(self) -> bool:
        """Tell whether answers may be masked as stated for every query."""
        return not self.off
