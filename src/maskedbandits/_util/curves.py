"""The looks of curves and the bands around them, the same in all figures.

Neighbouring curves differ in colour, dashes and markers, so a greyscale print keeps them apart.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util.intervals import mean_half_width
from maskedbandits.errors import WrongValueError, check_number

Floats = NDArray[np.float64]
Band = Literal["ci", "quantile", "std"]
BANDS: tuple[Band, ...] = ("ci", "quantile", "std")

# The colours of Okabe and Ito suit colour-blind readers. Their yellow is too pale for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
# Lengths of dashes and gaps, in widths of the line. Their number is coprime to that of the colours.
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (4.0, 1.5),
    (1.0, 1.2),
    (6.0, 1.3, 1.0, 1.3),
    (9.0, 2.0),
    (4.0, 1.2, 1.0, 1.2, 1.0, 1.2),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
MARKER_GAP = 0.22  # between the markers of a curve, as a share of the panel's diagonal


class Look(NamedTuple):
    """The colour, dashes and marker of a curve."""

    colour: str
    dash: tuple[float, ...]
    marker: str

    @property
    def linestyle(self) -> Any:
        """The dashes as matplotlib takes them."""
        return (0, self.dash) if self.dash else "-"


def get_look(index: int) -> Look:
    """Return the look of a curve by its number; looks repeat after 42 curves."""
    return Look(COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)])


def place_markers(index: int) -> tuple[float, float]:
    """Return matplotlib's ``markevery`` for a curve: neighbours have their markers at different places."""
    return MARKER_GAP * (0.3 + index * 0.37 % 0.7), MARKER_GAP


def check_band(band: object, level: object) -> float:
    """Raise an error unless a band has this name, and return its level, checked."""
    if band is not None and (not isinstance(band, str) or band not in BANDS):
        raise WrongValueError("band", band, f"one of {', '.join(map(repr, BANDS))}, or None")
    return check_number("level", level, 0.0, 1.0, above=True, below=True)


def compute_band(samples: Floats, band: Band | None, level: float = 0.95) -> tuple[Floats, Floats, Floats]:
    """Return the lower end of a band, the mean and the upper end of each column; NaN where a single run has none."""
    mean = samples.mean(axis=0)
    if band is None:
        return mean, mean, mean
    if band == "quantile":
        low, high = np.quantile(samples, [0.5 - level / 2.0, 0.5 + level / 2.0], axis=0)
        return low, mean, high
    if band == "ci":
        half = mean_half_width(samples, level)
    else:
        half = samples.std(axis=0, ddof=1) if len(samples) > 1 else np.full(mean.shape, math.nan)
    return mean - half, mean, mean + half
