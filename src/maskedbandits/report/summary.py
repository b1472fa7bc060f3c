"""Results in sentences: cells in groups, their ranking, what was run and what came out.

Where 95 % intervals overlap, the sentence says so. A drift (``Problem.drifts``) has change points, but a reader cares
about how far the means move in all, not about each of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.experiments.corruption_spec import describe_mask
from maskedbandits.experiments.results import Cell, Results

MAX_CHANGES = 12  # change points that a heading lists and a panel marks
MAX_POINTS = 1500  # of a curve of means: more than a panel has pixels
MAX_CELLS = 200  # that are printed and drawn one by one
MAX_COMPARISONS = 9  # problems whose comparisons with context are listed one by one

Floats = NDArray[np.float64]
Groups = Sequence[Sequence[Cell]]  # the cells of a problem, by corruption


# Groups of cells


def group_by_problem(cells: Sequence[Cell]) -> list[tuple[str, list[list[Cell]]]]:
    """Return the cells by problem, and within a problem by corruption: policies are compared there."""
    return [
        (problem, [list(group) for _, group in groupby(members, key=lambda cell: cell.label.epsilon)])
        for problem, members in groupby(cells, key=lambda cell: cell.label.problem)
    ]


def list_policies(groups: Groups) -> list[str]:
    """Return the policies of a problem."""
    return list(dict.fromkeys(cell.label.policy for group in groups for cell in group))


def has_many_cells(cells: Sequence[Cell]) -> bool:
    """Return whether there are too many cells to print and draw one by one."""
    return len(cells) > MAX_CELLS


def exclude_oracles(group: Sequence[Cell]) -> list[Cell]:
    """Return the policies that use no hidden knowledge; all, if all use some."""
    return [cell for cell in group if not cell.outcome.spec["policy"].startswith("oracle")] or list(group)


def lowest_regret(group: Sequence[Cell]) -> float:
    """Return the lowest mean regret of a group, oracles excluded."""
    return min(float(cell.mean[-1]) for cell in exclude_oracles(group))


def is_best(cell: Cell, group: Sequence[Cell]) -> bool:
    """Return whether a cell has the lowest regret among several."""
    return len(group) > 1 and cell in exclude_oracles(group) and float(cell.mean[-1]) == lowest_regret(group)


def rank(group: Sequence[Cell]) -> list[Cell]:
    """Return the policies of one corruption by regret, the lowest first, oracles excluded."""
    return sorted(exclude_oracles(group), key=lambda cell: float(cell.mean[-1]))


def find_rivals(group: Sequence[Cell]) -> list[Cell]:
    """Return the policies whose intervals overlap that of the best; without intervals, all others."""
    first, *others = rank(group)
    end = first.mean[-1] + first.half_width[-1]
    return [cell for cell in others if not end < cell.mean[-1] - cell.half_width[-1]]


# Numbers and lists in words


def count_decimals(values: Iterable[float]) -> int:
    """Return the number of decimals of all numbers of a column: one, or none if some are 1,000 or more."""
    return 0 if any(abs(value) >= 1000 for value in values if math.isfinite(value)) else 1


def count_regret_decimals(cells: Iterable[Cell]) -> int:
    """Return the number of decimals of the final regrets of these cells."""
    return count_decimals(float(cell.mean[-1]) for cell in cells)


def format_number(value: float, decimals: int | None = None) -> str:
    """Return a number with these decimals, by default with those that suit it alone."""
    return f"{value:,.{count_decimals([value]) if decimals is None else decimals}f}"


def format_interval(mean: float, half_width: float, decimals: int | None = None) -> str:
    """Return a mean with half the width of its interval, if there is one, in the same decimals."""
    decimals = count_decimals([mean]) if decimals is None else decimals
    return format_number(mean, decimals) + (
        "" if math.isnan(half_width) else f" ± {format_number(half_width, decimals)}"
    )


def format_regret(cell: Cell, decimals: int | None = None) -> str:
    """Return the final regret with its 95 % interval."""
    return format_interval(float(cell.mean[-1]), float(cell.half_width[-1]), decimals)


def format_epsilon(cell: Cell) -> str:
    """Return the epsilon of a cell without its letter."""
    return cell.label.setting.removeprefix("ε = ")


def join_words(words: Sequence[str]) -> str:
    """Return words as a sentence lists them.

    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def count_noun(count: int, noun: str) -> str:
    """Return a number with its noun, which is given in the plural."""
    return f"{count:,} {noun}" if count != 1 else f"one {noun.removesuffix('s').replace('policie', 'policy')}"


# The changes of a problem


def has_many_changes(cell: Cell) -> bool:
    """Return whether there are too many change points to list; then the means are drawn."""
    return len(cell.changes) > MAX_CHANGES


def describe_marks(cell: Cell) -> str:
    """Return the meaning of dashed verticals."""
    return "new periods" if "record" in cell.outcome.spec else "the changes"


def describe_changes(cell: Cell) -> str:
    """Return how the problem changes, for a heading."""
    if "record" in cell.outcome.spec:
        return "recorded in one period" if not cell.changes else f"recorded in {len(cell.changes) + 1:,} periods"
    if not cell.changes:
        return "no change"
    if cell.drifts:
        return f"drifts (variation {cell.variation:,.3g})"
    if has_many_changes(cell):
        return f"{len(cell.changes):,} changes (variation {cell.variation:,.3g})"
    return f"changes at {', '.join(f'{time:,}' for time in cell.changes)}"


def sample_means(cell: Cell) -> tuple[NDArray[np.int64], Floats]:
    """Return at most MAX_POINTS times with the means from each of them on, and the horizon with the last means."""
    starts = np.array([0, *cell.changes])
    if starts.size > MAX_POINTS:
        starts = np.unique(np.linspace(0, cell.horizon, MAX_POINTS, endpoint=False).astype(np.int64))
    segments = np.searchsorted([0, *cell.changes], starts, side="right") - 1
    return np.append(starts, cell.horizon), cell.flat_means[np.append(segments, -1)]


# What was run


def describe_run(results: Results) -> str:
    """Return what was run, in a sentence."""
    problems = group_by_problem(results.cells)
    policies = list_policies([results.cells])
    played = f"{count_noun(len(policies), 'policies')} on {count_noun(len(problems), 'problems')}"
    if len(problems) == 1:
        played += f" ({describe_problem(results.cells[0])})"
    text = f"{played}, {describe_privacy(results.cells)}, {count_noun(results.cells[0].runs, 'runs')} of each."
    return text[0].upper() + text[1:]


def describe_problem(cell: Cell) -> str:
    """Return a problem in a few words."""
    noise = describe_mask(cell.outcome.spec)
    groups = "" if cell.shares is None else f"{count_noun(len(cell.shares), 'groups')}, "
    return f"{groups}{count_noun(cell.arms, 'arms')}, {cell.horizon:,} {cell.unit}, {describe_changes(cell)}{noise}"


def describe_privacy(cells: Sequence[Cell]) -> str:
    """Return the corruptions in words."""
    epsilons = list(dict.fromkeys(format_epsilon(cell) for cell in cells if cell.label.epsilon is not None))
    own = any(cell.label.epsilon is None for cell in cells)
    return join_words(
        [*([f"at ε = {join_words(epsilons)}"] if epsilons else []), *(["with a mask of its own"] if own else [])]
    )


# What came out


def summarize(results: Results) -> str:
    """Return the outcome of an experiment: of one problem in detail, of several how often each policy was best."""
    problems = group_by_problem(results.cells)
    if len(problems) == 1:
        return summarize_problem(problems[0][1])
    groups = [group for _, groups in problems for group in groups]
    firsts = Counter(rank(group)[0].label.policy for group in groups)
    clear = sum(not find_rivals(group) and math.isfinite(group[0].half_width[-1]) for group in groups)
    wins = join_words([f"“{policy}” in {count}" for policy, count in firsts.most_common()])
    end = f" In {clear} of them the intervals do not overlap." if any(len(rank(group)) > 1 for group in groups) else ""
    return f"Lowest regret in {len(groups)} comparisons: {wins}.{end}"


def summarize_problem(groups: Groups) -> str:
    """Return which policy has the lowest regret on one problem, by how much, and where that is not certain."""
    winners = f"{describe_winners(groups)}{'' if groups[0][0].runs == 1 else ' (mean, 95 % interval)'}."
    if all(len(rank(group)) == 1 for group in groups):
        return winners
    return f"{winners} {describe_lead(groups)} {describe_doubts(groups)}"


def describe_winners(groups: Groups) -> str:
    """Return each policy that has the lowest regret somewhere, with where and how much."""
    firsts = [rank(group)[0] for group in groups]
    parts: list[str] = []
    for policy, cells in groupby(firsts, key=lambda cell: cell.label.policy):
        regrets = [f"{format_regret(cell)}{f' at {cell.label.setting}' * (len(groups) > 1)}" for cell in cells]
        verb = "regret" if all(len(rank(group)) == 1 for group in groups) else "has the lowest regret"
        parts.append(f"“{policy}” {verb}: {join_words(regrets)}" if not parts else f"“{policy}”: {join_words(regrets)}")
    return "; ".join(parts)


def describe_lead(groups: Groups) -> str:
    """Return by how much the lowest regret is below the next one, over the corruptions."""
    shares = []
    for group in groups:
        if len(rank(group)) > 1:
            first, second = (float(cell.mean[-1]) for cell in rank(group)[:2])
            shares.append(round(100 * (second - first) / second) if second > 0 else 0)
    low, high = min(shares), max(shares)
    return f"That is {low if low == high else f'{low} to {high}'} % less than the next policy."


def describe_doubts(groups: Groups) -> str:
    """Return where the runs do not separate the best policy from others."""
    if groups[0][0].runs == 1:
        return "One run gives no interval."
    rivals: dict[str, list[str]] = {}
    for group in groups:
        for cell in find_rivals(group):
            rivals.setdefault(cell.label.policy, []).append(format_epsilon(cell))
    if not rivals:
        return "No interval overlaps that of the best."
    parts = []
    for policy, epsilons in rivals.items():
        everywhere = " at every ε" if len(epsilons) == len(groups) else f" at ε = {join_words(epsilons)}"
        parts.append(f"“{policy}”{'' if len(groups) == 1 else everywhere}")
    return f"Overlapping intervals do not separate it from {join_words(parts)}: try more runs."


# Context


@dataclass(frozen=True, eq=False)
class ContextPair:
    """The same policy on the same problem, once with a choice for each group and once with one arm for all people.

    Context pays from a checkpoint on if from there to the end it has lost less, and the 95 % intervals do not overlap.
    """

    grouped: Cell
    plain: Cell

    @lockfree_cached_property
    def ratio(self) -> Floats:
        """The regret with context divided by the regret without, at each checkpoint."""
        return np.asarray(self.grouped.mean / np.maximum(self.plain.mean, 1e-12))

    @property
    def pays_from(self) -> int | None:
        """The first checkpoint from which on context pays."""
        return self._first_clear_lead(self.grouped, self.plain)

    @property
    def costs(self) -> bool:
        """Whether context has lost more in the end, with intervals that do not overlap."""
        return self._first_clear_lead(self.plain, self.grouped) is not None

    @staticmethod
    def _first_clear_lead(less: Cell, more: Cell) -> int | None:
        is_clear = less.mean + less.half_width < more.mean - more.half_width  # never with a single run
        unclear = np.flatnonzero(~is_clear)
        first = int(unclear[-1]) + 1 if unclear.size else 0
        return int(less.outcome.times[first]) if first < is_clear.size else None

    @property
    def verdict(self) -> str:
        """The entry of a table: from when on context pays, "no" or "unclear"."""
        if (first := self.pays_from) is not None:
            return f"{first:,}"
        return "no" if self.costs else "unclear"


ContextPairs = Sequence[tuple[str, Sequence[ContextPair]]]  # by problem


def pair_contexts(cells: Sequence[Cell]) -> list[tuple[str, list[ContextPair]]]:
    """Return the pairs of every problem that has some, one for each epsilon."""
    problems = []
    for problem, groups in group_by_problem(cells):
        pairs = [pair for group in groups if (pair := find_context_pair(group)) is not None]
        if pairs:
            problems.append((problem, pairs))
    return problems


def find_context_pair(group: Sequence[Cell]) -> ContextPair | None:
    """Return the first pair of one corruption, if it has one."""
    for cell in group:
        for other in group:
            is_same = other.outcome.spec["policy"] == cell.outcome.spec["policy"]
            if cell.chooses_by_group and other.shares is not None and not other.chooses_by_group and is_same:
                return ContextPair(cell, other)
    return None


def list_settings(problems: ContextPairs) -> list[str]:
    """Return the corruptions of all problems."""
    return list(dict.fromkeys(pair.grouped.label.setting for _, pairs in problems for pair in pairs))


def summarize_context(problems: ContextPairs) -> str:
    """Return when context pays; for many problems, how often."""
    if len(problems) > MAX_COMPARISONS:
        every = [pair for _, pairs in problems for pair in pairs]
        pays, costs = sum(pair.pays_from is not None for pair in every), sum(pair.costs for pair in every)
        return f"A choice for each group pays in {pays} of {len(every)} comparisons, and has more regret in {costs}."
    parts = [describe_context(problem if len(problems) > 1 else None, pairs) for problem, pairs in problems]
    return f"A choice for each group pays {'; '.join(parts)}."


def describe_context(problem: str | None, pairs: Sequence[ContextPair]) -> str:
    """Return when context pays on a problem: at which epsilons, and from how many visitors on."""
    where = "" if problem is None else f"on “{problem}” "
    paying = [pair for pair in pairs if pair.pays_from is not None]
    if not paying:
        loses = "has more regret" if all(pair.costs for pair in pairs) else "has no clearly lower regret"
        return f"{where}at no ε up to {pairs[0].grouped.horizon:,} visitors, where it {loses}"
    at = (
        "" if len(paying) == len(pairs) else f"at ε = {join_words([format_epsilon(pair.grouped) for pair in paying])}, "
    )
    first, last = (choose(paying, key=lambda pair: pair.pays_from or 0) for choose in (min, max))
    ends = [f"{pair.pays_from:,} visitors ({pair.grouped.label.setting})" for pair in (first, last)]
    return f"{where}{at}from {ends[0] if first.pays_from == last.pays_from else ' to '.join(ends)} on"
