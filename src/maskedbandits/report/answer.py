"""What was run and what came out, in a sentence each; where intervals overlap, the sentence says so."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from maskedbandits.experiments.masks import noise_in_words
from maskedbandits.experiments.results import Cell, Results
from maskedbandits.report import changes, tables

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
    return f"{people}{counted(cell.arms, 'arms')}, {cell.horizon:,} {cell.unit}, {changes.in_words(cell)}{noise}"


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
