"""A detector on its own: the state of one arm, and compiled loops that show it a stream."""

from functools import cache
from types import ModuleType
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.state import Layout, layout_of
from maskedbandits.policies import detectors
from maskedbandits.policies.detectors import cusum, glr, page_hinkley, two_windows
from trials import outside

Floats = NDArray[np.float64]

PARAMETERS: dict[ModuleType, dict[str, Any]] = {
    glr: {},
    cusum: {"drift": 0.05, "threshold": 8.0, "samples": 20},
    page_hinkley: {"drift": 0.05, "threshold": 8.0},
    two_windows: {"threshold": 8.0, "width": 30},
}

restart = outside(detectors.restart)
observe = outside(detectors.detects)


@cache
def _layout(detector: Any) -> Layout:
    name = detector.__name__.rsplit(".", 1)[-1]
    return Layout(f"alone_{name}", [detector.Detector], __name__, detector=detector)


def fresh(detector: ModuleType, **parameters: Any) -> Any:
    """Return the state of a detector that has seen nothing, of one arm."""
    layout = _layout(detector)
    known = {**{key: what.default for key, what in layout.params.items()}, **parameters}
    sizes = detector.sizes(known) if hasattr(detector, "sizes") else {}
    state = layout.build({"arms": 1, **sizes}, known)
    restart(state, 0)
    return state


def read_memory(state: Any) -> dict[str, list[float]]:
    """Return what a detector's sections hold; of hulls, what is part of them."""
    found = {key: getattr(state, key).tolist() for key in layout_of(state).arrays}
    for hull in {"lower", "upper"} & set(found):
        found[hull] = found[hull][: 2 * found[f"{hull}_sizes"][0]]
    return found


@numba.njit(error_model="numpy")
def _first_alarm(state: Any, stream: Floats) -> int:
    for n in range(stream.size):
        if detectors.detects(state, 0, stream[n], 1.0):
            return n + 1
    return 0


def first_alarm(state: Any, stream: Any) -> int:
    """Return how many observations it takes until the first alarm, 0 if there is none."""
    return int(_first_alarm(state, np.asarray(stream, dtype=np.float64)))


@numba.njit(error_model="numpy")
def streams_with_alarm(state: Any, streams: Floats) -> int:
    """Return in how many streams there is an alarm."""
    alarms = 0
    for stream in range(streams.shape[0]):
        detectors.restart(state, 0)
        alarms += _first_alarm(state, streams[stream]) > 0
    return alarms


def bits(rng: np.random.Generator, *stretches: tuple[int, float]) -> Floats:
    """Draw bits whose mean changes: lengths and means of stretches."""
    return np.concatenate([rng.random(n) < mean for n, mean in stretches]).astype(np.float64)


def trace(detector: ModuleType) -> tuple[list[int], dict[str, list[float]]]:
    """Return the alarms of a stream, with a restart after each, and what is remembered in the end."""
    state = fresh(detector, **PARAMETERS[detector])
    alarms = []
    rng = np.random.default_rng(6)
    for n, feedback in enumerate([*bits(rng, (200, 0.1), (200, 0.9), (200, 0.1), (150, 0.5)), *rng.random(100)]):
        if observe(state, 0, feedback, float(n + 2) ** 2):
            alarms.append(n)
            restart(state, 0)
    return alarms, read_memory(state)
