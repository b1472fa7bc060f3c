"""Draws every arm alike: what learning nothing costs."""

from maskedbandits.compiled import inlined
from maskedbandits.maths import lots
from maskedbandits.policies.state import Arms, counted, forget

Policy = Arms
SUMMARY = "draws every arm alike"
LEARNS_FROM = "nothing"


@inlined
def start(state: Arms) -> None:
    """Forget everything."""
    forget(state)


@inlined
def choose(state: Arms) -> int:
    """Draw an arm."""
    arms = state.own[0].arms
    return min(int(lots.uniform(state.lots) * arms), arms - 1)


@inlined
def observe(state: Arms, arm: int, feedback: float) -> None:
    """Count the feedback."""
    counted(state, arm, feedback)


@inlined
def score(state: Arms, arm: int) -> float:
    """Return the probability of the arm."""
    return 1.0 / state.own[0].arms
