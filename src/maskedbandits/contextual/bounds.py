"""A bound on the regret of a contextual policy, group by group: each is a corrupt bandit, and has that bandit's bound.

Where answers are bits, every answer is one to every group: the policy of group k plays the bandit with its means behind
its mask for all T steps, and a step costs group k something only if the visitor is of it, which does not depend on the
table. So the regret is at most the sum of ``p_k`` times each bandit's bound.

Where answers are one of many, the policy of group k takes a step only when it is named, with probability
``n_k = 2 q + (p - q) p_k`` whatever its arm is. Its table stands still in between, so a step of its own stands for
``1 / n_k`` steps, and its regret is at most ``p_k / n_k`` times its bandit's bound. That bandit has at most as many
steps in each segment as visitors come, and the bound does not fall with them. ``docs/theory.md`` has the proof.
"""

import numpy as np
from numpy.typing import NDArray

from maskedbandits.contextual import masks
from maskedbandits.errors import UserError
from maskedbandits.problems import ContextualProblem, Problem
from maskedbandits.theory import corrected_regret_bound

Floats = NDArray[np.float64]


def contextual_bound(
    problem: ContextualProblem, epsilon: float, window: int, *, answers: str | None = None, c: float = 3.0
) -> Floats:
    """Return what ``sw-klucb-cf`` for each group loses at most in the mean, by group; their sum bounds the regret.

    The policy is ``make_contextual("sw-klucb-cf", ..., window=window, c=c, shares=problem.shares, pool=False)``.
    """
    if not isinstance(problem, ContextualProblem):
        raise UserError("the bound is of a problem with groups: give a ContextualProblem; others have those of theory")
    exact = float(masks.checked_epsilon(epsilon))
    masks.refuse_unknown(answers)
    kind = answers or masks.better_kind(exact, problem.shares)
    seen = masks.masks(kind, exact, problem.shares)
    steps = 1.0 if kind == masks.BIT else 1.0 / masks.named(exact, problem.shares)
    each = [
        corrected_regret_bound(Problem(problem.means[:, group], problem.starts, problem.horizon, mask), window, c)
        for group, mask in enumerate(seen)
    ]
    dearest = (problem.horizon * problem.shares) * problem.gaps.max(axis=(0, 2))  # however badly it plays
    return np.asarray(np.minimum(problem.shares * steps * np.array(each), dearest))
