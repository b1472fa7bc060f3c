"""Indices: the score of an arm given what is remembered of it, such as an optimistic index or a draw from a posterior.

With N observations of mean p, the index of the paper (``kl.py``) takes for ``u`` the largest q with ``N d(p, q) <= f(t
^ w)``, and is ``g^-1(u)`` for an increasing g. For a decreasing g it is ``g^-1(l)`` with the smallest such q. Flipping
the feedback of such an arm (``math/piecewise.py``) turns it into the first case. The index is not clipped to [0, 1]:
clipped, all arms would tie at 1 where privacy is strong, and play would be uniform. Other optimistic indices differ
only in u, a function of p and of the *spread* x = level / N that increases and is concave in x.

An index is a module with a record and functions of the names below. Optimistic indices import the first seven from
``index/scores.py`` and ``index/pending_scores.py``, and define only the others. An index of another kind
(``thompson.py``) defines some of the first seven. A module says ARMS_COME_AND_GO if its scores do not depend on the
number of arms.
"""

from maskedbandits._numba.jit import dispatch
from maskedbandits.policies import restarts
from maskedbandits.policies.index.state import Axes

STEEP = 1e100  # the slope of a tangent that bounds nothing


@dispatch("index")
def start(state: Axes) -> None:
    """Prepare for a play."""


@dispatch("index")
def forget_all(state: Axes) -> None:
    """Forget every score."""


@dispatch("index")
def highest_arm(state: Axes) -> int:
    """Return the arm with the highest score now."""
    return 0


@dispatch("index", inline=False)
def highest_with_pending(state: Axes) -> int:
    """Return the arm with the highest score while reports are pending; randomised indices ignore them."""
    return highest_arm(state)


@dispatch("index", inline=False)
def highest_open(state: Axes) -> int:
    """Return the arm with the highest score among those open now; randomised indices always check that."""
    return highest_arm(state)


@dispatch("index")
def update_scores(state: Axes, arm: int, evicted: int, is_resummed: bool) -> None:
    """Update the scores after an observation of an arm; all of them if the sums were recomputed."""


@dispatch("index")
def score(state: Axes, arm: int) -> float:
    """Return the score of an arm now."""
    return 0.0


@dispatch("index")
def common_level(state: Axes, seen: float) -> float:
    """Return f of the number of observations of all arms that count."""
    return 0.0


@dispatch("index")
def level(state: Axes, arm: int, count: float, common: float, time: int) -> float:
    """Return the level of an arm at a time, given the common level of all arms."""
    if restarts.is_local(state):  # with restarts of single arms, each arm has its own level
        return common_level(state, float(time - restarts.since(state, arm)))
    return common


@dispatch("index", inline=False)
def bound(state: Axes, mean: float, spread: float) -> float:
    """Return u, the upper end of the confidence interval of the feedback mean."""
    return mean


@dispatch("index", inline=False)
def slope(state: Axes, bound: float, bonus: float) -> float:
    """Return u', the slope of the bound in the spread; the bonus is u - p, above 0."""
    return STEEP


@dispatch("index")
def max_bound(state: Axes) -> float:
    """Return an upper limit of all bounds."""
    return 1.0


@dispatch("index")
def grows(state: Axes) -> bool:
    """Return whether the scores of arms that are not pulled grow with time."""
    return True


@dispatch("index")
def has_memo(state: Axes) -> bool:
    """Return whether bounds are looked up in a memo once the level is constant."""
    return False


@dispatch("index")
def place_from_memo(state: Axes, arm: int) -> None:
    """Update the arm's score in the tournament with a bound from the memo."""
