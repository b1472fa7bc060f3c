"""A log that is replayed by rejection, slowly: every row is read, and a policy counts the rows that it plays."""

from collections.abc import Sequence
from typing import Protocol


class Replayed(Protocol):
    """What is replayed: it chooses, observes, and restarts where a segment begins."""

    def choose(self) -> int: ...

    def observe(self, arm: int, feedback: float) -> None: ...

    def restart(self) -> None: ...


class Oracle:
    """Plays the best arm of every segment."""

    def __init__(self, best: Sequence[int]) -> None:
        self.best, self.segment = best, 0

    def choose(self) -> int:
        return self.best[self.segment]

    def observe(self, arm: int, feedback: float) -> None:
        pass

    def restart(self) -> None:
        self.segment += 1


def best_means(chosen: Sequence[int], rewards: Sequence[float], starts: Sequence[int], arms: int) -> list[float]:
    """The highest mean of an arm in the period of each row; 0 of an arm that the log did not choose in it."""
    best: list[float] = []
    for begin, end in zip(starts, [*starts[1:], len(chosen)], strict=True):
        means = []
        for arm in range(arms):
            brought = [rewards[row] for row in range(begin, end) if chosen[row] == arm]
            means.append(sum(brought) / len(brought) if brought else 0.0)
        best += [max(means)] * (end - begin)
    return best


def replay(
    chosen: Sequence[int],
    rewards: Sequence[float],
    starts: Sequence[int],
    policy: Replayed,
    restarts: Sequence[int] = (),
) -> tuple[list[float], list[tuple[int, int]]]:
    """The regret after each row, and the rows that were played with their arms."""
    best = best_means(chosen, rewards, starts, max(chosen) + 1)
    total, regret, played = 0.0, [], []
    for row, arm in enumerate(chosen):
        if row > 0 and row in restarts:
            policy.restart()
        if policy.choose() == arm:
            policy.observe(arm, rewards[row])
            total += best[row] - rewards[row]
            played.append((row, arm))
        regret.append(total)
    return regret, played
