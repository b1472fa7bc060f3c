"""Writes the tables of docs/privacy_officer.md: `python -m docs.privacy_officer`. All of them are computed."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

from docs import blocks
from docs.privacy import belief, markdown, percent
from maskedbandits.privacy import Ledger, Overdraft, Randomizer
from maskedbandits.privacy.exact import ExactEpsilon

PAGE = Path(__file__).with_suffix(".md")
EPSILONS = ("0.1", "0.5", "1", "2", "4")
CAPS = (("0.1", "1"), ("0.5", "2"), ("1", "3"))
PERIODS = math.ceil(365 / 30)  # of 30 days that cover a year
NEAR, SURE = 0.05, 1.96  # a rate to 5 points, with 95 %


def slope(epsilon: str) -> Fraction:
    """Return how much of a difference is left in the reports."""
    randomizer = Randomizer(epsilon)
    return randomizer.p00 + randomizer.p11 - 1


def count_needed_reports(slope: float) -> int:
    """Return how many reports it takes to know a rate that closely, whatever it is."""
    return math.ceil((SURE * 0.5 / (NEAR * slope)) ** 2)


def costs() -> str:
    """Return what an epsilon hides, and what it costs."""
    heading = [
        "ε",
        "a report is true",
        "a belief of 50 % becomes",
        "a belief of 10 % becomes",
        "reports needed",
        "times",
    ]
    rows = [["none", "always", "100 %", "100 %", f"{count_needed_reports(1.0):,}", "1"]]
    for epsilon in EPSILONS:
        beliefs = [percent(belief(prior, epsilon)) for prior in (Fraction(1, 2), Fraction(1, 10))]
        times = f"{float(1 / slope(epsilon) ** 2):.3g}"
        rows.append(
            [
                epsilon,
                percent(Randomizer(epsilon).p00),
                *beliefs,
                f"{count_needed_reports(float(slope(epsilon))):,}",
                times,
            ]
        )
    return markdown(heading, rows)


def count_allowed_reports(epsilon: str, cap: str) -> int:
    """Return how many reports a ledger lets through."""
    with Ledger(cap) as ledger:
        try:
            while True:
                ledger.reserve(ledger.reports, epsilon)
        except Overdraft:
            return ledger.reports


def odds_to_belief(epsilon: Fraction) -> str:
    """Return the most that becomes of a belief of 50 %."""
    return percent(ExactEpsilon(Fraction(math.exp(epsilon))).belief(Fraction(1, 2)))


def caps() -> str:
    """Return what a cap means, for 30 days and for a year."""
    heading = [
        "ε of a report",
        "cap per 30 days",
        "reports in any 30 days",
        "a belief of 50 % becomes",
        "in a year up to",
        "a belief of 50 % becomes",
    ]
    rows = []
    for epsilon, cap in CAPS:
        year = PERIODS * Fraction(cap)
        beliefs = odds_to_belief(Fraction(cap)), odds_to_belief(year)
        rows.append([epsilon, cap, str(count_allowed_reports(epsilon, cap)), beliefs[0], f"ε = {year}", beliefs[1]])
    return markdown(heading, rows)


TABLES = {"costs": costs, "caps": caps}


def main() -> None:
    """Write the tables into the page."""
    blocks.fill(PAGE, {which: table() for which, table in TABLES.items()})


if __name__ == "__main__":
    main()
