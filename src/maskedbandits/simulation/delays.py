"""How late reports arrive in a simulation, and how many never do."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError, check_int, check_number
from maskedbandits.policies.pending import check_expire_after
from maskedbandits.simulation.kernels import Mail, make_mail

Delays = int | Sequence[int] | tuple[str, float] | None
MAX_DELAY_STEPS = 1 << 40  # steps that a report may take


@dataclass(frozen=True, eq=False)
class Delay:
    """How late reports arrive: as one of these numbers of steps, or geometrically with a mean; and whether at all."""

    steps: NDArray[np.int64]
    mean: float = 0.0
    lost: float = 0.0  # the probability that a report never arrives
    expire_after: int | None = None  # decisions after which a policy gives up; None leaves it to the policy
    words: str = "delay"  # what was given

    def draw(self, generator: np.random.Generator) -> int | None:
        """Draw how late a report arrives; None if it never does."""
        if self.lost > 0.0 and generator.random() < self.lost:
            return None
        if self.steps.size:
            return int(generator.choice(self.steps))
        return int(generator.geometric(1.0 / (1.0 + self.mean))) - 1

    def make_mail(self, horizon: int, segments: NDArray[np.int64]) -> Mail:
        """Return an empty mail for such reports, to a policy that begins segments at these decisions."""
        return make_mail(self.steps, self.mean, horizon, self.lost, segments)


def check_delay(delay: Delays, lost: float = 0.0, expire_after: int | None = None) -> Delay | None:
    """Return how reports arrive, as somebody has given it; None if all arrive at once."""
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
