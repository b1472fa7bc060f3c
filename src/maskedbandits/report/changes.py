"""How a problem changes: never, at a few times, at many, or as a drift; and its means as a panel can show them.

A drift (``Problem.drifts``) has change points, but nobody wants to read them: what says something is how the means
move, and how far in all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maskedbandits.experiments.results import Cell

FEW = 12  # change points that a heading can list, and a panel can mark
POINTS = 1500  # of a curve of means: more than a panel has pixels

Floats = NDArray[np.float64]


def marks_in_words(cell: Cell) -> str:
    """Return what dashed verticals mark."""
    return "new periods" if "record" in cell.outcome.question else "the changes"


def are_many(cell: Cell) -> bool:
    """Tell whether there are too many change points to list: then the means themselves are drawn."""
    return len(cell.changes) > FEW


def in_words(cell: Cell) -> str:
    """Return how the problem changes, as a heading says it."""
    if "record" in cell.outcome.question:
        return "recorded in one period" if not cell.changes else f"recorded in {len(cell.changes) + 1:,} periods"
    if not cell.changes:
        return "no change"
    if cell.drifts:
        return f"drifts (variation {cell.variation:,.3g})"
    if are_many(cell):
        return f"{len(cell.changes):,} changes (variation {cell.variation:,.3g})"
    return f"changes at {', '.join(f'{time:,}' for time in cell.changes)}"


def curves(cell: Cell) -> tuple[NDArray[np.int64], Floats]:
    """Return times and the means that hold from each of them on, at most POINTS, and the last ones at the end."""
    starts = np.array([0, *cell.changes])
    if starts.size > POINTS:
        starts = np.unique(np.linspace(0, cell.horizon, POINTS, endpoint=False).astype(np.int64))
    segments = np.searchsorted([0, *cell.changes], starts, side="right") - 1
    return np.append(starts, cell.horizon), cell.rows[np.append(segments, -1)]
