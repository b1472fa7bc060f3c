"""Delays of reports in a simulation, and the share that is lost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError, check_int, check_number
from maskedbandits.policies.pending import check_expire_after
from maskedbandits.simulation.kernels import Chance, Mail, make_mail

Delays = int | Sequence[int] | tuple[str, float] | None
MAX_DELAY_STEPS = 1 << 40


@dataclass(frozen=True, eq=False)
class Delay:
    """The distribution of delays: drawn from a list of steps, or geometric; and the probability of loss."""

    steps: NDArray[np.int64]
    mean: float = 0.0
    lost: float = 0.0  # the probability that a report never arrives
    expire_after: int | None = None  # decisions until a policy gives up; None leaves it to the policy
    words: str = "delay"  # names of the given options, for errors

    def draw(self, generator: np.random.Generator) -> int | None:
        """Draw the delay of a report in steps; None if it is lost."""
        if self.lost > 0.0 and generator.random() < self.lost:
            return None
        if self.steps.size:
            return int(generator.choice(self.steps))
        return int(generator.geometric(1.0 / (1.0 + self.mean))) - 1

    def draw_paired(self, generator: np.random.Generator) -> int | None:
        """Draw the delay of a report from uniform numbers, as the compiled loop does."""
        if self.lost > 0.0 and generator.random() < self.lost:
            return None
        if self.steps.size == 1:
            return int(self.steps[0])
        uniform = generator.random()
        if self.steps.size:
            return int(self.steps[int(uniform * self.steps.size)])
        return int(min(math.log(1.0 - uniform) / -math.log1p(1.0 / self.mean), 1e15))

    def make_mail(self, horizon: int, segments: NDArray[np.int64], chance: Chance) -> Mail:
        """Return empty mail for such reports, to a policy that begins segments at these decisions."""
        return make_mail(self.steps, self.mean, horizon, chance, self.lost, segments)


def check_delay(delay: Delays, lost: float = 0.0, expire_after: int | None = None) -> Delay | None:
    """Check and return the delays that a user gave; None if all reports arrive at once."""
    share = check_number("lost", lost, 0.0, 1.0)
    after = check_expire_after("expire_after", expire_after)
    given = {"delay": delay is not None, "lost": share > 0.0, "expire_after": after is not None}
    if not any(given.values()):
        return None
    words = " and ".join(name for name, is_given in given.items() if is_given)
    if isinstance(delay, str) or (isinstance(delay, tuple) and delay and isinstance(delay[0], str)):
        if len(delay) != 2 or delay[0] != "geometric":
            raise UserError(f"delay = {delay!r}: give a number of steps, a list of them, or ('geometric', mean)")
        mean = check_number("the mean delay", delay[1], 0.0, 1e9, above=True)
        return Delay(np.zeros(0, dtype=np.int64), mean, share, after, words)
    each = 0 if delay is None else delay
    steps = list(each) if isinstance(each, Sequence | np.ndarray) else [each]
    if not steps:
        raise UserError("delay is an empty list: give numbers of steps")
    return Delay(
        np.array([check_int("delay", one, 0, MAX_DELAY_STEPS) for one in steps], dtype=np.int64),
        0.0,
        share,
        after,
        words,
    )
