"""When a policy forgets everything: at planned times, or when a detector sounds the alarm.

Each way is a module with a record and functions of the names below. ``planned.py`` restarts at given times.
``detected.py`` restarts on alarms, and forces exploration so that the detectors see every arm.
"""

from maskedbandits._numba.jit import dispatch
from maskedbandits.policies.index.state import Axes

NOT_NOW = -1


@dispatch("restarts")
def forget_all(state: Axes) -> None:
    """Forget the evidence of changes."""


@dispatch("restarts")
def is_active(state: Axes) -> bool:
    """Return whether a step may restart, and not only remember and score."""
    return False


@dispatch("restarts")
def due_exploration(state: Axes) -> int:
    """Return the arm to pull now whatever its score, or NOT_NOW."""
    return NOT_NOW


@dispatch("restarts")
def is_exploration_pending(state: Axes, arm: int) -> bool:
    """Return whether a forced pull of an arm was decided and its report may still arrive."""
    return False


@dispatch("restarts", inline=False)
def restart_if_due(state: Axes, arm: int, shown: float) -> bool:
    """Restart if it is time, and plan forced exploration; return whether everything was forgotten."""
    return False


@dispatch("restarts")
def is_local(state: Axes) -> bool:
    """Return whether an alarm makes a policy forget one arm alone."""
    return False


@dispatch("restarts")
def since(state: Axes, arm: int) -> int:
    """Return when the arm was last forgotten."""
    return state.scalars[0].since
