"""A plan: the cost of each epsilon, how soon changes are followed, and which epsilon to choose.

What the planner finds: for every epsilon what it costs, how soon changes are followed, and from when on it pays.

Which epsilon to take: the smallest whose cost, and that of all larger ones, is surely within the tolerance.

Epsilons are judged from the largest down, and the first one that is not surely within ends the search. So however many
there are, the chance to call any of them within that is not is that of a single interval, 2.5 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.planner import statistics
from maskedbandits.planner.inputs import EPSILONS, Question, asked
from maskedbandits.planner.simulations import Outcome, Setting, play
from maskedbandits.planner.statistics import Estimate, Settling
from maskedbandits.privacy.exposure import Exposure, compute_exposure

APART = 4  # times as many people as in the next smaller audience that is tried

Progress = Callable[[float], None]  # is told the share of the work that is done


@dataclass(frozen=True)
class Level:
    """What was found at one epsilon."""

    epsilon: float
    loss: Estimate  # successes lost against the best choice
    extra: Estimate  # of these, how many more than without privacy
    cost: Estimate | None  # the same, as a share of what learning gains without privacy; None if it may gain nothing
    settling: Settling
    pays_from: int | None  # people; None if it does not pay at any audience that was tried
    looked_to: int  # the largest of these
    exposure: Exposure

    @property
    def private(self) -> bool:
        """Tell whether this is not the yardstick without privacy."""
        return math.isfinite(self.epsilon)


@dataclass(frozen=True)
class Plan:
    """A question and what was found."""

    question: Question
    levels: tuple[Level, ...]  # epsilons rise; the last one is no privacy
    gain: Estimate  # successes that learning gains over a blind choice, without privacy

    @property
    def blind_loss(self) -> float:
        """Successes that a blind choice loses against the best one."""
        return self.question.blind_loss * self.question.horizon

    @lockfree_cached_property
    def advice(self) -> Advice:
        """Which epsilon to take, and why."""
        costs = {level.epsilon: level.cost for level in self.levels if level.private}
        return advise(costs, self.question.tolerance)

    def level(self, epsilon: float) -> Level:
        """Return what was found at an epsilon that was asked for."""
        return next(level for level in self.levels if level.epsilon == epsilon)


def plan(
    arms: int,
    horizon: int,
    changes: int,
    gap: float,
    base_rate: float,
    epsilons: Sequence[float] = EPSILONS,
    policy: str = "auto",
    *,
    tolerance: float = 0.1,
    worlds: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Simulate a choice before it begins, at several epsilons and without privacy.

    ``changes`` counts how often another arm becomes the best; ``horizon`` is the audience. An epsilon is within the
    tolerance if privacy surely costs no more than that share of the successes which learning gains without it.
    ``worlds`` are drawn from the seed; by default as many as take some seconds. ``progress`` is told the share done.
    """
    question = asked(arms, horizon, changes, gap, base_rate, epsilons, policy, tolerance, worlds, seed)
    return found(question, threads, progress or (lambda share: None))


def found(question: Question, threads: int | None, progress: Progress) -> Plan:
    """Play all worlds, for the audience asked for, for smaller ones where it pays and larger ones where it does not."""
    search = _Search(question, threads, progress)
    search.play([(epsilon, question.horizon) for epsilon in question.epsilons])
    paying = search.paying(question.epsilons, question.horizon)
    wanting = [epsilon for epsilon in question.epsilons if epsilon not in paying]
    audience = question.horizon // APART
    while paying and audience >= question.smallest_audience:
        search.play([(epsilon, audience) for epsilon in paying])
        paying = search.paying(paying, audience)
        audience //= APART
    audience = APART * question.horizon
    while wanting and not question.takes_too_long(audience):
        search.play([(epsilon, audience) for epsilon in wanting])
        found_now = search.paying(wanting, audience)
        wanting = [epsilon for epsilon in wanting if epsilon not in found_now]
        audience *= APART
    search.play(
        [(epsilon, math.isqrt(math.prod(ends))) for epsilon in question.epsilons if (ends := search.bracket(epsilon))]
    )
    progress(1.0)
    return _concluded(question, search)


class _Search:
    """Looks for the smallest audience that pays, for every epsilon, and keeps what was played on the way."""

    def __init__(self, question: Question, threads: int | None, progress: Progress) -> None:
        self.question, self.threads, self.progress = question, threads, progress
        self.outcomes: dict[float, dict[int, Outcome]] = {epsilon: {} for epsilon in question.epsilons}
        self.steps, self.told = 0, 0.0
        # the smaller audiences are half as much
        self.expected = 1.5 * len(question.epsilons) * question.worlds * question.horizon

    def play(self, settings: Sequence[Setting]) -> None:
        """Play at each of these epsilons and audiences."""
        asked = self.question
        to_do = sum(asked.worlds_of(audience) * audience for _, audience in settings)
        expected = max(self.expected, self.steps + to_do)
        played = play(asked, settings, self.threads, lambda done: self._tell((self.steps + done) / expected))
        for (epsilon, audience), outcome in zip(settings, played, strict=True):
            self.outcomes[epsilon][audience] = outcome
        self.steps += to_do

    def _tell(self, share: float) -> None:
        """Tell how far it is; nobody knows how far it is to go, so it may stand still for a while."""
        self.told = max(self.told, min(share, 0.99))
        self.progress(self.told)

    def paying(self, epsilons: Sequence[float], audience: int) -> list[float]:
        """Return the epsilons at which an audience pays."""
        return [epsilon for epsilon in epsilons if statistics.pays(self.shares(epsilon)[audience])]

    def shares(self, epsilon: float) -> dict[int, float]:
        """Return what is surely the most that is lost at an epsilon, as a share of a blind choice's loss."""
        blind = self.question.blind_loss
        return {
            audience: statistics.loses(outcome.losses, blind * audience)
            for audience, outcome in self.outcomes[epsilon].items()
        }

    def bracket(self, epsilon: float) -> tuple[int, int] | None:
        """Return two audiences between which it begins to pay, if they leave room for one more."""
        ends = statistics.bracket(self.shares(epsilon))
        return ends if ends is not None and ends[1] > ends[0] + 1 else None


def _concluded(question: Question, search: _Search) -> Plan:
    played = {epsilon: outcomes[question.horizon] for epsilon, outcomes in search.outcomes.items()}
    plain = played[math.inf].losses
    gains = question.blind_loss * question.horizon - plain
    stretch = statistics.stretch_of(question.horizon, question.changes + 1)
    levels = [
        Level(
            epsilon,
            loss=statistics.estimate(outcome.losses),
            extra=statistics.estimate(outcome.losses - plain),
            cost=statistics.ratio(outcome.losses - plain, gains),
            settling=statistics.settling(outcome.settled, stretch),
            pays_from=statistics.pays_from(search.shares(epsilon)),
            looked_to=max(search.outcomes[epsilon]),
            exposure=compute_exposure(epsilon),
        )
        for epsilon, outcome in played.items()
    ]
    return Plan(question, tuple(levels), statistics.estimate(gains))


@dataclass(frozen=True)
class Advice:
    """An epsilon to take, if there is one, and where the search ended."""

    epsilon: float | None
    refused: float | None  # the largest epsilon that is not surely within the tolerance
    in_doubt: bool  # whether that one may be within all the same: more worlds would tell
    gains: bool  # whether learning gains anything at all without privacy


def advise(costs: Mapping[float, Estimate | None], tolerance: float) -> Advice:
    """Return which epsilon to take, of the share of the gain that each costs."""
    taken = None
    for epsilon in sorted(costs, reverse=True):
        cost = costs[epsilon]
        if cost is None:
            return Advice(None, None, in_doubt=False, gains=False)
        if cost.high > tolerance:
            return Advice(taken, epsilon, in_doubt=cost.low <= tolerance, gains=True)
        taken = epsilon
    return Advice(taken, None, in_doubt=False, gains=True)
