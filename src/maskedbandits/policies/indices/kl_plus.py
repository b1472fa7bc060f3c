"""KL-UCB++: as KL, with the level log+(r (1 + log+^2 r)), r = T / (K N) (Menard and Garivier 2017)."""

from maskedbandits._numba.jit import inlined
from maskedbandits._numba.state import DURATION, REQUIRED, param, record
from maskedbandits.math.confidence import plus_level
from maskedbandits.policies import validation
from maskedbandits.policies.index.pending_scores import (  # noqa: F401 -- for all optimistic indices
    highest_with_pending,
)
from maskedbandits.policies.index.scores import (  # noqa: F401 -- as above
    Scores,
    forget_all,
    highest_arm,
    score,
    update_scores,
)
from maskedbandits.policies.indices.kl import bound as bound
from maskedbandits.policies.indices.kl import slope as slope
from maskedbandits.policies.restarts.planned import Phases

WORDS = "KL-UCB++ index"
REFERENCE = "Ménard & Garivier 2017"


@record
class Index(Scores, Phases):
    """The horizon, on which the level depends."""

    horizon: int = param(REQUIRED, validation.perhaps_count, "number of steps", stored=False, time=DURATION)


@inlined
def level(state: Index, arm: int, count: float, common: float, time: int) -> float:
    """Return the level of an arm."""
    scalars = state.scalars[0]
    return plus_level(count, float(scalars.arms), scalars.phase)


@inlined
def grows(state: Index) -> bool:
    """Return False: scores are constant while an arm is not pulled, unless its count fades."""
    return False
