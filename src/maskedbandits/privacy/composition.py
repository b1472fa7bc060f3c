"""What many reports add up to: the privacy loss of all reports of one device together.

Reports of e_1, ..., e_k are basically (e_1 + ... + e_k)-differentially private, however the epsilons were chosen. Who
grants a small delta pays much less. Among mechanisms that are e-private, randomised response at e loses most, also in
company and when a value depends on earlier reports (Kairouz, Oh & Viswanath 2015; Murtagh & Vadhan 2016 for different
epsilons); the epsilons themselves must then be set without looking at the reports. So with n_j reports of e_j, of
which t_j ~ Binomial(n_j, 1 / (1 + exp(-e_j))) are true, everything together is (epsilon, delta)-private if and only if

    delta >= E max(0, 1 - exp(epsilon - L)),    L = sum over j of e_j (2 t_j - n_j).

L lies on a lattice, and its distribution is computed cell by cell. Let S_k be the probability of a loss of cell k or
more, and D_k the delta at the loss of cell k. Then D_k-1 is ``exp(-step) D_k + (1 - exp(-step)) S_k``: one pass gives
them all, and what lies between two cells follows in the same way. Every error is on the safe side:
- t_j further than sqrt(50 n_j) from its mean has probability below 1e-43 (Hoeffding): counted as a loss without limit;
- where the epsilons have no common divisor large enough for a lattice of affordable size, each outcome is shared
  between the two lattice points around it so that the mean of exp(-L) stays: delta is then right at the lattice points,
  above the truth between them, and so for sums (Doroshenko et al. 2022). With G groups and a step s, epsilon is
  overstated by less than G s, which rounding up would cost (``Losses.rounding``), and by far less as a rule;
- more than 16 different epsilons are raised to 16 of them;
- only positive numbers are multiplied and added, so that rounding errors are relative to the result, and bounded.

No advanced composition theorem is offered: it bounds from above what is exact here, so it would only cost budget.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from ..errors import UserError
from .exact import Number, as_epsilon, as_number, as_whole

Reports = Mapping[Fraction, int] | Mapping[float, int] | Iterable[Number]

OUTSIDE = 1e-43  # above 2 exp(-100), what Hoeffding leaves outside of a group's window
MOST_GROUPS = 16
MOST_CELLS = 1 << 12
MOST_WORK = 2_000_000  # cells times outcomes: about a tenth of a second
MOST_REPORTS = 10**8  # work and memory grow with their root
DECIMALS = 10**9  # a total is rounded up to the ninth decimal


class Losses(NamedTuple):
    """The privacy loss: cell i is the loss lowest + i step."""

    lowest: float
    step: float
    above: list[float]  # probability of a loss of a cell or more
    deltas: list[float]  # what is lost beyond a cell: delta there
    outside: float  # probability of a loss without limit
    slack: float  # relative error of the probabilities
    rounding: float  # by how much a loss may be overstated


class Group(NamedTuple):
    """Reports of one epsilon: the probabilities of first, first + 1, ... true ones."""

    epsilon: Fraction
    reports: int
    first: int
    probabilities: list[float]

    @property
    def span(self) -> Fraction:
        """How far apart its outcomes lie."""
        return self.epsilon * (len(self.probabilities) - 1)


def counted(reports: Reports) -> dict[Fraction, int]:
    """Return how many reports there are of each epsilon, from a list of epsilons or from such counts."""
    try:
        given = Counter(reports if isinstance(reports, Mapping) else iter(reports))
    except TypeError:
        raise UserError(
            "reports must be a list of epsilons, or how many there are of each: give one of these"
        ) from None
    counts: Counter[Fraction] = Counter()
    for epsilon, count in given.items():
        number = as_whole("a number of reports", count)
        if number < 0:
            raise UserError(f"{number} reports of epsilon = {epsilon}: give a whole number, 0 or more")
        counts[as_epsilon(epsilon)] += number
    return dict(counts)


def as_delta(delta: float) -> float:
    """Return delta, refused unless it is in [0, 1)."""
    try:
        number = float(delta)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 <= number < 1.0:
        raise UserError(f"delta = {delta} is not a small probability: give a number in [0, 1), such as 1e-6")
    return number


def basic_epsilon(reports: Reports) -> Fraction:
    """Return the sum of the epsilons: what all reports are together, without a delta."""
    return added(counted(reports))


def added(counts: Mapping[Fraction, int]) -> Fraction:
    """Return the sum of epsilons that are counted."""
    return sum((epsilon * count for epsilon, count in counts.items()), Fraction(0))


def total_epsilon(reports: Reports, delta: float = 0.0) -> Fraction:
    """Return the epsilon of all reports together at this delta, rounded up.

    >>> float(total_epsilon([0.1] * 100)), float(total_epsilon([0.1] * 100, delta=1e-6))
    (10.0, 4.774567589)
    """
    counts, allowed = counted(reports), as_delta(delta)
    basic = added(counts)
    if allowed == 0.0 or basic == 0:
        return basic
    losses = losses_of(counts)
    low, high = -1, math.ceil(basic * DECIMALS)  # the smallest that will do is in (low, high]
    while high - low > 1:
        middle = (low + high) // 2
        if delta_at(losses, middle / DECIMALS) <= allowed:
            high = middle
        else:
            low = middle
    return min(basic, Fraction(high, DECIMALS))


def fits(reports: Reports, cap: Fraction, delta: float) -> bool:
    """Tell whether the total epsilon is at most a cap, with less work than it takes to find the total."""
    counts = counted(reports)
    if added(counts) <= cap:
        return True
    decimals = math.floor(cap * DECIMALS)  # as a total is rounded
    return delta > 0.0 and delta_at(losses_of(counts), decimals / DECIMALS) <= delta


def total_delta(reports: Reports, epsilon: Number) -> float:
    """Return the delta of all reports together at this epsilon, rounded up."""
    counts, total = counted(reports), as_number("epsilon", epsilon)
    if total < 0:
        raise UserError(f"epsilon = {epsilon} is negative: give 0 or more")
    return 0.0 if total >= added(counts) else delta_at(losses_of(counts), float(total))


def delta_at(losses: Losses, epsilon: float) -> float:
    """Return E max(0, 1 - exp(epsilon - L)), rounded up."""
    highest = losses.lowest + losses.step * len(losses.above)
    # A loss and an epsilon are a few roundings (2^-53) of their size away from the truth.
    below = epsilon - 2.0**-48 * (abs(losses.lowest) + abs(highest) + abs(epsilon))
    cell = max(math.ceil((below - losses.lowest) / losses.step), 0)  # the first that is not below
    if cell >= len(losses.above):
        return losses.outside
    gap = max(losses.lowest + losses.step * cell - below, 0.0)
    delta = math.exp(-gap) * losses.deltas[cell] - math.expm1(-gap) * losses.above[cell]
    return min(1.0, delta * (1.0 + losses.slack) + losses.outside)


def losses_of(counts: Mapping[Fraction, int]) -> Losses:
    """Return the distribution of the loss of these reports."""
    if sum(counts.values()) > MOST_REPORTS:
        raise UserError(f"more than {MOST_REPORTS:,} reports are too many to compose: take their sum, delta = 0")
    groups = [group_of(epsilon, count) for epsilon, count in few(counts).items()]
    groups.sort(key=lambda group: (group.span, group.epsilon), reverse=True)  # the widest is not looped over
    unit, exact = unit_of(groups)
    cells, lowest = [1.0], 0
    for group in groups:
        places = places_of(group, unit)
        first = min(places)
        cells = spread(cells, {place - first: probability for place, probability in places.items()})
        lowest += first
    outcomes = sum(len(group.probabilities) for group in groups)
    total = sum((group.epsilon * group.reports for group in groups), Fraction(0))
    step = float(2 * unit)
    kept, lost = math.exp(-step), -math.expm1(-step)
    above = list(accumulate(reversed(cells)))  # from the highest cell down
    deltas = list(accumulate(above[:-1], lambda delta, more: kept * delta + lost * more, initial=0.0))
    return Losses(
        lowest=float(2 * unit * lowest - total),
        step=step,
        above=above[::-1],
        deltas=deltas[::-1],
        outside=OUTSIDE * len(groups),
        # 42 roundings (2^-53) a report at most in ``group_of``, 9 an outcome in ``places_of`` and ``spread``, 7 a cell
        # in the two sums
        slack=2.0**-46 * (sum(group.reports for group in groups) + outcomes + 8) + 2.0**-50 * len(cells),
        rounding=0.0 if exact else float(2 * unit * len(groups)),
    )


def few(counts: Mapping[Fraction, int]) -> dict[Fraction, int]:
    """Return the counts without what costs nothing; of many epsilons, neighbours are raised to their largest."""
    ordered = sorted(epsilon for epsilon, count in counts.items() if epsilon > 0 and count > 0)
    size = max(1, math.ceil(len(ordered) / MOST_GROUPS))
    chunks = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return {chunk[-1]: sum(counts[epsilon] for epsilon in chunk) for chunk in chunks}


def group_of(epsilon: Fraction, count: int) -> Group:
    """Return the binomial distribution of the true ones among reports of one epsilon, but for its far tails.

    From the mode outwards each probability is the one before times a ratio, and all are divided by their sum: no
    logarithm of a factorial, whose rounding errors would grow with its size. Leaving out the tails makes the sum
    smaller and the probabilities larger, which is the safe side.
    """
    odds = math.exp(epsilon)
    mean, reach = count * odds / (1.0 + odds), math.sqrt(50.0 * count)
    first, last = max(0, math.floor(mean - reach) - 1), min(count, math.ceil(mean + reach) + 1)
    ratios = [(count - true) / (true + 1) * odds for true in range(first, last)]  # of true + 1 to true
    mode = min(max(math.floor(mean), first), last) - first
    below = accumulate((1.0 / ratio for ratio in reversed(ratios[:mode])), mul)
    weights = [*reversed(list(below)), 1.0, *accumulate(ratios[mode:], mul)]
    whole = math.fsum(weights)
    return Group(epsilon, count, first, [weight / whole for weight in weights])


def unit_of(groups: list[Group]) -> tuple[Fraction, bool]:
    """Return the lattice's unit, half the step of the loss, and whether every outcome lies on it."""
    if not groups:
        return Fraction(1), True
    common = math.lcm(*(group.epsilon.denominator for group in groups))
    divisor = Fraction(math.gcd(*(int(group.epsilon * common) for group in groups)), common)
    outcomes = sum(len(group.probabilities) for group in groups[1:])
    # A cell is shifted to each outcome, see ``spread``, and no oftener than there are cells.
    affordable = min(MOST_CELLS, max(MOST_WORK // max(outcomes, 1), math.isqrt(MOST_WORK)))
    coarsest = sum((group.span for group in groups), Fraction(0)) / affordable
    return (divisor, True) if divisor >= coarsest else (coarsest, False)


def places_of(group: Group, unit: Fraction) -> dict[int, float]:
    """Return the probabilities of a group's lattice points; an outcome between two of them is shared by both."""
    ratio, step, places = group.epsilon / unit, float(2 * unit), dict[int, float]()
    for true, probability in enumerate(group.probabilities, group.first):
        place, rest = divmod(ratio.numerator * true, ratio.denominator)
        upper = probability * share_above(rest / ratio.denominator, step)
        for at, mass in ((place, probability - upper), (place + 1, upper)):
            if mass > 0.0:
                places[at] = places.get(at, 0.0) + mass
    return places


def share_above(part: float, step: float) -> float:
    """Return which share of what lies at a part of a step goes to its end, rounded up."""
    return min(1.0, math.expm1(-part * step) / math.expm1(-step) * (1.0 + 2.0**-49))


def spread(cells: list[float], places: dict[int, float]) -> list[float]:
    """Return the distribution of a sum: cells, shifted to each of these places with its probability."""
    size = len(cells)
    result = [0.0] * (size + max(places))
    for place, probability in places.items():
        before = result[place : place + size]
        result[place : place + size] = [mass + probability * cell for mass, cell in zip(before, cells, strict=True)]
    return result
