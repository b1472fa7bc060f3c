"""How large groups are, from a masked survey: every device says once which group it has, through randomised response.

On the device ``KaryRandomizer(groups, epsilon).answer(group)`` is what leaves it. An answer names group k with
probability ``q + (p - q) p_k``, p and q the probabilities of the true answer and of each other: solved for the share
p_k. The survey costs its own epsilon, and is about the same group that every later answer is about.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.context.learnt import shares_from
from maskedbandits.errors import UserError, check_int, number
from maskedbandits.privacy import KaryRandomizer

Floats = NDArray[np.float64]

MOST = 10**15  # answers, which floats count one by one


class Survey(NamedTuple):
    """What a survey says of the shares of groups."""

    shares: Floats  # (G,) each above 0, and 1 together: as ``make_contextual`` takes them
    intervals: Floats  # (G, 2) that hold all shares together


def shares_from_survey(counts: Sequence[int], epsilon: float, *, confidence: float = 0.95) -> Survey:
    """Return the shares of groups, and intervals for them, from how often masked answers named each group.

    The intervals hold together with the confidence asked for: those of Clopper and Pearson for the counts, at a level
    that is divided among them, seen through the mask. A group that is named less often than by chance has the share of
    one answer among all, and not 0: nothing could be learnt of it.

    >>> shares_from_survey([600, 400], 16).shares.round(3).tolist()
    [0.6, 0.4]
    """
    from maskedbandits.privacy.audit.statistics import highest, lowest  # scipy takes its time, and few ask for a survey

    told = [check_int("a count", count, 0, MOST) for count in counts] if isinstance(counts, Iterable) else []
    if len(told) < 2 or not 0 < sum(told) <= MOST:
        raise UserError(f"a survey has a count for each of two groups or more, and 1 to {MOST:,} answers: give such")
    seen = np.array(told, dtype=np.int64)
    mask = KaryRandomizer(seen.size, epsilon)
    if mask.epsilon == 0:
        raise UserError("epsilon = 0 tells nothing of shares: ask with a larger one")
    level = (1.0 - number("confidence", confidence, 0.0, 1.0, above=True, below=True)) / (2 * seen.size)
    other = float((1 - mask.truth) / (seen.size - 1))
    slope = float(mask.truth) - other
    total = np.full(seen.size, seen.sum())
    bounds = np.stack([lowest(seen, total, level), highest(seen, total, level)], axis=1)
    shares = shares_from(seen, other * float(total[0]), slope * float(total[0]))
    return Survey(shares, np.clip((bounds - other) / slope, 0.0, 1.0))
