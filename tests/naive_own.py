"""Slow, obvious references for the policies that stand on their own; nothing of the package is imported.

Each keeps all it has seen and reckons anew at every step. Randomness comes from the generator handed over, in the order
in which the algorithms say that it is drawn.
"""

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

Gain = Callable[[int, float], float]


class Policy(Protocol):
    def choose(self, rng: np.random.Generator) -> int: ...

    def observe(self, arm: int, feedback: float, rng: np.random.Generator) -> None: ...


def gains(matrices: list[tuple[float, float]]) -> Gain:
    """Debiased feedback over the range that it has over all arms, for arms with randomised responses (p00, p11)."""

    def debiased(arm: int, feedback: float) -> float:
        p00, p11 = matrices[arm]
        return (feedback - (1 - p00)) / (p00 + p11 - 1)

    ends = [debiased(arm, feedback) for arm in range(len(matrices)) for feedback in (0.0, 1.0)]
    return lambda arm, feedback: (debiased(arm, feedback) - min(ends)) / (max(ends) - min(ends))


def width(matrices: list[tuple[float, float]]) -> float:
    """How far debiased feedbacks reach."""
    ends = [(feedback - (1 - p00)) / (p00 + p11 - 1) for p00, p11 in matrices for feedback in (0.0, 1.0)]
    return max(ends) - min(ends)


class Uniform:
    def __init__(self, arms: int) -> None:
        self.arms = arms

    def choose(self, rng: np.random.Generator) -> int:
        return int(rng.random() * self.arms)

    def observe(self, arm: int, feedback: float, rng: np.random.Generator) -> None:
        pass


class Exp3:
    """EXP3.S with a share alpha; with alpha = 0 and batches, REXP3."""

    def __init__(self, arms: int, gain: Gain, gamma: float, alpha: float, batch: float = math.inf) -> None:
        self.gain, self.gamma, self.alpha, self.batch = gain, gamma, alpha, batch
        self.weights = [1.0] * arms
        self.time = 0

    def probabilities(self) -> list[float]:
        arms, total = len(self.weights), sum(self.weights)
        return [(1 - self.gamma) * weight / total + self.gamma / arms for weight in self.weights]

    def choose(self, rng: np.random.Generator) -> int:
        lot = rng.random()
        below = np.cumsum(self.probabilities())
        return min(int(np.sum(below <= lot)), len(below) - 1)

    def observe(self, arm: int, feedback: float, rng: np.random.Generator) -> None:
        arms, total = len(self.weights), sum(self.weights)
        estimate = [0.0] * arms
        estimate[arm] = self.gain(arm, feedback) / self.probabilities()[arm]
        self.weights = [
            weight * math.exp(self.gamma * gain / arms) + math.e * self.alpha / arms * total
            for weight, gain in zip(self.weights, estimate, strict=True)
        ]
        self.time += 1
        if self.time % self.batch == 0:
            self.weights = [1.0] * arms


def exp3s(arms: int, gain: Gain, horizon: int, changes: int) -> Exp3:
    gamma = math.sqrt(arms * (changes * math.log(arms * horizon) + math.e) / ((math.e - 1) * horizon))
    return Exp3(arms, gain, min(1.0, gamma), 1 / horizon)


def rexp3(arms: int, gain: Gain, horizon: int, variation: float) -> Exp3:
    """The variation is that of the gains."""
    batch = math.ceil((arms * math.log(arms)) ** (1 / 3) * (horizon / variation) ** (2 / 3))
    batch = min(batch, horizon)
    gamma = math.sqrt(arms * math.log(arms) / ((math.e - 1) * batch))
    return Exp3(arms, gain, min(1.0, gamma), 0.0, batch)


class AdSwitch:
    """AdSwitch with the starts of intervals on the grid."""

    def __init__(self, arms: int, gain: Gain, horizon: int, strictness: float, finest: float) -> None:
        self.arms, self.gain = arms, gain
        self.horizon, self.log = horizon, math.log(horizon)
        self.strictness, self.finest = strictness, finest
        self.episode = 0
        self.evictions = self.checks = 0
        self.last = [0] * arms
        self.time = 0
        self.begin()

    def begin(self) -> None:
        self.episode += 1
        self.history: list[tuple[int, float]] = []
        self.good = set(range(self.arms))
        self.evicted: dict[int, tuple[float, float]] = {}
        self.obligations: list[tuple[int, int, int]] = []  # arm, pulls, since when
        self.active_since = [0] * self.arms
        self.intervals: list[list[tuple[float, float]]] = [[] for _ in range(self.arms)]

    def seen(self, arm: int, start: int) -> list[float]:
        return [gain for chosen, gain in self.history[start:] if chosen == arm]

    def starts(self) -> list[int]:
        played = len(self.history)
        return [(played // 2**j - 1) * 2**j for j in range(played.bit_length())]

    def checked(self, arm: int) -> bool:
        return any(one == arm and len(self.seen(arm, since)) < pulls for one, pulls, since in self.obligations)

    def choose(self, rng: np.random.Generator) -> int:
        active = [arm for arm in range(self.arms) if arm in self.good or self.checked(arm)]
        return min(active, key=lambda arm: (self.last[arm], arm))

    def observe(self, arm: int, feedback: float, rng: np.random.Generator) -> None:
        self.time += 1
        self.last[arm] = self.time
        self.history.append((arm, self.gain(arm, feedback)))
        if self.contradicted(arm) if arm in self.good else self.changed(arm):
            self.begin()
            return
        for start in sorted(self.starts()):
            self.evict(start)
        self.draw(rng)

    def contradicted(self, arm: int) -> bool:
        for start in self.starts():
            seen = self.seen(arm, start)
            if seen:
                self.intervals[arm].append((sum(seen) / len(seen), math.sqrt(2 * self.log / len(seen))))
        fresh = self.intervals[arm][-len(self.history).bit_length() :]
        return any(abs(a - b) > r + s for a, r in self.intervals[arm] for b, s in fresh)

    def changed(self, arm: int) -> bool:
        mean, gap = self.evicted[arm]
        for start in [*self.starts(), self.active_since[arm]]:
            seen = self.seen(arm, start)
            if seen and abs(sum(seen) / len(seen) - mean) > gap / 4 + math.sqrt(2 * self.log / len(seen)):
                return True
        return False

    def evict(self, start: int) -> None:
        means = {arm: np.mean(self.seen(arm, start)) for arm in self.good if self.seen(arm, start)}
        for arm, mean in means.items():
            count = len(self.seen(arm, start))
            gap = max(means.values()) - mean
            if count >= 2 and gap > math.sqrt(self.strictness * self.log / (count - 1)):
                self.good.remove(arm)
                self.evicted[arm] = (float(mean), float(gap))
                self.active_since[arm] = len(self.history)
                self.evictions += 1

    def draw(self, rng: np.random.Generator) -> None:
        rate = math.sqrt(self.episode / (self.arms * self.horizon * self.log))
        for arm in sorted(self.evicted):
            lot = rng.random()
            sizes = [i for i in range(1, 31) if 2.0**-i >= self.evicted[arm][1] / self.finest]
            # the longest that begins is i with the probability that i does, and none longer
            longest = [2.0**-i * rate * math.prod(1 - 2.0**-j * rate for j in sizes if j > i) for i in sizes]
            for i, begins in reversed(list(zip(sizes, longest, strict=True))):
                if lot < begins:
                    if not self.checked(arm):
                        self.active_since[arm] = len(self.history)
                    self.checks += 1
                    self.obligations.append((arm, math.ceil(2 ** (2 * i + 1) * self.log), len(self.history)))
                    break
                lot -= begins


class LaplaceUCB:
    """LDP-UCB-L."""

    def __init__(self, arms: int, epsilon: float) -> None:
        self.epsilon = epsilon
        self.noisy: list[list[float]] = [[] for _ in range(arms)]

    def choose(self, rng: np.random.Generator) -> int:
        step = sum(map(len, self.noisy)) + 1
        for arm, seen in enumerate(self.noisy):
            if len(seen) <= 4 * math.log(step + 1):
                return arm
        log = math.log(step)
        scores = [
            sum(seen) / len(seen) + math.sqrt(2 * log / len(seen)) + math.sqrt(32 * log / (self.epsilon**2 * len(seen)))
            for seen in self.noisy
        ]
        return scores.index(max(scores))

    def observe(self, arm: int, feedback: float, rng: np.random.Generator) -> None:
        self.noisy[arm].append(feedback + rng.laplace(0, 1 / self.epsilon))


class CentralUCB:
    """DP-UCB: every public sum is put together anew from the noisy nodes that cover the rewards."""

    def __init__(self, arms: int, epsilon: float) -> None:
        self.epsilon = epsilon
        self.rewards: list[list[float]] = [[] for _ in range(arms)]
        self.noise: dict[tuple[int, int, int], tuple[float, float]] = {}  # (arm, first, end) -> noise and its scale

    def cover(self, arm: int) -> list[tuple[int, int, int]]:
        """The nodes that cover the rewards: one up to each power of two, then one for each bit of the rest."""
        count = len(self.rewards[arm])
        powers = [1 << k for k in range(count.bit_length())]
        nodes = [(arm, power // 2, power) for power in powers]
        place = powers[-1]
        for bit in reversed(range(count.bit_length() - 1)):
            if count >> bit & 1:
                nodes.append((arm, place, place + (1 << bit)))
                place += 1 << bit
        return nodes

    def score(self, arm: int) -> float:
        count = len(self.rewards[arm])
        if not count:
            return math.inf
        step = sum(map(len, self.rewards)) + 1
        nodes = self.cover(arm)
        public = sum(sum(self.rewards[arm][first:end]) + self.noise[arm, first, end][0] for _, first, end in nodes)
        scales = [self.noise[node][1] for node in nodes]
        log = math.log(2 * step**4)
        spread = max(math.hypot(*scales), max(scales) * math.sqrt(log)) * math.sqrt(8 * log)
        return public / count + math.sqrt(2 * math.log(step) / count) + spread / count

    def choose(self, rng: np.random.Generator) -> int:
        scores = [self.score(arm) for arm in range(len(self.rewards))]
        return scores.index(max(scores))

    def observe(self, arm: int, feedback: float, rng: np.random.Generator) -> None:
        self.rewards[arm].append(feedback)
        count = len(self.rewards[arm])
        new = [node for node in self.cover(arm) if node not in self.noise]
        assert len(new) == 1
        levels = 1 if count & (count - 1) == 0 else count.bit_length() - 1
        scale = 2 * levels / self.epsilon
        self.noise[new[0]] = (rng.laplace(0, scale), scale)
