"""Made-up results for tests of reports: regret grows like a square root."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from maskedbandits.experiments.results import Cell, CellOutcome, Label, Manifest, Results

HORIZON = 1000
NO_PRIVACY = math.inf
TWO_SEGMENTS = ((0.9, 0.1), (0.1, 0.9))


def outcome(
    scale: float,
    runs: int = 8,
    window: int | None = None,
    means: ArrayLike = TWO_SEGMENTS,
    starts: Sequence[int] = (0, 400),
) -> CellOutcome:
    rng = np.random.default_rng(int(scale * 100))
    times = np.arange(100, HORIZON + 1, 100)
    regret = scale * np.sqrt(times) * rng.uniform(0.9, 1.1, size=(runs, 1))
    spec = {
        "means": np.asarray(means).tolist(),
        "starts": list(starts),
        "horizon": HORIZON,
        "p00": [0.8] * len(np.asarray(means)[0]),
        "p11": [0.8] * len(np.asarray(means)[0]),
        "policy": "sw-klucb-cf" if window else "klucb-cf",
        "parameters": {"window": window} if window else {},
        "seed": 7,
        "runs": runs,
        "checkpoints": len(times),
    }
    pulls = np.full((runs, 2), HORIZON // 2)
    over_time = np.repeat(runs * times[:, None] // 2, 2, axis=1)
    return CellOutcome(spec, times, regret, pulls, np.full((runs, 2), 50), 0.5, over_time)


def results(
    epsilons: tuple[float | None, ...] = (0.5, 1.0, NO_PRIVACY), problems: tuple[str, ...] = ("one",)
) -> Results:
    cells = []
    for problem in problems:
        for place, epsilon in enumerate(epsilons):
            for policy, window, slow in (("with window", 50, 1.0), ("without <window>", None, 2.0)):
                label = Label(f"{problem}{place}{policy[:5]}", problem, policy, epsilon, "paper" if window else None)
                label = dataclasses.replace(label, published=40.0 if slow == 1.0 else None)
                cells.append(Cell(label, outcome(slow * (5 - place), window=window)))
    return of_cells(cells)


def of_cells(cells: Sequence[Cell]) -> Results:
    labels = tuple(cell.label for cell in cells)
    manifest = Manifest("A <title>", "0.1.0", "maskedbandits run a.toml", "a.toml", 'title = "A <title>"\n', labels)
    return Results(manifest, tuple(cells))


def named(names: Sequence[str], problem: str = "one", epsilons: Sequence[float] = (1.0,)) -> Results:
    """Results of policies with these labels."""
    return of_cells(
        [
            Cell(Label(f"{epsilon}-{place}", problem, name, epsilon), outcome(1.0 + place))
            for epsilon in epsilons
            for place, name in enumerate(names)
        ]
    )


def changing(means: ArrayLike, starts: Sequence[int] | None = None, epsilons: Sequence[float] = (1.0,)) -> Results:
    """Results of one policy on a problem with these means, a row for each segment."""
    rows = len(np.asarray(means))
    begins = [place * HORIZON // rows for place in range(rows)] if starts is None else list(starts)
    return of_cells(
        [
            Cell(Label(str(epsilon), "one", "policy", epsilon), outcome(1.0, means=means, starts=begins))
            for epsilon in epsilons
        ]
    )


def sinusoid(segments: int = 200, periods: float = 2.0) -> np.ndarray:
    """The means of a drift."""
    angles = 2 * np.pi * (periods * np.arange(segments)[:, None] / segments + np.array([0.0, 0.5]))
    return np.asarray(0.5 + 0.4 * np.sin(angles))
