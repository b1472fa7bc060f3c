"""What the slow, obvious references for policies that stand alone have in common; nothing of the package is imported.

Each stores all it has seen and recomputes everything at every step. The generator is an argument, and is
drawn from in the order of the algorithms.
"""

from typing import Protocol

import numpy as np


class Policy(Protocol):
    def choose(self, rng: np.random.Generator) -> int: ...

    def observe(self, arm: int, feedback: float, rng: np.random.Generator) -> None: ...
