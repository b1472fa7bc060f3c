"""A bandit step by step: the reward is drawn first, then masked, then perhaps replaced by a lie."""

from collections.abc import Callable, Sequence

from numpy.random import Generator

Draw = Callable[[Generator, float], float]


def flip(p00: float, p11: float) -> Draw:
    """Return a draw of a bit that is reported truthfully with probability p00 or p11."""

    def draw(generator: Generator, mean: float) -> float:
        reward = generator.random() < mean
        is_true = generator.random() < (p11 if reward else p00)
        return float(reward if is_true else not reward)

    return draw


class Bandit:
    """Means that change at given steps, with a draw of feedback for each arm."""

    def __init__(
        self,
        means: Sequence[Sequence[float]],
        starts: Sequence[int],
        horizon: int,
        draws: Sequence[Draw],
        lies: Sequence[bool],
        liars: float,
    ) -> None:
        self.means, self.starts, self.horizon = means, starts, horizon
        self.draws, self.lies, self.liars = draws, lies, liars  # lies: what a lie says of an arm that is not the best

    def play(self, actions: Sequence[int], generator: Generator) -> list[tuple[float, float, bool]]:
        """Return feedback, cost and whether it was the last step, step by step."""
        played = []
        for step, arm in enumerate(actions):
            now = self.means[max(row for row, start in enumerate(self.starts) if start <= step)]
            feedback = self.draws[arm](generator, now[arm])
            if generator.random() < self.liars:
                is_best = now[arm] == max(now)
                feedback = float(not self.lies[arm] if is_best else self.lies[arm])
            played.append((feedback, max(now) - now[arm], step + 1 == self.horizon))
        return played
