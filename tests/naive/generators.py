"""A slow, obvious reference for drawn problems; nothing of the package is imported."""

import math

import numpy as np


def some_arms_change(
    arms: int,
    horizon: int,
    segments: int,
    seed: int,
    probability: float,
    smallest: float,
    largest: float,
    shortest: int,
) -> tuple[list[list[float]], list[int]]:
    """Means by segment, and the starts; moves are decided arm by arm."""
    rng = np.random.default_rng(seed)
    spare = horizon - segments * shortest
    cuts = sorted(math.floor((spare + 1) * rng.random()) for _ in range(segments - 1))
    starts = [0] + [cut + (index + 1) * shortest for index, cut in enumerate(cuts)]
    means = [[rng.random() for _ in range(arms)]]
    for _ in range(segments - 1):
        moves = [rng.random() < probability for _ in range(arms)]
        signs = [-1 if rng.random() < 0.5 else 1 for _ in range(arms)]
        sizes = [smallest + (largest - smallest) * rng.random() for _ in range(arms)]
        row = []
        for before, is_moved, sign, size in zip(means[-1], moves, signs, sizes, strict=True):
            after = before + sign * size
            if not 0 <= after <= 1:
                after = before - sign * size
            row.append(after if is_moved else before)
        means.append(row)
    return means, starts
