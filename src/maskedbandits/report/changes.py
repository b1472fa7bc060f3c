"""How a problem changes: never, at a few times, at many, or as a drift; and its means as a panel can show them.

A drift is made of many short segments whose means move a little from one to the next. It has change points, but
nobody wants to read them: what says something is how the means move, and how far in all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maskedbandits.experiments.results import Cell

FEW = 12  # change points that a heading can list, and a panel can mark
SMALL = 0.25  # a move is small if it is at most this share of how far the means range
MOST = 0.95  # of a drift's moves are small: one in twenty may be a jump
POINTS = 1500  # of a curve of means: more than a panel has pixels

Floats = NDArray[np.float64]


def means_of(cell: Cell) -> Floats:
    """Return the arms' means, (segments, arms)."""
    return np.asarray(cell.outcome.question["means"], dtype=np.float64)


def moves(cell: Cell) -> Floats:
    """Return by how much the arm that moves most does so, for each change."""
    return np.asarray(np.abs(np.diff(means_of(cell), axis=0)).max(axis=1))


def variation(cell: Cell) -> float:
    """Return how far the means move in all: the sum of these moves, as `Problem.variation`."""
    return float(moves(cell).sum())


def are_many(cell: Cell) -> bool:
    """Tell whether there are too many change points to list: then the means themselves are drawn."""
    return len(cell.changes) > FEW


def drifts(cell: Cell) -> bool:
    """Tell a drift from abrupt changes: there are many, and nearly all are small beside the range of the means."""
    if not are_many(cell):
        return False
    reach = float(np.ptp(means_of(cell), axis=0).max())
    return float(np.quantile(moves(cell), MOST)) <= SMALL * reach


def in_words(cell: Cell) -> str:
    """Return how the problem changes, as a heading says it."""
    if not cell.changes:
        return "no change"
    if drifts(cell):
        return f"drifts (variation {variation(cell):,.3g})"
    if are_many(cell):
        return f"{len(cell.changes):,} changes (variation {variation(cell):,.3g})"
    return f"changes at {', '.join(f'{time:,}' for time in cell.changes)}"


def curves(cell: Cell) -> tuple[NDArray[np.int64], Floats]:
    """Return times and the means that hold from each of them on, at most POINTS, and the last ones at the end."""
    starts = np.array([0, *cell.changes])
    if starts.size > POINTS:
        starts = np.unique(np.linspace(0, cell.horizon, POINTS, endpoint=False).astype(np.int64))
    segments = np.searchsorted([0, *cell.changes], starts, side="right") - 1
    return np.append(starts, cell.horizon), means_of(cell)[np.append(segments, -1)]
