"""Write the tables of docs/privacy.md: `python -m docs.privacy`. All are computed, none is measured."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb
from pathlib import Path

from docs import blocks
from maskedbandits._util.safe_text import percent as percent
from maskedbandits.privacy import Randomizer
from maskedbandits.privacy.audit import text
from maskedbandits.privacy.audit.exhaustive import enumerate_words as count_all
from maskedbandits.privacy.exact import ExactEpsilon

PAGE = Path(__file__).with_suffix(".md")
EPSILONS = ("0", "0.1", "0.5", "1", "2", "4", "8")
BELIEFS = (Fraction(1, 2), Fraction(1, 10), Fraction(1, 100))


def markdown(heading: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heading, ["--:"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def belief(prior: Fraction, epsilon: str) -> Fraction:
    """Return the most that one report can make of a belief, by Bayes' rule."""
    return Randomizer(epsilon).exact_epsilon.belief(prior)


def reveals() -> str:
    """Return what one report reveals."""
    heading = ["ε", "a report is true", *(f"a belief of {float(100 * prior):g} % becomes" for prior in BELIEFS)]
    rows = [
        [epsilon, percent(Randomizer(epsilon).p00), *(percent(belief(prior, epsilon)) for prior in BELIEFS)]
        for epsilon in EPSILONS
    ]
    return markdown(heading, rows)


def majority(reports: int, epsilon: str) -> Fraction:
    """Return how often most of an odd number of fresh reports of one bit are true."""
    truth = Randomizer(epsilon).p00
    terms = (comb(reports, k) * truth**k * (1 - truth) ** (reports - k) for k in range(reports // 2 + 1, reports + 1))
    return sum(terms, Fraction(0))


def repeated_reports_table() -> str:
    """Return what many fresh reports of one bit reveal."""
    counts = (1, 3, 9, 25, 101)
    epsilons = ("0.1", "0.5", "1", "2")
    heading = ["fresh reports of one bit", *(f"most are true, ε = {epsilon}" for epsilon in epsilons)]
    return markdown(heading, [[str(n), *(percent(majority(n, epsilon)) for epsilon in epsilons)] for n in counts])


def exact() -> str:
    """Return what `maskedbandits audit --exact` prints."""
    lines = text.format_randomizers([Randomizer(epsilon) for epsilon in text.EPSILON_GRID])
    return "\n".join(f"    {line}" for line in ["$ maskedbandits audit --exact", *lines])


def groups() -> str:
    """Return what answers at several visits reveal of a group, at most: they add up."""
    epsilons = (Fraction(1, 10), Fraction(1, 2), Fraction(1))
    heading = ["answers of one person", *(f"a belief of 10 % becomes, ε = {float(one):g}" for one in epsilons)]
    rows = []
    for visits in (1, 3, 10, 30):
        odds = [Fraction(math.exp(visits * one)) for one in epsilons]
        rows.append([str(visits), *(percent(ExactEpsilon(one).belief(Fraction(1, 10))) for one in odds)])
    return markdown(heading, rows)


def run_exact_audit() -> str:
    """Return what `maskedbandits audit --exact --groups 3` prints."""
    lines = text.format_enumerations(count_all("1", 3))
    return "\n".join(f"    {line}" for line in ["$ maskedbandits audit --exact --groups 3", *lines])


TABLES = {
    "reveals": reveals,
    "groups": groups,
    "enumerated": run_exact_audit,
    "repeated": repeated_reports_table,
    "exact": exact,
}


def main() -> None:
    """Write the tables into the page."""
    blocks.fill(PAGE, {which: table() for which, table in TABLES.items()})


if __name__ == "__main__":
    main()
