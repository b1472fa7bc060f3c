"""What the slow, obvious references for policies that stand alone have in common; nothing of the package is imported.

Each keeps all it has seen and reckons anew at every step. Randomness comes from the generator handed over, in the order
in which the algorithms say that it is drawn.
"""

from typing import Protocol

import numpy as np


class Policy(Protocol):
    def choose(self, rng: np.random.Generator) -> int: ...

    def observe(self, arm: int, feedback: float, rng: np.random.Generator) -> None: ...
