"""The paper's index: the Kullback-Leibler upper confidence bound."""

import math

from maskedbandits._numba.jit import compiled, inlined
from maskedbandits._numba.state import Floats, Ints, array, param, record, size
from maskedbandits.math import kl, max_tree
from maskedbandits.math.confidence import exploration
from maskedbandits.policies import validation
from maskedbandits.policies.index.pending_scores import (  # noqa: F401 -- what every optimistic index has
    highest_ahead,
    highest_open,
)
from maskedbandits.policies.index.scores import (  # noqa: F401 -- as above
    Scores,
    bring_up_to_date,
    forget_all,
    highest_arm,
    retire,
    score,
    widen,
)
from maskedbandits.policies.index.state import mean_of

WORDS = "KL index"
REFERENCE = "Gajane 2023; Cappé et al. 2013"
ARMS_COME_AND_GO = True


@record
class Index(Scores):
    """The level f(x) = log x + c log log x, and bounds that are known already."""

    memo: int = size(1)
    c: float = param(
        3.0,
        validation.between(0, math.inf),
        "how much exploration log log t adds to log t: 3 in the proofs, 0 in published experiments",
    )
    memo_keys: Ints = array(lambda scalars: scalars.memo, scratch=True)
    memo_bounds: Floats = array(lambda scalars: scalars.memo, scratch=True)


@inlined
def start(state: Index) -> None:
    """Know no bounds yet."""
    for slot in range(state.memo_keys.size):
        state.memo_keys[slot] = -1


@inlined
def level_of(state: Index, seen: float) -> float:
    """Return f of the number of observations that count, of all arms together."""
    return exploration(max(1.0, seen), state.scalars[0].c)


@compiled
def kl_bound(mean: float, spread: float) -> float:
    """Return u, the upper end of the confidence interval of the feedback mean, with the spread f / N."""
    return kl.upper(min(max(mean, 0.0), 1.0), spread)


@inlined
def bound(state: Index, mean: float, spread: float) -> float:
    """Return u."""
    return kl_bound(mean, spread)


@inlined
def slope(state: Index, bound: float, bonus: float) -> float:
    """Return u' = u (1 - u) / (u - p)."""
    return bound * (1.0 - bound) / bonus


@inlined
def is_remembered(state: Index) -> bool:
    """Tell that bounds are looked up once the level stays."""
    return True


@inlined
def remembered_bound(count: float, total: float, level: float, keys: Ints, bounds: Floats) -> float:
    """Return kl_bound for whole numbers, looked up if the same were seen before at the same level.

    Once the window is full the level stays, and (count, total) walks over few values. Totals that differ by one
    lie side by side in the memo, since that is the step that the walk takes most often.
    """
    n = int(count)
    s = int(total)
    slot = (n * 977 + s) & (keys.size - 1)
    key = (n << 32) | s
    if keys[slot] != key:
        keys[slot] = key
        bounds[slot] = kl_bound(total / count, level / count)
    return bounds[slot]


@inlined
def replace(state: Index, arm: int) -> None:
    """Bring the arm's place in the tournament up to date, at a constant level."""
    value = math.inf
    if state.counts[arm] > 0.0:
        bound = remembered_bound(
            state.counts[arm], state.sums[arm], state.scalars[0].level, state.memo_keys, state.memo_bounds
        )
        value = mean_of(state, arm, bound)
    max_tree.place(state.values, state.winners, arm, value)
