"""Detectors as tests of policies set them, beside their naive twins."""

from collections.abc import Callable
from typing import Any

from naive import detectors as naive_detectors

DETECTORS: dict[str, tuple[dict[str, Any], Callable[[list[float], float], bool]]] = {
    "glr": ({}, naive_detectors.glr),
    "cusum": (
        {"drift": 0.05, "threshold": 3.123, "samples": 5},
        lambda seen, delta: naive_detectors.cusum(seen, 0.05, 3.123, 5),
    ),
    "ph": ({"drift": 0.05, "threshold": 3.123}, lambda seen, delta: naive_detectors.page_hinkley(seen, 0.05, 3.123)),
    "m": ({"width": 10, "threshold": 2.5}, lambda seen, delta: naive_detectors.two_windows(seen, 10, 2.5)),
}
