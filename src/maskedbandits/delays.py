"""How late reports come in a simulation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError, number, whole
from maskedbandits.policies.late import Mail, mail

Delays = int | Sequence[int] | tuple[str, float] | None
LONGEST = 1 << 40  # steps that a report may take


@dataclass(frozen=True, eq=False)
class Delay:
    """How late reports come: as one of these numbers of steps, or geometrically with a mean."""

    steps: NDArray[np.int64]
    mean: float = 0.0

    def draw(self, generator: np.random.Generator) -> int:
        """Draw how late a report comes."""
        if self.steps.size:
            return int(generator.choice(self.steps))
        return int(generator.geometric(1.0 / (1.0 + self.mean))) - 1

    def mail(self, horizon: int) -> Mail:
        """Return an empty mail for such reports."""
        return mail(self.steps, self.mean, horizon)


def checked(delay: Delays) -> Delay | None:
    """Return a delay as somebody has given it."""
    if delay is None:
        return None
    if isinstance(delay, str) or (isinstance(delay, tuple) and delay and isinstance(delay[0], str)):
        if len(delay) != 2 or delay[0] != "geometric":
            raise UserError(f"delay = {delay!r}: give a number of steps, a list of them, or ('geometric', mean)")
        return Delay(np.zeros(0, dtype=np.int64), number("the mean delay", delay[1], 0.0, 1e9, above=True))
    steps = [delay] if not isinstance(delay, Sequence | np.ndarray) else list(delay)
    if not steps:
        raise UserError("delay is an empty list: give numbers of steps")
    return Delay(np.array([whole("delay", each, 0, LONGEST) for each in steps], dtype=np.int64))
