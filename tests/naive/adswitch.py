"""A slow, obvious reference for AdSwitch; nothing of the package is imported."""

import math

import numpy as np

from naive.exp3 import Gain


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
            draw = rng.random()
            sizes = [i for i in range(1, 31) if 2.0**-i >= self.evicted[arm][1] / self.finest]
            # the longest that begins is i with the probability that i does, and none longer
            longest = [2.0**-i * rate * math.prod(1 - 2.0**-j * rate for j in sizes if j > i) for i in sizes]
            for i, begins in reversed(list(zip(sizes, longest, strict=True))):
                if draw < begins:
                    if not self.checked(arm):
                        self.active_since[arm] = len(self.history)
                    self.checks += 1
                    self.obligations.append((arm, math.ceil(2 ** (2 * i + 1) * self.log), len(self.history)))
                    break
                draw -= begins
