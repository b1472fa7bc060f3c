"""Monotone functions that corrupt, of every shape that matters: straight, bent, falling, nearly flat, with a kink."""

import math
from collections.abc import Callable

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "line": lambda x: 0.1 + 0.5 * x,
    "falling line": lambda x: 0.9 - 0.5 * x,
    "square": lambda x: 0.2 + 0.6 * x * x,
    "cube": lambda x: x**3,
    "falling root": lambda x: 1 - math.sqrt(x),
    "sine": math.sin,
    "flat in the middle": lambda x: 0.5 + 4 * (x - 0.5) ** 3,
    "kink": lambda x: x / 2 if x < 0.3 else 0.15 + (x - 0.3),
}
