import functools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maskedbandits.errors import UserError
from maskedbandits.privacy import composition
from maskedbandits.privacy.composition import basic_epsilon, compute_losses, count_reports, total_delta, total_epsilon
from naive import composition as naive
from trials import examples

tenths = st.integers(0, 30).map(lambda tenth: Fraction(tenth, 10))
odd = st.fractions(0, 3, max_denominator=10**9)  # no two have a common divisor to speak of
few_tenths = st.lists(tenths, min_size=1, max_size=7)
few_odd = st.lists(odd, min_size=1, max_size=7)
deltas = st.floats(-12, -0.1).map(lambda power: 10.0**power)
DIGITS = 1e-55  # how exact the twin is


def test_epsilons_add_up_without_delta() -> None:
    assert total_epsilon([0.1] * 10) == 1
    assert total_epsilon([0.1, 0.2, 0.3]) == Fraction(6, 10)
    assert total_epsilon({0.1: 10**6}) == 10**5
    assert total_epsilon([]) == total_epsilon([], 1e-6) == 0


def test_counts_and_lists_are_equivalent() -> None:
    assert (
        count_reports([0.1, Fraction(1, 10), "0.1", 0.5])
        == count_reports({0.1: 3, 0.5: 1})
        == {Fraction(1, 10): 3, Fraction(1, 2): 1}
    )


@examples(20)
@given(few_tenths, st.floats(0, 1))
def test_delta_matches_all_outcomes(epsilons: list[Fraction], share: float) -> None:
    epsilon = Fraction(share) * sum(epsilons)
    ours, exact = total_delta(epsilons, epsilon), naive.delta(epsilons, epsilon)
    assert exact - DIGITS <= ours <= exact * (1 + 1e-10) + 1e-11  # never below


@examples(20)
@given(few_odd, st.floats(0, 1))
def test_delta_error_is_within_rounding(epsilons: list[Fraction], share: float) -> None:
    epsilon, rounding = Fraction(share) * sum(epsilons), compute_losses(count_reports(epsilons)).rounding
    ours = total_delta(epsilons, epsilon)
    assert naive.delta(epsilons, epsilon) - DIGITS <= ours
    assert ours <= naive.delta(epsilons, epsilon - Fraction(rounding)) * (1 + 1e-10) + 1e-11
    assert rounding <= 2 * len(set(epsilons)) * float(sum(epsilons)) / composition.MAX_CELLS * (1 + 1e-12)


@examples(15)
@given(few_tenths, deltas)
def test_epsilon_is_minimal(epsilons: list[Fraction], delta: float) -> None:
    ours, exact = total_epsilon(epsilons, delta), naive.smallest_epsilon(epsilons, delta)
    assert naive.delta(epsilons, ours) - DIGITS <= naive.real(delta)  # never an understatement
    # beside the rounding to nine decimals, rounding errors of 1e-13 in delta where epsilon hardly changes it
    loosely = naive.smallest_epsilon(epsilons, delta * (1 - 1e-10))
    assert exact <= naive.real(ours) <= loosely + 2e-9


@examples(20)
@given(few_odd, deltas)
def test_coarse_lattice_never_understates_epsilon(epsilons: list[Fraction], delta: float) -> None:
    ours = total_epsilon(epsilons, delta)
    assert naive.delta(epsilons, ours) - DIGITS <= naive.real(delta)
    assert ours <= sum(epsilons)


@pytest.mark.parametrize(
    ("epsilon", "count", "total"),
    [("0.01", 1000, 1.0), ("0.1", 1000, 30.0), ("1", 500, 260.0), ("3", 300, 840.0), ("16", 100, 1595.0)],
)
def test_many_equal_reports(epsilon: str, count: int, total: float) -> None:
    exact = naive.delta_of_equals(Fraction(epsilon), count, total)
    ours = total_delta({Fraction(epsilon): count}, total)
    assert exact <= ours <= exact * (1 + 1e-8) + 2e-43


@pytest.mark.parametrize("step", [Fraction(1, 1000), Fraction(1, 10), Fraction(1)])
def test_coarser_lattice_only_adds(step: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {step: 40, 3 * step: 30, 7 * step: 20}
    epsilon = float(total_epsilon(counts, 1e-3))
    exact, found = total_delta(counts, epsilon), []
    fine = compute_losses(counts)
    assert fine.rounding == 0.0
    for cells in (200, 100, 30, 10):
        monkeypatch.setattr(composition, "MAX_CELLS", cells)
        rounding = compute_losses(counts).rounding
        found.append(total_delta(counts, epsilon))
        monkeypatch.undo()
        assert rounding > 0.0
        assert exact <= found[-1] <= composition.delta_at(fine, epsilon - rounding) * (1 + 1e-9)
    assert found[-1] > exact


def test_many_epsilons_are_raised_to_neighbours() -> None:
    epsilons = [Fraction(index, 100) for index in range(1, 100)]
    merged = composition.merge_epsilons(Counter(epsilons))
    assert len(merged) <= composition.MAX_GROUPS
    assert sum(merged.values()) == len(epsilons)
    for level in epsilons:  # at least as many above every level as there were
        assert sum(n for e, n in merged.items() if e >= level) >= sum(e >= level for e in epsilons)
    assert total_epsilon(epsilons, 1e-6) <= total_epsilon({0.99: 99}, 1e-6)
    assert total_epsilon(epsilons, 1e-6) < basic_epsilon(epsilons)


def overstated(counts: dict[Fraction, int]) -> Fraction:
    """Return the largest error of a total: its rounding where the epsilons share no lattice."""
    return Fraction(composition.compute_losses(counts).rounding) + Fraction(1, 10**8)


@example(counts={Fraction(6, 5): 47, Fraction(29, 10): 287}, epsilon=Fraction(1, 10), delta=0.001)
@examples(15)
@given(st.dictionaries(tenths, st.integers(0, 100), min_size=1, max_size=3), tenths, deltas)
def test_another_report_never_reduces_the_total(counts: dict[Fraction, int], epsilon: Fraction, delta: float) -> None:
    more = {**counts, epsilon: counts.get(epsilon, 0) + 1}
    before, after = total_epsilon(counts, delta), total_epsilon(more, delta)
    assert after >= before - overstated(counts)
    assert after <= before + epsilon + overstated(more)  # what basic composition of the two parts would say
    assert total_epsilon(counts, min(0.9, 2 * delta)) <= before


def test_report_of_epsilon_zero_is_free() -> None:
    assert total_epsilon({0: 1000}, 1e-6) == 0
    assert total_epsilon({0: 1000, 0.5: 30}, 1e-6) == total_epsilon({0.5: 30}, 1e-6)


ORACLE = [{1.0: 40}, {0.2: 25, 0.7: 10, 2.0: 3}]
MORE = [{0.1: 100}, {3.0: 10}, {0.5: 30, 0.1: 50}, {0.123456789: 60, 0.5: 40, 1.0: 10}]


@pytest.mark.parametrize("counts", [*ORACLE, *(pytest.param(one, marks=pytest.mark.slow) for one in MORE)], ids=str)
def test_google_accountant_agrees(counts: dict[float, int]) -> None:
    below, above = theirs(counts, pessimistic=False), theirs(counts, pessimistic=True)
    for delta in (1e-3, 1e-6):
        least, most = below.get_epsilon_for_delta(delta), above.get_epsilon_for_delta(delta)
        ours = float(total_epsilon(counts, delta))
        assert most - least < 0.02  # else the comparison says nothing
        assert least - 1e-6 <= ours <= most + compute_losses(count_reports(counts)).rounding + 1e-6
    for epsilon in (0.2 * ours, 0.8 * ours):
        least, most = below.get_delta_for_epsilon(epsilon), above.get_delta_for_epsilon(epsilon)
        assert least - 1e-10 <= total_delta(counts, epsilon) <= most * 1.005 + 1e-10


def theirs(counts: dict[float, int], *, pessimistic: bool) -> Any:
    """Compose with dp-accounting, losses rounded up or down to multiples of 1e-4."""
    from dp_accounting.pld import privacy_loss_distribution

    parts = []
    for epsilon, count in counts.items():
        flips = 1 / (1 + math.exp(epsilon))
        one = privacy_loss_distribution.from_randomized_response(2 * flips, 2, pessimistic, 1e-4)
        parts.append(one.self_compose(count))
    return functools.reduce(lambda some, more: some.compose(more), parts)


@pytest.mark.parametrize(
    ("counts", "finer"),
    [
        ({0.1: 3333, 0.5: 3333, 1.0: 3334}, 2240.4490),
        ({index / 97: 1000 for index in range(1, 17)}, 138.3474),
        ({0.123456789: 60, 0.5: 40, 1.0: 10}, 26.9554),
        ({0.1: 9 * 10**7, 1.0: 10**7}, None),
    ],
    ids=["three", "sixteen", "odd", "very many"],
)
def test_bounded_work_costs_at_most_one_percent(
    counts: dict[float, int], finer: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shifted, spread = [], composition.convolve

    def watched(cells: list[float], indices: dict[int, float]) -> list[float]:
        shifted.append(len(cells) * len(indices))
        return spread(cells, indices)

    monkeypatch.setattr(composition, "convolve", watched)
    total = total_epsilon(counts, 1e-6)
    assert sum(shifted[1:]) < 1.2 * composition.MAX_WORK
    if finer is not None:  # with twenty times the work
        assert finer <= total < 1.011 * finer


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2, 10**400, math.nan, math.inf, "small", None])
def test_invalid_delta_is_refused(delta: float) -> None:
    with pytest.raises(UserError, match="delta"):
        total_epsilon([0.1], delta)


@pytest.mark.parametrize("epsilon", [-1, math.nan, 17, "much", None, True])
def test_invalid_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(UserError, match="epsilon"):
        total_epsilon([epsilon], 1e-6)


@pytest.mark.parametrize("count", [-1, 0.5, None, "3"])
def test_invalid_count_is_refused(count: int) -> None:
    with pytest.raises(UserError, match="whole number"):
        total_epsilon({0.1: count})


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int32, int])
def test_integer_types_are_equivalent(kind: Any) -> None:
    counts = {Fraction(1, 10): kind(100), Fraction(16): kind(100)}
    assert total_epsilon(counts) == 1610  # a product of numpy's small kinds would overflow
    assert total_epsilon(counts, 1e-6) == total_epsilon({0.1: 100, 16: 100}, 1e-6)
    assert all(type(count) is int for count in count_reports(counts).values())


@pytest.mark.parametrize("reports", [5, None, [[0.1]], [np.array([0.1])]], ids=repr)
def test_non_list_of_reports_is_refused(reports: Any) -> None:
    with pytest.raises(UserError, match="a list of epsilons"):
        total_epsilon(reports)


@pytest.mark.parametrize("count", [10**9, 10**14, 10**400])
def test_absurd_counts_are_refused_or_added(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(composition, "compute_binomial")  # no work is begun
    assert total_epsilon({0.1: count}) == Fraction(count, 10)
    for work in (lambda: total_epsilon({0.1: count}, 1e-6), lambda: total_delta({0.1: count}, 1)):
        with pytest.raises(UserError, match="can be composed"):
            work()


@examples(20)
@given(st.dictionaries(tenths, st.integers(0, 40), min_size=1, max_size=3), st.fractions(0, 20), deltas)
def test_fits_cap_agrees_with_total(counts: dict[Fraction, int], cap: Fraction, delta: float) -> None:
    for allowed in (0.0, delta):
        total = total_epsilon(counts, allowed)
        assert composition.fits_cap(counts, cap, allowed) == (total <= cap)
        assert composition.fits_cap(counts, total, allowed)


def test_negative_total_is_refused() -> None:
    with pytest.raises(UserError, match="negative"):
        total_delta([0.1], -1)


def test_binomial_matches_scipy() -> None:
    from scipy.stats import binom

    group = composition.compute_binomial(Fraction(1), 10_000)
    true = group.first + np.arange(len(group.probabilities))
    np.testing.assert_allclose(group.probabilities, binom.pmf(true, 10_000, 1 / (1 + math.exp(-1))), rtol=1e-9)
    assert binom.cdf(true[0] - 1, 10_000, 1 / (1 + math.exp(-1))) < composition.TAIL_PROBABILITY
    assert binom.sf(true[-1], 10_000, 1 / (1 + math.exp(-1))) < composition.TAIL_PROBABILITY
