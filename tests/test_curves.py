"""Looks of curves, and the bands around them."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits._util.curves import COLOURS, DASHES, MARKERS, compute_band, get_look, place_markers


def test_looks_repeat_only_after_all_combinations() -> None:
    count = len(COLOURS) * len(DASHES)
    assert len({get_look(index) for index in range(count)}) == count
    assert get_look(count) == get_look(0)


def test_neighbours_differ_without_colours() -> None:
    looks = [get_look(index) for index in range(100)]
    for window in range(len(looks) - 5):
        six = looks[window : window + 6]
        assert len({look.marker for look in six}) == 6
        assert len({look.dash for look in six}) == 6
    assert len(MARKERS) == len(COLOURS)


def test_neighbours_have_markers_at_different_places() -> None:
    starts = [place_markers(index)[0] for index in range(20)]
    assert all(abs(one - other) > 0.02 for one, other in pairwise(starts))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_std_band_is_one_deviation_on_either_side(values: list[float]) -> None:
    low, mean, high = (float(part[0]) for part in compute_band(np.array(values)[:, None], "std"))
    assert mean == pytest.approx(statistics.fmean(values), abs=1e-6)
    assert (high - low) / 2 == pytest.approx(statistics.stdev(values), rel=1e-9, abs=1e-6)


def test_quantile_band_holds_the_central_share() -> None:
    low, mean, high = compute_band(np.arange(101.0)[:, None], "quantile", 0.9)
    assert [float(low[0]), float(mean[0]), float(high[0])] == pytest.approx([5.0, 50.0, 95.0])


def test_interval_is_that_of_a_textbook() -> None:
    # means 0 and 2: t of 0.975 with one degree of freedom is 12.706, standard error 1
    low, mean, high = compute_band(np.array([[0.0], [2.0]]), "ci")
    assert [float(low[0]), float(mean[0]), float(high[0])] == pytest.approx([1 - 12.7062, 1.0, 1 + 12.7062], abs=1e-4)


def test_single_run_has_a_mean_alone() -> None:
    for band in ("ci", "std"):
        low, mean, high = compute_band(np.array([[3.0]]), band)
        assert (math.isnan(low[0]), mean[0], math.isnan(high[0])) == (True, 3.0, True)
