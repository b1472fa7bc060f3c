"""All that an audit has found, and what follows for the claim."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from maskedbandits.privacy.audit.fractions import Values
from maskedbandits.privacy.audit.seeds import Seeds
from maskedbandits.privacy.audit.starts import Starts
from maskedbandits.privacy.audit.statistics import Event, epsilon_at_most, highest, lowest
from maskedbandits.privacy.randomized_response import Randomizer


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
    def epsilon(self) -> float:
        """The lower bound on epsilon that its events give."""
        return max(self.zero.epsilon, self.one.epsilon)

    @property
    def private(self) -> bool:
        """Tell whether epsilon holds to within twice the smallest excess seen, which noise hardly ever exceeds."""
        most = max(epsilon_at_most(one) for one in (self.zero, self.one))
        return self.excess is not None and most <= self.claimed + 2 * self.excess


@dataclass(frozen=True)
class Even:
    """How many blocks of a length are flipped almost exactly as often as they should be."""

    lines: int
    blocks: int
    close: int
    chance: float  # of as many or more


@dataclass(frozen=True)
class Names:
    """How often two runs masked decisions of the same name with the same noise."""

    decisions: int
    same: int
    stated: float  # share that is the same by chance
    least: float  # lower bound on the real one

    @property
    def followed(self) -> bool:
        """Tell whether the noise follows from the name."""
        return self.least > self.stated


@dataclass(frozen=True)
class Noise:
    """What was seen of the noise, input xor report."""

    contexts: tuple[Channel, ...]
    blocks: tuple[Even, ...]
    names: Names | None
    level: float

    @property
    def uneven(self) -> tuple[Channel, ...]:
        """The contexts in which reports are not as stated, the most revealing first."""
        found = [context for context in self.contexts if not context.holds or context.epsilon > context.claimed]
        return tuple(sorted(found, key=lambda context: -context.epsilon))

    @property
    def too_even(self) -> tuple[Even, ...]:
        """The lengths at which noise comes out as stated far too often, the least likely first."""
        found = [block for block in self.blocks if block.chance < self.level]
        return tuple(sorted(found, key=lambda block: block.chance))

    @property
    def followed(self) -> bool:
        """Tell whether the noise follows from the name of a decision."""
        return self.names is not None and self.names.followed

    @property
    def holds(self) -> bool:
        """Tell whether all reports may be masked alike, each on its own."""
        return not (self.uneven or self.too_even or self.followed)


Outcome = Literal["refuted", "fixed seed", "other g", "uneven noise", "side channel", "cannot tell", "not refuted"]


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
    noise: Noise | None = None  # none where reports are more than bits, or runs are not independent
    randomizer: Randomizer | None = None
    devices: int = 0  # of our own reports, for each input, drawn one by one
    retries: int = 1
    starts: Starts | None = None  # none where no short starts were made
    values: Values | None = None  # nor rewards between 0 and 1 sent

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
    def outcome(self) -> Outcome:
        """What follows for the claim."""
        if self.epsilon > self.claimed:
            return "refuted"
        if (self.seeds is not None and self.seeds.fixed) or (self.starts is not None and self.starts.fixed):
            return "fixed seed"
        if self.starts is not None and self.starts.leaks:
            return "side channel"
        if not self.g_holds:
            return "other g"
        if self.noise is not None and not self.noise.holds:
            return "uneven noise"
        if self.needed is not None or (self.seeds is not None and self.seeds.deaf):
            return "cannot tell"
        return "not refuted"


@dataclass(frozen=True)
class Distance:
    """How often the answers of one group and reward were so many steps from the truth, and how often they should be."""

    where: str  # among which questions
    group: int
    reward: int
    steps: int
    hits: int
    trials: int
    stated: float
    level: float

    @property
    def interval(self) -> tuple[float, float]:
        """The bounds on how often they are."""
        hits, trials = np.array(self.hits), np.array(self.trials)
        return float(lowest(hits, trials, self.level)), float(highest(hits, trials, self.level))


@dataclass(frozen=True, kw_only=True)
class GroupFindings(Findings):
    """All that an audit of a device of groups has found."""

    groups: int
    answers: str  # the kind: a bit, or one of many
    distances: int  # that were looked at, none where g cannot be checked
    off: tuple[Distance, ...]  # of these, those that are not as stated, the farthest off first
    strata: tuple[Event, ...]  # true answers and their neighbours, by kind of question

    @property
    def epsilon(self) -> float:
        """The lower confidence bound on epsilon."""
        return max([super().epsilon, *(stratum.epsilon for stratum in self.strata)])

    @property
    def g_holds(self) -> bool:
        """Tell whether answers may be masked as stated, whatever is asked."""
        return not self.off
