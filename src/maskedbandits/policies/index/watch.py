"""What a policy does in a step beside remembering and scoring: it may be told to forget, or look out for changes.

``restarts.py`` forgets at given times, ``exploration.py`` when a detector says so; the state's class says which.
"""

from maskedbandits._numba.jit import dispatch
from maskedbandits.policies.index.state import Axes

NOT_NOW = -1


@dispatch("watch")
def forget_all(state: Axes) -> None:
    """Forget what was seen of changes."""


@dispatch("watch")
def is_watchful(state: Axes) -> bool:
    """Tell whether there is more to a step than to remember and to score."""
    return False


@dispatch("watch")
def due_look(state: Axes) -> int:
    """Return the arm that is to be pulled now, whatever its score, or NOT_NOW."""
    return NOT_NOW


@dispatch("watch")
def is_look_under_way(state: Axes, arm: int) -> bool:
    """Tell whether a look at an arm was decided and its report may still come."""
    return False


@dispatch("watch", inline=False)
def look_out(state: Axes, arm: int, shown: float) -> bool:
    """Restart if it is time, and plan looks; tell whether everything was forgotten."""
    return False


@dispatch("watch")
def is_local(state: Axes) -> bool:
    """Tell whether arms are forgotten singly."""
    return False


@dispatch("watch")
def since(state: Axes, arm: int) -> int:
    """Return when the arm was last forgotten."""
    return state.scalars[0].since
