"""Slow, obvious references, straight from the paper; nothing of the package is imported.

Indices are found by bisection on q itself, and the whole window is scanned at every step.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from numpy.random import Generator

from naive.pending import Waiting

Corruption = Callable[[float], float]


def divergence(p: float, q: float) -> float:
    """Kullback-Leibler divergence between Bernoulli distributions; infinite for a q that is no probability."""
    if not 0 <= q <= 1 or (p > 0 and q == 0) or (p < 1 and q == 1):
        return math.inf
    left = p * math.log(p / q) if p > 0 else 0.0
    right = (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0
    return left + right


def exploration(x: float, c: float) -> float:
    """f(x) = log x + c log(max(1, log x))."""
    return math.log(x) + c * math.log(max(1, math.log(x)))


def extended(g: Corruption) -> Corruption:
    """g, going on outside [0, 1] as a straight line with its secant slope."""
    secant = g(1.0) - g(0.0)

    def everywhere(mean: float) -> float:
        if mean < 0:
            return g(0.0) + secant * mean
        if mean > 1:
            return g(1.0) + secant * (mean - 1)
        return g(mean)

    return everywhere


def largest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest q for which a condition holds that is true at low and false from some q on."""
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def inverse(line: Corruption, feedback_mean: float, reach: float) -> float:
    """The mean that an increasing line on [-reach, reach] takes to this feedback mean."""
    return largest(lambda q: line(q) <= feedback_mean, -reach, reach)


def klucb_index(g: Corruption, feedbacks: list[float], level: float, weights: list[float] | None = None) -> float:
    """max {q: N d(mean of the feedbacks, g(q)) <= level}."""
    weights = weights or [1.0] * len(feedbacks)
    if math.fsum(weights) == 0:
        return math.inf
    line = extended(g)
    count = math.fsum(weights)
    mean = math.fsum(w * x for w, x in zip(weights, feedbacks, strict=True)) / count
    reach = 2 + 2 / abs(g(1.0) - g(0.0))  # beyond this, g is far outside [0, 1]
    rising = g(1.0) > g(0.0)
    inside = largest(lambda q: line(q) <= mean if rising else line(q) >= mean, -reach, reach)
    if level == 0:  # where rounding would hide a small divergence
        return inside
    return largest(lambda q: count * divergence(mean, line(q)) <= level, inside, reach)


def ucb_index(g: Corruption, feedbacks: list[float], level: float, weights: list[float], xi: float) -> float:
    """The mean whose feedback mean is sqrt(xi level / N) on the good side of the mean of the feedbacks."""
    count = math.fsum(weights)
    if count == 0:
        return math.inf
    mean = math.fsum(w * x for w, x in zip(weights, feedbacks, strict=True)) / count
    bonus = math.sqrt(xi * level / count)
    secant = g(1.0) - g(0.0)
    reach = 2 + (2 + bonus) / abs(secant)
    if secant > 0:
        return inverse(extended(g), mean + bonus, reach)
    return inverse(lambda q: -extended(g)(q), -(mean - bonus), reach)


def binary_digits(number: float, digits: int) -> float:
    """The number rounded up to so many binary digits, and to a whole one."""
    whole = math.ceil(number)
    step = 1 << max(0, (whole - 1).bit_length() - digits)
    return float(-(-whole // step) * step)


def klucb_plus_level(count: float, arms: int, horizon: float) -> float:
    """log+(r (1 + log+^2 r)) with r = T / (K N)."""
    ratio = horizon / (arms * count)
    log = math.log(max(1.0, ratio))
    return math.log(max(1.0, ratio * (1 + log**2)))


def draw_gamma(rng: Generator, shape: float) -> float:
    """Marsaglia and Tsang 2000, A simple method for generating gamma variables: the algorithm of its section 6."""
    d = shape - 1 / 3
    while True:
        x = rng.standard_normal()
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v > 0:
            u = rng.random()
            if u < 1 - 0.0331 * x**4 or math.log(u) < x**2 / 2 + d * (1 - v + math.log(v)):
                return d * v


def draw_beta(rng: Generator, a: float, b: float) -> float:
    """A share of two Gamma variables."""
    x = draw_gamma(rng, a)
    y = draw_gamma(rng, b)
    return x / (x + y)


class Observation(NamedTuple):
    """What is kept of a pull."""

    arm: int
    feedback: float
    corruption: Corruption | None  # None: the arm's own


class Twin:
    """A policy of memory, index and restarts; everything is recomputed at every step."""

    def __init__(
        self,
        corruption: list[Corruption],
        index: str = "klucb",
        *,
        c: float = 3.0,
        xi: float = 2.0,
        horizon: int | None = None,
        window: float = math.inf,
        gamma: float = 1.0,
        restarts: Iterable[int] = (),
        detects: Callable[[list[float], float], bool] | None = None,
        delta: float = 1.0,
        local: bool = False,
        liars: float = 0.0,
    ) -> None:
        self.corruption, self.index, self.c, self.xi, self.horizon = corruption, index, c, xi, horizon
        self.window, self.gamma, self.restarts = window, gamma, set(restarts)
        self.detects, self.delta, self.local, self.liars = detects, delta, local, liars
        self.arms = len(corruption)
        self.closed: set[int] = set()
        self.history: list[Observation] = []
        self.mixed = False
        self.alarms = 0
        self.look: int | None = None  # the arm that is to be looked at now, whatever its index
        self.restart()

    def add_arm(self, corruption: Corruption) -> int:
        """One more arm: as the others, but that nothing was seen of it."""
        self.corruption.append(corruption)
        self.since.append(len(self.history) if self.local else self.since[0])
        self.arms += 1
        return self.arms - 1

    def retire(self, arm: int) -> None:
        self.closed.add(arm)

    def open_arms(self, among: Iterable[int] | None = None) -> list[int]:
        """The arms that may be chosen, of some or of all."""
        return [arm for arm in range(self.arms) if arm not in self.closed and (among is None or arm in set(among))]

    def restart(self) -> None:
        """Nothing from before this moment counts."""
        now = len(self.history)
        self.since = [now] * self.arms

    def lied_about(self, g: Corruption) -> Corruption:
        """What g may look like at the worst if a share of the reports speak against the arm."""
        against = 0.0 if g(1.0) > g(0.0) else 1.0
        return lambda mean: (1 - self.liars) * g(mean) + self.liars * against

    def list_weighted(self, arm: int) -> tuple[list[float], list[float], Corruption]:
        """The feedbacks of an arm that count, their weights, and the mean of their corruption functions."""
        now = len(self.history)
        first = max(self.since[arm], now - int(min(self.window, now)))
        kept = [
            (self.gamma ** (now - 1 - time), self.history[time])
            for time in range(first, now)
            if self.history[time].arm == arm
        ]
        weights = [weight for weight, _ in kept]
        if not self.mixed:
            return [seen.feedback for _, seen in kept], weights, self.lied_about(self.corruption[arm])
        feedbacks, lows, spans = [], [], []
        for _, seen in kept:  # all flipped to where the corruption increases, so that they can be averaged
            g = self.lied_about(seen.corruption or self.corruption[arm])
            low, span = g(0.0), g(1.0) - g(0.0)
            feedbacks.append(seen.feedback if span > 0 else 1 - seen.feedback)
            lows.append(low if span > 0 else 1 - low)
            spans.append(abs(span))
        low, span, weights = self.weighed(arm, lows, spans, weights)
        return feedbacks, weights, lambda mean: low + span * mean

    def weighed(
        self, arm: int, lows: list[float], spans: list[float], weights: list[float]
    ) -> tuple[float, float, list[float]]:
        """The mean low end and span of reports that weigh by their spans, and weights that add up to what counts."""
        g = self.lied_about(self.corruption[arm])
        each = [span / abs(g(1.0) - g(0.0)) if self.liars == 0 else 1.0 for span in spans]
        raw = [w * x for w, x in zip(weights, each, strict=True)]
        total = math.fsum(raw) or 1.0
        squares = math.fsum(w * x * x for w, x in zip(weights, each, strict=True)) or 1.0
        low = math.fsum(w * x for w, x in zip(raw, lows, strict=True)) / total
        span = math.fsum(w * x for w, x in zip(raw, spans, strict=True)) / total
        return low, span, [w * total / squares for w in raw]  # the sum is total^2 / squares

    def level(self, arm: int) -> float:
        """f of the weight of everything that counts, of all arms."""
        ages = range(int(min(len(self.history) - self.since[arm], self.window)))
        return exploration(max(1.0, math.fsum(self.gamma**age for age in ages)), self.c)

    def indices(self, among: Iterable[int] | None = None) -> list[float]:
        eligible = self.open_arms(among)
        return [self.score(arm) if arm in eligible else -math.inf for arm in range(self.arms)]

    def score(self, arm: int) -> float:
        feedbacks, weights, g = self.list_weighted(arm)
        if self.index == "ts":  # the mean of the posterior
            return self.posterior(arm, lambda a, b: a / (a + b))
        count = math.fsum(weights)
        if count == 0:
            return math.inf
        if self.index == "ucb":
            return ucb_index(g, feedbacks, self.level(arm), weights, self.xi)
        if self.index == "klucb-plus":
            assert self.horizon is not None
            return klucb_index(g, feedbacks, klucb_plus_level(count, self.arms, self.horizon), weights)
        return klucb_index(g, feedbacks, self.level(arm), weights)

    def score_ahead(self, arm: int, waiting: Waiting) -> float:
        """The score with unanswered decisions counted as come, at the mean of what has come and at most one zero."""
        feedbacks, weights, g = self.list_weighted(arm)
        known = math.fsum(weights)
        seen = math.fsum(self.gamma**age for age in range(int(min(len(self.history) - self.since[arm], self.window))))
        most = self.window if self.gamma == 1 else 1 / (1 - self.gamma)
        expected = min(seen + len(waiting.pending), most)
        patience = max(1.0, expected)
        clock, late = waiting.decisions, waiting.lateness()
        if self.arms > 64:
            patience, late = binary_digits(patience, 7), binary_digits(late, 3)
            clock -= clock % 2 ** max(0, math.floor(math.log2(patience / 16)))
        unanswered = waiting.still_open(arm, clock, late, patience)
        if known > 0:
            unanswered = min(unanswered, 16 * (known + 1))
        elif unanswered == 0:
            return math.inf
        zeros = unanswered / (known + unanswered)
        count = known + unanswered * (1 if self.gamma == 1 else zeros**2)
        usual = self.lied_about(self.corruption[arm])
        zero = 1 - usual(0.0) if self.mixed and usual(1.0) < usual(0.0) else usual(0.0)
        total = math.fsum(w * x for w, x in zip(weights, feedbacks, strict=True))
        mean = (total + zeros * zero) / (known + zeros)
        level = exploration(max(1.0, binary_digits(expected, 7) if self.arms > 64 else expected), self.c)
        if self.index == "ucb":
            return ucb_index(g, [mean], level, [count], self.xi)
        if self.index == "klucb-plus":
            assert self.horizon is not None
            level = klucb_plus_level(count, self.arms, self.horizon)
        return klucb_index(g, [mean], level, [count])

    def posterior(self, arm: int, value: Callable[[float, float], float]) -> float:
        """The mean that a value of the posterior Beta(a, b) of the feedback mean belongs to."""
        feedbacks, weights, g = self.list_weighted(arm)
        count = math.fsum(weights)
        if self.mixed and count == 0:
            return math.inf
        falling = g(1.0) < g(0.0)
        if falling:
            feedbacks = [1 - x for x in feedbacks]
        total = math.fsum(w * x for w, x in zip(weights, feedbacks, strict=True))
        line = extended(lambda mean: 1 - g(mean) if falling else g(mean))
        return inverse(line, value(1 + total, 1 + count - total), 2 + 2 / abs(g(1.0) - g(0.0)))

    def choose(self, rng: Generator | None = None, among: Iterable[int] | None = None) -> int:
        eligible = self.open_arms(among)
        if self.look in eligible:
            return self.look
        if rng is None:
            scores = self.indices(eligible)
            return scores.index(max(scores))
        draws: list[float] = []
        for arm in eligible:
            draws.append(self.posterior(arm, lambda a, b: draw_beta(rng, a, b)))
            if draws[-1] == math.inf:
                break
        return eligible[draws.index(max(draws))]

    def observe(self, arm: int, feedback: float, corruption: Corruption | None = None) -> None:
        usual = self.corruption[arm]
        unusual = corruption is not None and (corruption(0.0), corruption(1.0)) != (usual(0.0), usual(1.0))
        self.mixed = self.mixed or unusual
        self.history.append(Observation(arm, feedback, corruption))
        now = len(self.history)
        if now in self.restarts:
            self.restart()
        elif (
            self.detects is not None
            and self.shown(self.history[-1]) is not None
            and self.detects(self.stream(arm), self.delta / math.sqrt(self.horizon or now))
        ):
            self.alarms += 1
            if self.local:
                self.since[arm] = now
            else:
                self.restart()

    def stream(self, arm: int) -> list[float]:
        """What an arm's detector has seen."""
        shown = [self.shown(seen) for seen in self.history[self.since[arm] :] if seen.arm == arm]
        return [feedback for feedback in shown if feedback is not None]

    def shown(self, seen: Observation) -> float | None:
        """A report with a corruption of its own masked on, on average, up to the arm's; None if that says more."""
        if seen.corruption is None:
            return seen.feedback
        own, arms = seen.corruption, self.corruption[seen.arm]
        # what a 0 and a 1 of the report must become, for its mean to be what the arm's corruption makes of any mean
        slope = (arms(1.0) - arms(0.0)) / (own(1.0) - own(0.0))
        zero = arms(0.0) - slope * own(0.0)
        possible = min(zero, zero + slope) >= -1e-12 and max(zero, zero + slope) <= 1 + 1e-12
        return min(max(zero + slope * seen.feedback, 0.0), 1.0) if possible else None


class SlidingWindowKLUCB(Twin):
    """SW-KLUCB-CF; with an infinite window, KLUCB-CF."""

    def __init__(self, corruption: list[Corruption], window: float, c: float) -> None:
        super().__init__(corruption, window=window, c=c)


def simulate(
    means: list[list[float]],
    starts: list[int],
    horizon: int,
    policy: Twin,
    draws: list[float],
    delays: list[int | None] | None = None,
    expire_after: int | None = None,
) -> tuple[list[float], list[int], list[int], list[int]]:
    """One run: cumulative regret after every step, pulls, pulls while suboptimal, of every arm; the arm of each step.

    The report of a step comes so many steps late, or never; of those that come at once the latest decision's is first.
    """
    regret, pulls, suboptimal = [0.0], [0] * len(means[0]), [0] * len(means[0])
    chosen: list[int] = []
    under_way: list[tuple[int, int, float]] = []  # when it is due, the arm, the feedback
    waiting = Waiting(policy.arms, expire_after)
    for step in range(horizon):
        row = means[max(i for i, start in enumerate(starts) if start <= step)]
        for _, arm, feedback in [report for report in reversed(under_way) if report[0] == step]:
            waiting.report(arm)
            policy.observe(arm, feedback)
        under_way = [report for report in under_way if report[0] > step]
        scores = [policy.score_ahead(arm, waiting) for arm in range(policy.arms)] if waiting.pending else []
        arm = scores.index(max(scores)) if scores else policy.choose()
        feedback = float(draws[step] < policy.corruption[arm](row[arm]))
        waiting.decide(arm)
        delay = delays[step] if delays else 0
        if delay is not None:
            under_way.append((step + 1 + delay, arm, feedback))
        pulls[arm] += 1
        chosen.append(arm)
        suboptimal[arm] += row[arm] < max(row)
        regret.append(regret[-1] + max(row) - row[arm])
    return regret[1:], pulls, suboptimal, chosen
