"""An upper bound on the regret of a contextual policy, by group: each group is a corrupt bandit with its own bound.

If answers are bits, every answer informs every group. The policy of group k plays the bandit with the group's means
behind its mask for all T steps. A step costs group k something only if the visitor belongs to it, which does not depend
on the table. So the regret is at most the sum of ``p_k`` times each bandit's bound.

If answers are one of many, the policy of group k takes a step only when it is named, with probability
``n_k = 2 q + (p - q) p_k`` for every arm. Its table does not change in between, so each of its steps counts for
``1 / n_k`` visitors, and its regret is at most ``p_k / n_k`` times its bandit's bound. That bandit has at most as many
steps in each segment as there are visitors, and the bound does not fall with them. ``docs/theory.md`` has the proof.
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
    """Return an upper bound on the expected regret of contextual ``sw-klucb-cf``, by group.

    The policy is ``make_contextual("sw-klucb-cf", ..., window=window, c=c, shares=problem.shares, pool=False)``.

    Parameters
    ----------
    problem : ContextualProblem
        The problem.
    epsilon : float
        The privacy loss of an answer.
    window : int
        The window of the policy.
    answers : {"bit", "one of many"}, optional
        The kind of answer. By default the one that needs fewer visitors.
    c : float, optional
        The exploration parameter of the policy.

    Returns
    -------
    ndarray
        The bound of each group, of shape (G,). Their sum bounds the regret.

    Raises
    ------
    UserError
        If the problem has no groups, or a value is out of range.

    Examples
    --------
    >>> from maskedbandits import ContextualProblem
    >>> problem = ContextualProblem([[[0.2, 0.8], [0.8, 0.2]]], [0], 1_000, [0.5, 0.5])
    >>> contextual_bound(problem, epsilon=1, window=500).shape
    (2,)

    """
    if not isinstance(problem, ContextualProblem):
        raise UserError("this bound requires groups: give a ContextualProblem, or use maskedbandits.theory")
    exact = float(masks.check_epsilon(epsilon))
    masks.check_kind(answers)
    kind = answers or masks.better_kind(exact, problem.shares)
    seen = masks.masks(kind, exact, problem.shares)
    steps = 1.0 if kind == masks.BIT else 1.0 / masks.naming_probabilities(exact, problem.shares)
    each = [
        corrected_regret_bound(Problem(problem.means[:, group], problem.starts, problem.horizon, mask), window, c)
        for group, mask in enumerate(seen)
    ]
    worst = (problem.horizon * problem.shares) * problem.gaps.max(axis=(0, 2))
    return np.asarray(np.minimum(problem.shares * steps * np.array(each), worst))
