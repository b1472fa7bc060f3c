"""From what is remembered of an arm to its score: optimistic indices, and draws from a posterior.

With N observations of mean p, the index of the paper (``kl.py``) has ``u`` the largest q with ``N d(p, q) <= f(t ^
w)``, and is ``g^-1(u)`` for an increasing g. For a decreasing one it is ``g^-1(l)`` with the smallest such q; flipping
the feedback of such an arm (``math/piecewise.py``) turns that into the first case. The index is not clipped to [0, 1]:
clipped, all arms would tie at 1 where privacy is strong, and play would be uniform. Other optimistic indices differ in
u alone, a function of p and of the *spread* x = level / N that increases and is concave in x.

An index is a module with a record and functions of the names below. Optimistic ones have the first seven from
``axes/scores.py`` and ``axes/scans.py``, and say only what the others are; what is no optimistic one (``thompson.py``)
has some of the first seven. One whose scores do not depend on the number of arms says that ARMS_COME_AND_GO.
"""

from maskedbandits._numba.jit import dispatch
from maskedbandits.policies.index import watch
from maskedbandits.policies.index.state import Axes

STEEP = 1e100  # a tangent that is no help


@dispatch("index")
def start(state: Axes) -> None:
    """Get ready for a play."""


@dispatch("index")
def forget_all(state: Axes) -> None:
    """Forget every score."""


@dispatch("index")
def highest_arm(state: Axes) -> int:
    """Return the arm of the highest score of this moment."""
    return 0


@dispatch("index", inline=False)
def highest_ahead(state: Axes) -> int:
    """Return the arm of the highest score while reports are awaited; who draws lots draws as ever."""
    return highest_arm(state)


@dispatch("index", inline=False)
def highest_open(state: Axes) -> int:
    """Return the arm of the highest score among those that are open at this moment; who draws lots looks anyway."""
    return highest_arm(state)


@dispatch("index")
def bring_up_to_date(state: Axes, arm: int, evicted: int, tidied: bool) -> None:
    """Bring the scores up to date after an observation of an arm; all of them if sums were tidied."""


@dispatch("index")
def score(state: Axes, arm: int) -> float:
    """Return what is compared at this moment."""
    return 0.0


@dispatch("index")
def level_of(state: Axes, seen: float) -> float:
    """Return f of the number of observations that count, of all arms together."""
    return 0.0


@dispatch("index")
def level(state: Axes, arm: int, count: float, common: float, time: int) -> float:
    """Return the level of an arm at a time, where that of all arms together is known."""
    if watch.is_local(state):  # with restarts of single arms each has a level of its own
        return level_of(state, float(time - watch.since(state, arm)))
    return common


@dispatch("index", inline=False)
def bound(state: Axes, mean: float, spread: float) -> float:
    """Return u, the upper end of the confidence interval of the feedback mean."""
    return mean


@dispatch("index", inline=False)
def slope(state: Axes, bound: float, bonus: float) -> float:
    """Return u', how steeply the bound rises with the spread; the bonus is u - p, above 0."""
    return STEEP


@dispatch("index")
def highest(state: Axes) -> float:
    """Return what no bound passes."""
    return 1.0


@dispatch("index")
def grows(state: Axes) -> bool:
    """Tell whether scores of arms that are not pulled grow with time alone."""
    return True


@dispatch("index")
def is_remembered(state: Axes) -> bool:
    """Tell whether bounds are looked up once the level stays."""
    return False


@dispatch("index")
def replace(state: Axes, arm: int) -> None:
    """Bring the arm's place in the tournament up to date by looking its bound up."""
