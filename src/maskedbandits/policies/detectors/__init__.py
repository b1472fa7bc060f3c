"""Whether the mean of one arm's feedback, numbers in [0, 1], has changed since the detector's last restart.

A detector is a module with a record and functions of the names below.
"""

from typing import Any

from maskedbandits._numba.jit import dispatch


@dispatch("detector", inline=False)
def restart(state: Any, arm: int) -> None:
    """Forget every observation of an arm."""


@dispatch("detector", inline=False)
def detects(state: Any, arm: int, feedback: float, time: float) -> bool:
    """Take in an observation of an arm, and tell whether a change is detected in a play of so many steps."""
    return False


@dispatch("detector")
def is_worth_another_look(state: Any, arm: int) -> bool:
    """Tell whether a look at an arm raised the evidence of a change: then look again at once, not much later."""
    return False
