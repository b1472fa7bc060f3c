"""Sentences that summarise results, and how a problem changes.

How a problem changes: never, at a few times, at many, or as a drift; and its means as a panel can show them.

A drift (``Problem.drifts``) has change points, but nobody wants to read them: what says something is how the means
move, and how far in all.

What was run and what came out, in a sentence each; where intervals overlap, the sentence says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from maskedbandits.experiments.corruption_spec import noise_in_words
from maskedbandits.experiments.results import Cell, Results
from maskedbandits.report import tables

FEW = 12  # change points that a heading can list, and a panel can mark
POINTS = 1500  # of a curve of means: more than a panel has pixels

Floats = NDArray[np.float64]


def marks_in_words(cell: Cell) -> str:
    """Return what dashed verticals mark."""
    return "new periods" if "record" in cell.outcome.question else "the changes"


def are_many(cell: Cell) -> bool:
    """Tell whether there are too many change points to list: then the means themselves are drawn."""
    return len(cell.changes) > FEW


def in_words(cell: Cell) -> str:
    """Return how the problem changes, as a heading says it."""
    if "record" in cell.outcome.question:
        return "recorded in one period" if not cell.changes else f"recorded in {len(cell.changes) + 1:,} periods"
    if not cell.changes:
        return "no change"
    if cell.drifts:
        return f"drifts (variation {cell.variation:,.3g})"
    if are_many(cell):
        return f"{len(cell.changes):,} changes (variation {cell.variation:,.3g})"
    return f"changes at {', '.join(f'{time:,}' for time in cell.changes)}"


def curves(cell: Cell) -> tuple[NDArray[np.int64], Floats]:
    """Return times and the means that hold from each of them on, at most POINTS, and the last ones at the end."""
    starts = np.array([0, *cell.changes])
    if starts.size > POINTS:
        starts = np.unique(np.linspace(0, cell.horizon, POINTS, endpoint=False).astype(np.int64))
    segments = np.searchsorted([0, *cell.changes], starts, side="right") - 1
    return np.append(starts, cell.horizon), cell.rows[np.append(segments, -1)]


Groups = Sequence[Sequence[Cell]]


def listed(words: Sequence[str]) -> str:
    """Return words as a sentence lists them.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def counted(count: int, what: str) -> str:
    """Return how many there are, in words."""
    return f"{count:,} {what}" if count != 1 else f"one {what.removesuffix('s').replace('policie', 'policy')}"


def what_was_run(results: Results) -> str:
    """Return what was run, in a sentence."""
    problems = tables.problems(results.cells)
    policies = list(dict.fromkeys(cell.label.policy for cell in results.cells))
    played = f"{counted(len(policies), 'policies')} on {counted(len(problems), 'problems')}"
    if len(problems) == 1:
        played += f" ({problem_in_words(results.cells[0])})"
    said = f"{played}, {privacy(results.cells)}, {counted(results.cells[0].runs, 'runs')} of each."
    return said[0].upper() + said[1:]


def problem_in_words(cell: Cell) -> str:
    """Return what a problem is like, in a few words."""
    noise = noise_in_words(cell.outcome.question)
    people = "" if cell.shares is None else f"{counted(len(cell.shares), 'groups')}, "
    return f"{people}{counted(cell.arms, 'arms')}, {cell.horizon:,} {cell.unit}, {in_words(cell)}{noise}"


def privacy(cells: Sequence[Cell]) -> str:
    """Return the corruptions in words."""
    epsilons = list(dict.fromkeys(epsilon_text(cell) for cell in cells if cell.label.epsilon is not None))
    own = any(cell.label.epsilon is None for cell in cells)
    return listed([*([f"at ε = {listed(epsilons)}"] if epsilons else []), *(["with a mask of its own"] if own else [])])


def epsilon_text(cell: Cell) -> str:
    """Return a cell's epsilon without its letter."""
    return cell.label.setting.removeprefix("ε = ")


def ranked(group: Sequence[Cell]) -> list[Cell]:
    """Return the policies of one corruption, the lowest regret first; oracles take no part."""
    return sorted(tables.contenders(group), key=lambda cell: float(cell.mean[-1]))


def rivals(group: Sequence[Cell]) -> list[Cell]:
    """Return the policies whose intervals reach that of the lowest; without intervals, all others."""
    first, *others = ranked(group)
    end = first.mean[-1] + first.half_width[-1]
    return [cell for cell in others if not end < cell.mean[-1] - cell.half_width[-1]]


def answer(groups: Groups) -> str:
    """Return who lost least on one problem, by how much, and where that is not certain, in a sentence."""
    lost = f"{winners(groups)}{'' if groups[0][0].runs == 1 else ', mean regret with its 95 % interval'}"
    if all(len(ranked(group)) == 1 for group in groups):
        return f"{lost}."
    return f"{lost}{lead(groups)}{doubts(groups)}."


def winners(groups: Groups) -> str:
    """Return each policy that lost least somewhere, with where and how much."""
    firsts = [ranked(group)[0] for group in groups]
    said: list[str] = []
    for policy, cells in groupby(firsts, key=lambda cell: cell.label.policy):
        places = [f"{tables.regret(cell)}{f' at {cell.label.setting}' * (len(groups) > 1)}" for cell in cells]
        verb = "lost" if all(len(ranked(group)) == 1 for group in groups) else "lost least"
        said.append(f"“{policy}” {verb}: {listed(places)}" if not said else f"“{policy}”: {listed(places)}")
    return "; ".join(said)


def lead(groups: Groups) -> str:
    """Return by how much the lowest regret lies below the next one, over the corruptions."""
    shares = []
    for group in groups:
        if len(ranked(group)) > 1:
            first, second = (float(cell.mean[-1]) for cell in ranked(group)[:2])
            shares.append(round(100 * (second - first) / second) if second > 0 else 0)
    low, high = min(shares), max(shares)
    return f"; that is {low if low == high else f'{low} to {high}'} % less than the next"


def doubts(groups: Groups) -> str:
    """Return where runs do not tell the first from others."""
    if groups[0][0].runs == 1:
        return ", but one run says nothing of chance"
    where: dict[str, list[str]] = {}
    for group in groups:
        for cell in rivals(group):
            where.setdefault(cell.label.policy, []).append(epsilon_text(cell))
    if not where:
        return ", and no interval reaches that of the first"
    said = []
    for policy, places in where.items():
        at = "" if len(groups) == 1 else " at every ε" if len(places) == len(groups) else f" at ε = {listed(places)}"
        said.append(f"“{policy}”{at}")
    return f", but these runs do not tell the first from {listed(said)}, for the intervals overlap"


def overall(results: Results) -> str:
    """Return the answer to the whole experiment: of one problem its own, of several how often who lost least."""
    problems = tables.problems(results.cells)
    if len(problems) == 1:
        return answer(problems[0][1])
    groups = [group for _, groups in problems for group in groups]
    firsts = Counter(ranked(group)[0].label.policy for group in groups)
    clear = sum(not rivals(group) and math.isfinite(group[0].half_width[-1]) for group in groups)
    wins = listed([f"“{policy}” in {count}" for policy, count in firsts.most_common()])
    beyond = (
        f"; in {clear} of them the intervals do not overlap" if any(len(ranked(group)) > 1 for group in groups) else ""
    )
    return f"Lost least, of {len(groups)} comparisons: {wins}{beyond}."
