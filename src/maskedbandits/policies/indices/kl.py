"""The paper's index: the Kullback-Leibler upper confidence bound."""

import math

from maskedbandits._numba.jit import compiled, inlined
from maskedbandits._numba.state import Floats, Ints, array, param, record, size
from maskedbandits.math import kl, max_tree
from maskedbandits.math.confidence import exploration
from maskedbandits.policies import validation
from maskedbandits.policies.index.pending_scores import (  # noqa: F401 -- for all optimistic indices
    highest_open,
    highest_with_pending,
)
from maskedbandits.policies.index.scores import (  # noqa: F401 -- as above
    Scores,
    forget_all,
    highest_arm,
    retire,
    score,
    update_scores,
    widen,
)
from maskedbandits.policies.index.state import mean_of

WORDS = "KL index"
REFERENCE = "Gajane 2023; Cappé et al. 2013"
ARMS_COME_AND_GO = True


@record
class Index(Scores):
    """The level f(x) = log x + c log log x, and a memo of bounds."""

    memo: int = size(1)
    c: float = param(
        3.0,
        validation.between(0, math.inf),
        "factor of log log t in the exploration: 3 in the proofs, 0 in published experiments",
    )
    memo_keys: Ints = array(lambda scalars: scalars.memo, scratch=True)
    memo_bounds: Floats = array(lambda scalars: scalars.memo, scratch=True)


@inlined
def start(state: Index) -> None:
    """Empty the memo."""
    for slot in range(state.memo_keys.size):
        state.memo_keys[slot] = -1


@inlined
def common_level(state: Index, seen: float) -> float:
    """Return f of the number of observations of all arms that count."""
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
def has_memo(state: Index) -> bool:
    """Return True: bounds are looked up in a memo once the level is constant."""
    return True


@inlined
def memo_bound(count: float, total: float, level: float, keys: Ints, bounds: Floats) -> float:
    """Return kl_bound for integers, from the memo if they occurred before at the same level.

    Once the window is full the level is constant, and (count, total) takes few values. Totals that differ by one are
    adjacent in the memo, because that is the most frequent step.
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
def place_from_memo(state: Index, arm: int) -> None:
    """Update the arm's score in the tournament at a constant level."""
    value = math.inf
    if state.counts[arm] > 0.0:
        bound = memo_bound(
            state.counts[arm], state.sums[arm], state.scalars[0].level, state.memo_keys, state.memo_bounds
        )
        value = mean_of(state, arm, bound)
    max_tree.set_score(state.values, state.winners, arm, value)
