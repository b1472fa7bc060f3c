"""Faults and stand-ins at the boundaries of the package: other packages, the clock, chance and figures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # children that use devices or ledgers alone start without numba
    import pytest


def hide_packages(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Let packages look as if they were not installed."""
    for name in names:
        patch.setitem(sys.modules, name, None)


def set_device_clock(patch: pytest.MonkeyPatch, clock: Any) -> None:
    """Let devices read another clock."""
    from maskedbandits.device import device

    patch.setattr(device, "time", clock)


def set_ledger_clock(patch: pytest.MonkeyPatch, clock: Any) -> None:
    """Let ledgers read another clock."""
    from maskedbandits.privacy.ledger import period

    patch.setattr(period, "time", clock)


def set_delays(patch: pytest.MonkeyPatch, draw: Callable[[], float]) -> None:
    """Let devices draw the delays of their reports from elsewhere."""
    from maskedbandits.device import reporter

    patch.setattr(reporter, "draw_uniform", draw)


def draw_figures(patch: pytest.MonkeyPatch, kinds: Sequence[Any] = ()) -> None:
    """Let reports have figures of some kinds only, by default of none: drawing takes most of their time."""
    from maskedbandits.report import plots

    patch.setattr(plots, "PLOTS", tuple(kinds))


def write_figures_as(patch: pytest.MonkeyPatch, kind: str = "") -> None:
    """Let reports write figures as one type of file, by default as none."""
    from maskedbandits.report import style

    patch.setattr(style, "FILE_METADATA", {kind: style.FILE_METADATA[kind]} if kind else {})
