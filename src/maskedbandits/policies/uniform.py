"""Uniform: draws every arm with the same probability. It shows the cost of not learning."""

from maskedbandits._numba.jit import inlined
from maskedbandits.math import rng
from maskedbandits.policies.state import Arms

Policy = Arms
SUMMARY = "draws each arm with the same probability"
DRAWS_FROM = "scores"
LEARNS_FROM = "nothing"


@inlined
def choose(state: Arms) -> int:
    """Draw an arm."""
    arms = state.scalars[0].arms
    return min(int(rng.uniform(state.rng) * arms), arms - 1)


@inlined
def score(state: Arms, arm: int) -> float:
    """Return the probability of the arm."""
    return 1.0 / state.scalars[0].arms
