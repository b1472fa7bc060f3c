"""The likelihood-ratio test is that of a scan of every split, in few looks and little room."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import beta

from maskedbandits._numba.jit import interpret
from maskedbandits.policies.detectors import glr
from naive import detectors as naive
from single_detector import Floats, bits, first_alarm, fresh, observe, restart, streams_with_alarm
from trials import INTERPRETED, outside

statistic = outside(glr.statistic)
many_streams = pytest.mark.skipif(INTERPRETED, reason="too many observations without the compiler")


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
def test_statistic_equals_full_scan(stream: list[float]) -> None:
    state = fresh(glr, delta=1e-300)
    first_alarm(state, stream)
    assert statistic(state, 0) == pytest.approx(naive.glr_statistic(stream), rel=1e-9, abs=1e-9)


@given(streams, levels)
@example([0.0] * 100 + [1.0] * 10, 0.01)
@example([0.0] * 30 + [1.0] * 30, 0.01)
@example([0.2] * 60 + [0.8] * 60, 0.05)
def test_alarms_equal_full_scan(stream: list[float], delta: float) -> None:
    when = naive.first_alarm(stream, lambda past: naive.glr(past, delta))
    assert first_alarm(fresh(glr, delta=delta), stream) == when


@given(streams, st.lists(levels, min_size=1, max_size=5))
def test_changing_level_applies_at_once(stream: list[float], schedule: list[float]) -> None:
    state = fresh(glr)
    for n, (feedback, delta) in enumerate(zip(stream, itertools.cycle(schedule), strict=False), start=1):
        state.scalars["delta"] = delta
        assert observe(state, 0, feedback, 1.0) == naive.glr(stream[:n], delta)


@given(streams, st.floats(0.01, 1), st.integers(1, 10**6))
def test_level_falls_with_root_of_time(stream: list[float], delta: float, time: int) -> None:
    state = fresh(glr, delta=delta)
    for n, feedback in enumerate(stream, start=1):
        assert observe(state, 0, feedback, float(time)) == naive.glr(stream[:n], delta / math.sqrt(time))


def test_hulls_are_evaluated_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2,000 observations without a change, one in ten is enough to be sure that there is no alarm."""
    looks, look = itertools.count(), interpret(glr._evaluate)
    monkeypatch.setattr(glr, "_evaluate", lambda *arguments: next(looks) < 0 or look(*arguments))
    state = fresh(glr, delta=0.01)
    for feedback in bits(np.random.default_rng(8), (2000, 0.3)):
        assert not interpret(glr.detects)(state, 0, feedback, 1.0)
    assert 2 < next(looks) < 200


@pytest.mark.parametrize("mean", [0.02, 0.5, 0.9])
def test_long_streams(mean: float) -> None:
    stream = bits(np.random.default_rng(1), (2000, mean), (300, mean + 0.05))
    state, vertices = fresh(glr, delta=1e-9), 0
    for n, feedback in enumerate(stream, start=1):
        observe(state, 0, feedback, 1.0)
        vertices = max(vertices, state.lower_sizes[0], state.upper_sizes[0])
        if n % 100 == 0:
            assert statistic(state, 0) == pytest.approx(naive.glr_statistic(stream[:n].tolist()), rel=1e-9)
    assert vertices < 30


@many_streams
def test_hulls_of_a_million_observations_are_small() -> None:
    state = fresh(glr, delta=0.01)
    assert first_alarm(state, bits(np.random.default_rng(2), (10**6, 0.5))) == 0
    assert state.lengths[0] == 10**6
    assert state.lower_sizes[0] + state.upper_sizes[0] < 80  # expected: 2 log n = 28


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1 / 3])
def test_equal_feedback_raises_no_alarm(value: float) -> None:
    state = fresh(glr, delta=0.9)
    n = 300 if INTERPRETED else 10**5
    assert first_alarm(state, np.full(n, value)) == 0
    assert np.isfinite(state.floats).all()
    assert statistic(state, 0) < 1e-9
    assert max(state.lower_sizes[0], state.upper_sizes[0]) < 10
    assert 0 < first_alarm(state, np.full(100, 1.0 - round(value))) < 50


@given(streams, st.integers(8, 12), levels)
@example(convex(300).tolist(), 8, 0.05)
@example(np.linspace(0, 1, 200).tolist(), 9, 0.05)
@example(np.linspace(1, 0, 200).tolist(), 10, 0.05)
def test_full_hull_never_exceeds_full_scan(stream: list[float], room: int, delta: float) -> None:
    with pytest.MonkeyPatch.context() as patch:  # the interpreter looks constants up when it runs
        patch.setattr(glr, "HULL_SIZE", 2 * room)
        state = fresh(glr, delta=delta)
        for n, feedback in enumerate(stream, start=1):
            alarm = interpret(glr.detects)(state, 0, feedback, 1.0)
            assert max(state.lower_sizes[0], state.upper_sizes[0]) <= room
            if alarm or n == len(stream):
                full = naive.glr_statistic(stream[:n])
                assert interpret(glr.statistic)(state, 0) <= full + 1e-9
                assert not alarm or full >= naive.glr_threshold(n, delta) - 1e-9
                break


@many_streams
def test_full_hull_loses_little() -> None:
    stream = 0.5 + 0.4 * np.linspace(0, 1, 4000) ** 2  # every point of its sums is a vertex
    state = fresh(glr, delta=1e-300)
    first_alarm(state, stream)
    assert state.lower_sizes[0] == glr.MAX_POINTS
    assert statistic(state, 0) == pytest.approx(naive.glr_statistic(stream.tolist()), rel=1e-3)


@many_streams
@pytest.mark.parametrize("mean", [0.01, 0.1, 0.5, 0.8])
def test_false_alarms_stay_below_level(mean: float) -> None:
    runs, n, delta = 4_000, 1000, 0.05
    rng = np.random.default_rng(3)
    feedback = (rng.random((runs, n)) < mean).astype(np.float64)
    alarms = streams_with_alarm(fresh(glr, delta=delta), feedback)
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
def test_detection_delay_matches_theory(before: float) -> None:
    start, delta, runs = 3000, 0.01, 200
    rng = np.random.default_rng(4)
    means = []
    for after in (before + 0.1, before + 0.2, before + 0.4):
        state, delays = fresh(glr, delta=delta), []
        for _ in range(runs):
            restart(state, 0)
            when = first_alarm(state, bits(rng, (start, before), (start, after)))
            if not 0 < when <= start:
                delays.append(when - start if when else start)
        assert len(delays) > 0.98 * runs
        means.append(np.mean(delays))
        assert 0.75 < means[-1] / expected_delay(before, after, start, delta) < 1.1
        assert means[-1] > math.log(1 / delta) / naive.divergence(after, before)  # no detector can do better
    assert means[0] > 1.5 * means[1] > 2 * means[2]
