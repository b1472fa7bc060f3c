"""Evidence of a change that lies may explain, also if they come in a burst (``contamination`` of ``auto``).

The assumption: at most a share c of the reports of an arm are lies, of the last STRETCH if there are more, and they may
be any reports, in the worst case those that speak most for a change. So a change is believed if it is likely without
the c n reports that favour it most, n being how many reports of the arm count. About as many lies in a row turn
nothing, and after a real change as many reports are lost before the others can show it.

Which reports favour a hypothesis most is known only in hindsight. Two numbers stand for them, of each hypothesis and
arm: how many reports are set aside, and the sum of their gains. The gain of a report is the ratio of the probabilities
that the hypothesis and the likeliest one gave to it, less 1. That sum is never above that of the c n largest gains.
"""

from maskedbandits._numba.jit import inner
from maskedbandits._numba.state import Floats

STRETCH = 10_000.0  # a longer memory allows for no longer burst
ROUNDING = 1e-9  # a gain up to which a report favours nothing


@inner
def set_aside(
    weights: Floats, before: Floats, likeliest: int, lies: float, row: int, counts: Floats, sums: Floats
) -> None:
    """Take back what a report did for every hypothesis, compared with the likeliest, if it is one that may be a lie.

    The first that favour a hypothesis are set aside. Once there are as many as there may be lies, one that favours it
    more than they do on average takes the place of such an average one.
    """
    if before[likeliest] <= 0.0 or weights[likeliest] <= 0.0:
        return
    usual = weights[likeliest] / before[likeliest]
    for slot in range(weights.size):
        expected = before[slot] * usual
        gain = weights[slot] - expected
        if slot == likeliest or expected <= 0.0 or gain <= ROUNDING * expected:
            continue
        gain /= expected
        at = row + slot
        aside = counts[at]
        average = sums[at] / aside if aside > 0.0 else 0.0
        first = min(max(lies - aside, 0.0), 1.0)
        swapped = min(1.0 - first, aside) if gain > average else 0.0
        taken = first * gain + swapped * (gain - average)
        counts[at] = aside + first
        sums[at] += taken
        weights[slot] -= taken * expected
