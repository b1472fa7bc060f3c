"""Detectors: whether the mean of an arm's feedback, numbers in [0, 1], has changed since the detector's last restart.

A detector is a module with a record and functions of the names below.
"""

from typing import Any

from maskedbandits._numba.jit import dispatch


@dispatch("detector", inline=False)
def restart(state: Any, arm: int) -> None:
    """Forget every observation of an arm."""


@dispatch("detector", inline=False)
def detects(state: Any, arm: int, feedback: float, time: float) -> bool:
    """Add an observation of an arm; return whether a change is detected in a play of ``time`` steps."""
    return False


@dispatch("detector")
def is_worth_another_look(state: Any, arm: int) -> bool:
    """Return whether a forced pull raised the evidence of a change, so that another should follow at once."""
    return False
