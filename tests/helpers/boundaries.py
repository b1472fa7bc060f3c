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


def shorten_ledger_waits(patch: pytest.MonkeyPatch, seconds: float = 0.05) -> None:
    """Let ledgers and outboxes wait less for a locked file."""
    from maskedbandits.privacy.ledger import storage

    patch.setattr(storage, "LOCK_TIMEOUT_S", seconds)


def shorten_store_waits(patch: pytest.MonkeyPatch, seconds: float = 0.05) -> None:
    """Let stores wait less for a lock, and the service for a store."""
    from maskedbandits.service import log_writer
    from maskedbandits.service.storage import errors

    patch.setattr(errors, "LOCK_TIMEOUT_S", seconds)
    patch.setattr(log_writer, "COMMIT_TIMEOUT_S", seconds)


def pause_after_steps(patch: pytest.MonkeyPatch, steps: int) -> None:
    """Let simulations leave compiled code after so many steps."""
    from maskedbandits.simulation import runs

    patch.setattr(runs, "STEPS_PER_CALL", steps)


def shorten_loads(patch: pytest.MonkeyPatch, seconds: float = 1e-9) -> None:
    """Let loads of work be so short that each has one run."""
    from maskedbandits.experiments import work_units

    patch.setattr(work_units, "MAX_LOAD_S", seconds)
