"""Composition: the privacy loss of all reports of one device together.

Reports of e_1, ..., e_k together are (e_1 + ... + e_k)-differentially private, however the epsilons were chosen. With a
small delta the total is much smaller.

Guarantee
---------
Among e-private mechanisms, randomised response at e has the largest loss, also in combination and when a value depends
on earlier reports. The epsilons themselves must then be set without looking at the reports. So with n_j reports of e_j,
of which t_j ~ Binomial(n_j, 1 / (1 + exp(-e_j))) are true, all reports together are (epsilon, delta)-private if and
only if

    delta >= E max(0, 1 - exp(epsilon - L)),    L = sum over j of e_j (2 t_j - n_j).

L is on a lattice, and its distribution is computed cell by cell. Let S_k be the probability of a loss of cell k or
more, and D_k the delta at the loss of cell k. Then D_k-1 is ``exp(-step) D_k + (1 - exp(-step)) S_k``: one pass gives
all of them, and values between two cells follow in the same way. Every error is on the safe side:

- t_j further than sqrt(50 n_j) from its mean has probability below 1e-43 (Hoeffding) and counts as an infinite loss;
- if the epsilons have no common divisor large enough for an affordable lattice, each outcome is split between the two
  lattice points around it so that the mean of exp(-L) is preserved: delta is then exact at the lattice points and too
  large between them, and so for sums. With G groups and a step s, epsilon is overstated by less than G s, the cost of
  rounding up (``Losses.rounding``), and by far less as a rule;
- more than 16 different epsilons are raised to 16 of them;
- only positive numbers are multiplied and added, so rounding errors are relative to the result, and bounded.

Advanced composition theorems are not offered: they bound from above what is exact here, and would only cost budget.

Citations
---------
Kairouz, Oh & Viswanath 2015 (randomised response is the worst case); Murtagh & Vadhan 2016 (different epsilons);
Doroshenko et al. 2022 (splitting outcomes between lattice points).
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from ..errors import UserError
from .exact import Number, as_epsilon, as_number, check_whole

Reports = Mapping[Fraction, int] | Mapping[float, int] | Iterable[Number]

TAIL_PROBABILITY = 1e-43  # above 2 exp(-100), Hoeffding's bound on what is outside a group's window
MAX_GROUPS = 16
MAX_CELLS = 1 << 12
MAX_WORK = 2_000_000  # cells times outcomes: about 0.1 s
MAX_REPORTS = 10**8  # work and memory grow with the square root
DECIMALS = 10**9  # totals are rounded up to the ninth decimal


class Losses(NamedTuple):
    """The distribution of the privacy loss: cell i is the loss lowest + i step."""

    lowest: float
    step: float
    above: list[float]  # probability of a loss of a cell or more
    deltas: list[float]  # delta at a cell
    outside: float  # probability of an infinite loss
    slack: float  # relative error of the probabilities
    rounding: float  # the largest overstatement of a loss


class EpsilonGroup(NamedTuple):
    """Reports of one epsilon: the probabilities of first, first + 1, ... true ones."""

    epsilon: Fraction
    reports: int
    first: int
    probabilities: list[float]

    @property
    def span(self) -> Fraction:
        """The distance between its extreme outcomes."""
        return self.epsilon * (len(self.probabilities) - 1)


def count_reports(reports: Reports) -> dict[Fraction, int]:
    """Return the number of reports of each epsilon, from a list of epsilons or from such counts."""
    try:
        raw_counts = Counter(reports if isinstance(reports, Mapping) else iter(reports))
    except TypeError:
        raise UserError(
            "reports must be a list of epsilons, or a dict with the number of reports of each epsilon"
        ) from None
    counts: Counter[Fraction] = Counter()
    for epsilon, count in raw_counts.items():
        number = check_whole("a number of reports", count)
        if number < 0:
            raise UserError(f"{number} reports of epsilon = {epsilon}: give a whole number, 0 or more")
        counts[as_epsilon(epsilon)] += number
    return dict(counts)


def check_delta(delta: float) -> float:
    """Return delta, a number in [0, 1)."""
    try:
        number = float(delta)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 <= number < 1.0:
        raise UserError(f"delta = {delta} is not a small probability: give a number in [0, 1), such as 1e-6")
    return number


def basic_epsilon(reports: Reports) -> Fraction:
    """Return the sum of the epsilons, the total without a delta."""
    return sum_epsilons(count_reports(reports))


def sum_epsilons(counts: Mapping[Fraction, int]) -> Fraction:
    """Return the sum of counted epsilons."""
    return sum((epsilon * count for epsilon, count in counts.items()), Fraction(0))


def total_epsilon(reports: Reports, delta: float = 0.0) -> Fraction:
    """Return the epsilon of all reports together at this delta, rounded up.

    Parameters
    ----------
    reports
        The epsilons of all reports, or the number of reports of each epsilon.
    delta
        The allowed probability of a larger loss, in [0, 1).

    Returns
    -------
    Fraction
        The total epsilon.

    Raises
    ------
    UserError
        A parameter is out of range.

    Examples
    --------
    >>> float(total_epsilon([0.1] * 100)), float(total_epsilon([0.1] * 100, delta=1e-6))
    (10.0, 4.774567589)

    """
    counts, allowed = count_reports(reports), check_delta(delta)
    basic = sum_epsilons(counts)
    if allowed == 0.0 or basic == 0:
        return basic
    losses = compute_losses(counts)
    low, high = -1, math.ceil(basic * DECIMALS)  # the smallest that will do is in (low, high]
    while high - low > 1:
        middle = (low + high) // 2
        if delta_at(losses, middle / DECIMALS) <= allowed:
            high = middle
        else:
            low = middle
    return min(basic, Fraction(high, DECIMALS))


def fits_cap(reports: Reports, cap: Fraction, delta: float) -> bool:
    """Tell whether the total epsilon is at most a cap, faster than computing the total."""
    counts = count_reports(reports)
    if sum_epsilons(counts) <= cap:
        return True
    decimals = math.floor(cap * DECIMALS)  # as a total is rounded
    return delta > 0.0 and delta_at(compute_losses(counts), decimals / DECIMALS) <= delta


def total_delta(reports: Reports, epsilon: Number) -> float:
    """Return the delta of all reports together at this epsilon, rounded up.

    Parameters
    ----------
    reports
        The epsilons of all reports, or the number of reports of each epsilon.
    epsilon
        The total epsilon.

    Returns
    -------
    float
        The smallest delta for that epsilon.

    Raises
    ------
    UserError
        A parameter is out of range.

    Examples
    --------
    >>> total_delta([1, 1], epsilon=2)
    0.0
    >>> round(total_delta([1, 1], epsilon=1), 4)
    0.3378

    Examples
    --------
    >>> total_delta([1] * 10, 10)
    0.0
    >>> 0 < total_delta({1: 100}, 70) < 0.01
    True

    """
    counts, total = count_reports(reports), as_number("epsilon", epsilon)
    if total < 0:
        raise UserError(f"epsilon = {epsilon} is negative: give 0 or more")
    return 0.0 if total >= sum_epsilons(counts) else delta_at(compute_losses(counts), float(total))


def delta_at(losses: Losses, epsilon: float) -> float:
    """Return E max(0, 1 - exp(epsilon - L)), rounded up."""
    highest = losses.lowest + losses.step * len(losses.above)
    # A loss and an epsilon have an error of a few roundings, 2^-53 of their size each.
    below = epsilon - 2.0**-48 * (abs(losses.lowest) + abs(highest) + abs(epsilon))
    cell = max(math.ceil((below - losses.lowest) / losses.step), 0)  # the first one not below
    if cell >= len(losses.above):
        return losses.outside
    gap = max(losses.lowest + losses.step * cell - below, 0.0)
    delta = math.exp(-gap) * losses.deltas[cell] - math.expm1(-gap) * losses.above[cell]
    return min(1.0, delta * (1.0 + losses.slack) + losses.outside)


def compute_losses(counts: Mapping[Fraction, int]) -> Losses:
    """Return the distribution of the loss of these reports."""
    if sum(counts.values()) > MAX_REPORTS:
        raise UserError(f"at most {MAX_REPORTS:,} reports can be composed: use their sum, with delta = 0")
    groups = [compute_binomial(epsilon, count) for epsilon, count in merge_epsilons(counts).items()]
    groups.sort(key=lambda group: (group.span, group.epsilon), reverse=True)  # the widest group is not looped over
    unit, exact = choose_unit(groups)
    cells, lowest = [1.0], 0
    for group in groups:
        masses = place_on_lattice(group, unit)
        first = min(masses)
        cells = convolve(cells, {cell - first: probability for cell, probability in masses.items()})
        lowest += first
    outcomes = sum(len(group.probabilities) for group in groups)
    total = sum((group.epsilon * group.reports for group in groups), Fraction(0))
    step = float(2 * unit)
    stay, leave = math.exp(-step), -math.expm1(-step)
    above = list(accumulate(reversed(cells)))  # from the highest cell down
    deltas = list(accumulate(above[:-1], lambda delta, more: stay * delta + leave * more, initial=0.0))
    return Losses(
        lowest=float(2 * unit * lowest - total),
        step=step,
        above=above[::-1],
        deltas=deltas[::-1],
        outside=TAIL_PROBABILITY * len(groups),
        # 42 roundings (2^-53) a report at most in ``compute_binomial``, 9 an outcome in ``place_on_lattice``
        # and ``convolve``, 7 a cell in the two sums
        slack=2.0**-46 * (sum(group.reports for group in groups) + outcomes + 8) + 2.0**-50 * len(cells),
        rounding=0.0 if exact else float(2 * unit * len(groups)),
    )


def merge_epsilons(counts: Mapping[Fraction, int]) -> dict[Fraction, int]:
    """Drop epsilons that cost nothing, and raise neighbours to their largest if there are too many."""
    ordered = sorted(epsilon for epsilon, count in counts.items() if epsilon > 0 and count > 0)
    size = max(1, math.ceil(len(ordered) / MAX_GROUPS))
    chunks = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return {chunk[-1]: sum(counts[epsilon] for epsilon in chunk) for chunk in chunks}


def compute_binomial(epsilon: Fraction, count: int) -> EpsilonGroup:
    """Return the binomial distribution of true reports at one epsilon, without its far tails.

    From the mode outwards each probability is the previous one times a ratio, and all are divided by their sum. This
    avoids logarithms of factorials, whose rounding errors grow with their size. Omitting the tails makes the sum
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
    return EpsilonGroup(epsilon, count, first, [weight / whole for weight in weights])


def choose_unit(groups: list[EpsilonGroup]) -> tuple[Fraction, bool]:
    """Return the unit of the lattice, half the step of the loss, and whether every outcome is on it."""
    if not groups:
        return Fraction(1), True
    common = math.lcm(*(group.epsilon.denominator for group in groups))
    divisor = Fraction(math.gcd(*(int(group.epsilon * common) for group in groups)), common)
    outcomes = sum(len(group.probabilities) for group in groups[1:])
    # A cell is shifted to each outcome (``convolve``), at most as often as there are cells.
    affordable = min(MAX_CELLS, max(MAX_WORK // max(outcomes, 1), math.isqrt(MAX_WORK)))
    coarsest = sum((group.span for group in groups), Fraction(0)) / affordable
    return (divisor, True) if divisor >= coarsest else (coarsest, False)


def place_on_lattice(group: EpsilonGroup, unit: Fraction) -> dict[int, float]:
    """Return the probabilities of a group's lattice points; split an outcome between two of them."""
    ratio, step, masses = group.epsilon / unit, float(2 * unit), dict[int, float]()
    for true, probability in enumerate(group.probabilities, group.first):
        cell, rest = divmod(ratio.numerator * true, ratio.denominator)
        upper = probability * split_share(rest / ratio.denominator, step)
        for at, mass in ((cell, probability - upper), (cell + 1, upper)):
            if mass > 0.0:
                masses[at] = masses.get(at, 0.0) + mass
    return masses


def split_share(part: float, step: float) -> float:
    """Return the share of an outcome that goes to the upper lattice point, rounded up."""
    return min(1.0, math.expm1(-part * step) / math.expm1(-step) * (1.0 + 2.0**-49))


def convolve(cells: list[float], masses: dict[int, float]) -> list[float]:
    """Return the distribution of a sum: cells shifted by each index with its probability."""
    size = len(cells)
    result = [0.0] * (size + max(masses))
    for index, probability in masses.items():
        before = result[index : index + size]
        result[index : index + size] = [mass + probability * cell for mass, cell in zip(before, cells, strict=True)]
    return result
