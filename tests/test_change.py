import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from maskedbandits.core.compiled import compiled
from numpy.typing import NDArray
from scipy.stats import beta

import naive_change as naive
from maskedbandits.core import change

Floats = NDArray[np.float64]

NONE = np.zeros(3)
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
many_streams = pytest.mark.skipif(INTERPRETED, reason="too many observations without the compiler")


@compiled
def first_alarm(kind: int, box: Floats, stream: Floats, delta: float, parameters: Floats) -> int:
    for n in range(stream.size):
        if change.observe(kind, box, stream[n], delta, parameters):
            return n + 1
    return 0


@compiled
def streams_with_alarm(box: Floats, streams: Floats, delta: float, parameters: Floats) -> int:
    alarms = 0
    for stream in range(streams.shape[0]):
        change.restart(change.GLR, box)
        alarms += first_alarm(change.GLR, box, streams[stream], delta, parameters) > 0
    return alarms


def fresh(kind: int, parameter: int = change.HULL) -> Floats:
    box = np.zeros(change.box_size(kind, parameter))
    change.configure(kind, box, parameter)
    return box


def bits(rng: np.random.Generator, *stretches: tuple[int, float]) -> Floats:
    return np.concatenate([rng.random(n) < mean for n, mean in stretches]).astype(np.float64)


def convex(n: int) -> Floats:
    """Bits whose sums follow a parabola, so that the lower hull has as many vertices as it can."""
    return np.diff(np.floor(np.arange(n + 1) ** 2 / (2 * n)))


@st.composite
def changing(draw: st.DrawFn) -> list[float]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    stretch = st.tuples(st.integers(1, 90), st.sampled_from([0.0, 0.03, 0.2, 0.5, 0.8, 1.0]))
    stream: list[float] = bits(rng, *draw(st.lists(stretch, min_size=1, max_size=3))).tolist()
    return stream


streams = st.one_of(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=60),
    st.lists(st.floats(0, 1), min_size=1, max_size=60),
    st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=1, max_size=120),
    changing(),
    st.tuples(st.floats(0, 1), st.integers(1, 100)).map(lambda pair: [pair[0]] * pair[1]),
)
levels = st.floats(-6, -0.01).map(lambda exponent: 10.0**exponent)


@given(streams)
@example([0.0] * 300)
@example([1.0] * 300)
@example([0.0, 1.0] * 150)
@example([1.0, 1.0, 0.0] * 100)
@example([0.1] * 300)
@example([5e-324, 1.0, 5e-324, 0.0])
@example([1 - 2**-53] * 20 + [2**-53] * 20)
@example(convex(300).tolist())
def test_statistic_is_that_of_the_full_scan(stream: list[float]) -> None:
    box = fresh(change.GLR)
    first_alarm(change.GLR, box, np.array(stream), 1e-300, NONE)
    assert change.glr_statistic(box) == pytest.approx(naive.glr_statistic(stream), rel=1e-9, abs=1e-9)


@given(streams, levels)
@example([0.0] * 100 + [1.0] * 10, 0.01)
@example([0.0] * 30 + [1.0] * 30, 0.01)
@example([0.2] * 60 + [0.8] * 60, 0.05)
def test_alarms_when_the_full_scan_does(stream: list[float], delta: float) -> None:
    when = naive.first_alarm(stream, lambda past: naive.glr(past, delta))
    assert first_alarm(change.GLR, fresh(change.GLR), np.array(stream), delta, NONE) == when


@given(streams, st.lists(levels, min_size=1, max_size=5))
def test_a_level_that_changes_is_that_of_the_moment(stream: list[float], schedule: list[float]) -> None:
    box = fresh(change.GLR)
    for n, (feedback, delta) in enumerate(zip(stream, itertools.cycle(schedule), strict=False), start=1):
        assert change.observe(change.GLR, box, feedback, delta, NONE) == naive.glr(stream[:n], delta)


@pytest.mark.parametrize("mean", [0.02, 0.5, 0.9])
def test_long_streams(mean: float) -> None:
    stream = bits(np.random.default_rng(1), (2000, mean), (300, mean + 0.05))
    box, vertices = fresh(change.GLR), 0.0
    for n, feedback in enumerate(stream, start=1):
        change.observe(change.GLR, box, feedback, 1e-9, NONE)
        vertices = max(vertices, box[change.LOWER], box[change.UPPER])
        if n % 100 == 0:
            assert change.glr_statistic(box) == pytest.approx(naive.glr_statistic(stream[:n].tolist()), rel=1e-9)
    assert vertices < 30


@many_streams
def test_hulls_of_a_million_observations_are_small() -> None:
    box = fresh(change.GLR)
    assert first_alarm(change.GLR, box, bits(np.random.default_rng(2), (10**6, 0.5)), 0.01, NONE) == 0
    assert box[change.COUNT] == 10**6
    assert box[change.LOWER] + box[change.UPPER] < 80  # expected: 2 log n = 28


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1 / 3])
def test_equal_feedback_is_no_change(value: float) -> None:
    box = fresh(change.GLR)
    n = 300 if INTERPRETED else 10**5
    assert first_alarm(change.GLR, box, np.full(n, value), 0.9, NONE) == 0
    assert np.isfinite(box).all()
    assert change.glr_statistic(box) < 1e-9
    assert max(box[change.LOWER], box[change.UPPER]) < 10
    other = np.full(100, 1.0 - round(value))
    assert 0 < first_alarm(change.GLR, box, other, 0.9, NONE) < 50


@given(streams, st.integers(8, 12), levels)
@example(convex(300).tolist(), 8, 0.05)
@example(np.linspace(0, 1, 200).tolist(), 9, 0.05)
@example(np.linspace(1, 0, 200).tolist(), 10, 0.05)
def test_a_full_hull_never_exaggerates(stream: list[float], room: int, delta: float) -> None:
    box = fresh(change.GLR, room)
    for n, feedback in enumerate(stream, start=1):
        alarm = change.observe(change.GLR, box, feedback, delta, NONE)
        assert max(box[change.LOWER], box[change.UPPER]) <= room
        if alarm or n == len(stream):
            full = naive.glr_statistic(stream[:n])
            assert change.glr_statistic(box) <= full + 1e-9
            assert not alarm or full >= naive.glr_threshold(n, delta) - 1e-9
            break


@many_streams
def test_a_full_hull_loses_little() -> None:
    stream = 0.5 + 0.4 * np.linspace(0, 1, 4000) ** 2  # every point of its sums is a vertex
    box = fresh(change.GLR)
    first_alarm(change.GLR, box, stream, 1e-300, NONE)
    assert box[change.LOWER] == change.HULL
    assert change.glr_statistic(box) == pytest.approx(naive.glr_statistic(stream.tolist()), rel=1e-3)


@many_streams
@pytest.mark.parametrize("mean", [0.01, 0.1, 0.5, 0.8])
def test_false_alarms_are_rarer_than_the_level(mean: float) -> None:
    runs, n, delta = 10_000, 1000, 0.05
    rng = np.random.default_rng(3)
    feedback = (rng.random((runs, n)) < mean).astype(np.float64)
    alarms = streams_with_alarm(fresh(change.GLR), feedback, delta, NONE)
    assert beta.ppf(0.9999, alarms + 1, runs - alarms) < delta


def expected_delay(before: float, after: float, start: int, delta: float) -> int:
    """Observations until the statistic of the *means*, split at the change, passes the threshold."""
    for n in range(1, 100 * start):
        mean = (start * before + n * after) / (start + n)
        evidence = start * naive.divergence(before, mean) + n * naive.divergence(after, mean)
        if evidence >= naive.glr_threshold(start + n, delta):
            return n
    raise AssertionError("no such change can be detected")


@many_streams
@pytest.mark.parametrize("before", [0.1, 0.5])
def test_delay_is_that_of_theory(before: float) -> None:
    start, delta, runs = 3000, 0.01, 200
    rng = np.random.default_rng(4)
    means = []
    for after in (before + 0.1, before + 0.2, before + 0.4):
        box, delays = fresh(change.GLR), []
        for _ in range(runs):
            change.restart(change.GLR, box)
            when = first_alarm(change.GLR, box, bits(rng, (start, before), (start, after)), delta, NONE)
            if not 0 < when <= start:
                delays.append(when - start if when else start)
        assert len(delays) > 0.98 * runs
        means.append(np.mean(delays))
        assert 0.75 < means[-1] / expected_delay(before, after, start, delta) < 1.1
        assert means[-1] > math.log(1 / delta) / naive.divergence(after, before)  # no detector can do better
    assert means[0] > 1.5 * means[1] > 2 * means[2]


dyadic = st.one_of(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=120),
    st.lists(st.integers(0, 8).map(lambda k: k / 8), min_size=1, max_size=120),
)
drifts = st.integers(0, 8).map(lambda k: k / 32)
thresholds = st.integers(0, 24).map(lambda k: 0.51 + k / 2)  # no sum ever ties with it


@given(dyadic, drifts, thresholds, st.sampled_from([1, 4, 16]))
@example([0.0] * 20 + [1.0] * 9, 0.0, 8.01, 16)
@example([1.0] * 20 + [0.0] * 9, 0.0, 8.01, 16)
@example([0.0] * 20 + [1.0] * 9, 0.0, 8.0, 16)  # reaching the threshold is enough
def test_cusum(stream: list[float], drift: float, threshold: float, samples: int) -> None:
    parameters = np.array([drift, threshold, samples])
    when = first_alarm(change.CUSUM, fresh(change.CUSUM), np.array(stream), 0.1, parameters)
    assert when == naive.first_alarm(stream, lambda past: naive.cusum(past, drift, threshold, samples))


@given(dyadic, drifts, thresholds)
@example([0.0] * 20 + [1.0] * 12, 0.05, 5.0)
@example([1.0] * 20 + [0.0] * 12, 0.05, 5.0)
def test_page_hinkley(stream: list[float], drift: float, threshold: float) -> None:
    parameters = np.array([drift, threshold, 0.0])
    when = first_alarm(change.PAGE_HINKLEY, fresh(change.PAGE_HINKLEY), np.array(stream), 0.1, parameters)
    assert when == naive.first_alarm(stream, lambda past: naive.page_hinkley(past, drift, threshold))


@given(dyadic, thresholds, st.integers(1, 20))
@example([0.0] * 20 + [1.0] * 6, 5.01, 8)
@example([1.0] * 20 + [0.0] * 6, 5.01, 10)
@example([1.0] * 20 + [0.0] * 6, 4.0, 4)  # reaching the threshold is not
@example([1.0] * 20 + [0.0] * 6, 4.0, 5)
def test_two_windows(stream: list[float], threshold: float, half: int) -> None:
    box = fresh(change.TWO_WINDOWS, 2 * half)
    when = first_alarm(change.TWO_WINDOWS, box, np.array(stream), 0.1, np.array([0.0, threshold, 0.0]))
    assert when == naive.first_alarm(stream, lambda past: naive.two_windows(past, 2 * half, threshold))


def test_two_windows_of_fractions_do_not_drift() -> None:
    rng = np.random.default_rng(5)
    box, stream = fresh(change.TWO_WINDOWS, 10), rng.random(3003)
    first_alarm(change.TWO_WINDOWS, box, stream, 0.1, np.array([0.0, 5.0, 0.0]))
    assert box[change.RECENT] == pytest.approx(stream[-5:].sum(), abs=1e-14)
    assert box[change.OLDER] == pytest.approx(stream[-10:-5].sum(), abs=1e-14)


PARAMETERS = np.array([0.05, 8.0, 20.0])
ROOMS = {change.NOTHING: 0, change.GLR: 8, change.CUSUM: 0, change.PAGE_HINKLEY: 0, change.TWO_WINDOWS: 30}


def trace(kind: int) -> tuple[list[int], list[float]]:
    """The alarms of a stream, with a restart after each, and what the box holds in the end."""
    box = fresh(kind, ROOMS[kind])
    alarms = []
    rng = np.random.default_rng(6)
    for n, feedback in enumerate([*bits(rng, (200, 0.1), (200, 0.9), (200, 0.1), (150, 0.5)), *rng.random(100)]):
        if change.observe(kind, box, feedback, 1 / (n + 2), PARAMETERS):
            alarms.append(n)
            change.restart(kind, box)
    return alarms, box.tolist()


@pytest.mark.parametrize("kind", ROOMS)
def test_a_restart_forgets_everything(kind: int) -> None:
    used, new = fresh(kind, ROOMS[kind]), fresh(kind, ROOMS[kind])
    rng = np.random.default_rng(7)
    first_alarm(kind, used, rng.random(77), 1e-9, np.array([0.0, math.inf, 20.0]))
    change.restart(kind, used)
    for feedback in bits(rng, (100, 0.9), (60, 0.2)):
        alarm = change.observe(kind, new, feedback, 0.05, PARAMETERS)
        assert change.observe(kind, used, feedback, 0.05, PARAMETERS) == alarm
        np.testing.assert_array_equal(used[: change.HEAD], new[: change.HEAD])


def test_every_detector_notices_the_changes() -> None:
    for kind in ROOMS:
        alarms, box = trace(kind)
        assert len(box) == change.box_size(kind, ROOMS[kind])
        if kind == change.NOTHING:
            assert alarms == []
            continue
        for start in (200, 400):
            assert any(start <= alarm < start + 60 for alarm in alarms), (kind, alarms)


@many_streams
def test_kernels_do_the_same_with_the_compiler_off() -> None:
    script = "import json, test_change as t; print(json.dumps([t.trace(kind) for kind in t.ROOMS]))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    for kind, (alarms, box) in zip(ROOMS, json.loads(done.stdout), strict=True):
        compiled_alarms, compiled_box = trace(kind)
        assert alarms == compiled_alarms
        np.testing.assert_allclose(box, compiled_box, rtol=1e-13, atol=1e-13)
