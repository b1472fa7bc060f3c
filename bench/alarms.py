"""How soon the alarms of the service find fake reports, and how often they are false (``bench/liars.py`` prints it).

Reports without a mask: plain ones from one address block on one arm until the alarm, as the first pair of block and arm
of the day and as the 100,000th.

Surges: a simulated site with three arms at epsilon 1. Its reports follow the hour of the day, and less on weekends. An
arm's mean changes about every three days, and all means drift. A campaign begins about every four days, brings 1.5 to 4
times as many people, and lasts up to four hours. The shares of the arms change every two days. All of these are
independent. False alarms are counted in simulated years. Then liars report for an hour, zeros for the first arm and
ones for the second, and the table has the share of attacks that are found.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import chi2

from maskedbandits import RandomizedResponse
from maskedbandits.service.report_surges import BINS_PER_FALSE_ALARM, HISTORY_BINS, SurgeTest
from maskedbandits.service.unmasked_reports import Pair, compute_gains

EPSILONS = (0.5, 1.0, 2.0, 4.0)
PAIRS = (1, 100_000)  # numbers of pairs of block and arm
VOLUMES = (40.0, 1000.0, 10_000.0)  # reports in a bin of five minutes, on average
FAKES = (0.3, 1.0, 3.0)  # for each honest report
YEARS, ATTACKS = 4, 20
DAY = 288  # bins
ATTACK_BINS = 12


def count_until_alarm(epsilon: float, number: int) -> int:
    """Return how many plain ones raise the alarm."""
    gains, pair, count = compute_gains(round(epsilon * 1e6))[1], Pair(number), 0
    while not pair.is_unmasked:
        pair, count = pair.observe(gains), count + 1
    return count


class Site:
    """A simulated site: it yields the reports of each bin, by arm and bit."""

    def __init__(self, seed: int, volume: float) -> None:
        self._rng, self._volume = np.random.default_rng(seed), volume
        self._means = self._rng.uniform(0.2, 0.8, 3)
        self._shares, self._mask = np.array([0.8, 0.1, 0.1]), RandomizedResponse.from_epsilon(1.0)
        self._campaign, self._campaign_end = 1.0, -1

    def draw_bins(
        self, bins: int, attack: range = range(0), fakes: float = 0.0
    ) -> Iterator[dict[tuple[int, int], int]]:
        """Yield the reports of each bin; during an attack there are so many fakes for each honest report."""
        for time in range(bins):
            self._change_world(time)
            volume = self._compute_volume(time)
            reports = self._rng.poisson(volume * self._shares)
            ones = self._rng.binomial(reports, self._mask.p11 * self._means + (1 - self._mask.p00) * (1 - self._means))
            counts = np.stack([reports - ones, ones], axis=1)
            if time in attack:
                counts[[0, 1], [0, 1]] += self._rng.poisson(fakes * volume / 2, 2)
            yield {(arm, bit): int(counts[arm, bit]) for arm in range(3) for bit in (0, 1)}

    def _change_world(self, time: int) -> None:
        rng = self._rng
        if rng.random() < 1 / (3 * DAY):
            self._means[rng.integers(3)] = rng.uniform(0.2, 0.8)
        self._means = np.clip(self._means + rng.normal(0, 0.003, 3), 0.05, 0.95)
        if rng.random() < 1 / (4 * DAY) and time > self._campaign_end:
            self._campaign, self._campaign_end = rng.uniform(1.5, 4), time + int(rng.integers(6, 48))
        if rng.random() < 1 / (2 * DAY):
            self._shares = rng.dirichlet([4, 1, 1])

    def _compute_volume(self, time: int) -> float:
        by_day = 1.15 if time // DAY % 7 < 5 else 0.8
        by_hour = 1 + 0.8 * math.sin(2 * math.pi * time / DAY)
        return self._volume * by_day * by_hour * (self._campaign if time <= self._campaign_end else 1.0)


def find_surges(bins: Iterator[dict[tuple[int, int], int]]) -> list[int]:
    """Return the bins in which the test raises an alarm."""
    test = SurgeTest()
    return [time for time, counts in enumerate(bins) if test.add_bin(counts)]


def count_false_alarms(volume: float, years: int = YEARS, seed: int = 0) -> int:
    """Return the number of days with a false alarm in simulated years."""
    return len({time // DAY for time in find_surges(Site(seed, volume).draw_bins(years * BINS_PER_FALSE_ALARM))})


def share_found(volume: float, fakes: float, attacks: int = ATTACKS) -> float:
    """Return the share of attacks that are found within their hour, each at its own time after a week."""
    found = 0
    for seed in range(attacks):
        start = HISTORY_BINS + 20 + seed * DAY // attacks
        attack = range(start, start + ATTACK_BINS)
        bins = Site(1000 + seed, volume).draw_bins(attack.stop, attack, fakes)
        found += any(time in attack for time in find_surges(bins))
    return found / attacks


def measure() -> dict[str, Any]:
    """Measure both alarms."""
    unmasked = {str(number): [count_until_alarm(each, number) for each in EPSILONS] for number in PAIRS}
    surges = {
        str(volume): {
            "false": count_false_alarms(volume),
            "found": [share_found(volume, each) for each in FAKES],
        }
        for volume in VOLUMES
    }
    return {"unmasked": unmasked, "surges": surges}


def format_tables(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return both tables."""
    heads = [f"ε = {each:g}" for each in EPSILONS]
    rows = [[f"pair {int(name):,} of the day", *map(str, row)] for name, row in found["unmasked"].items()]
    lines = _format_table(["plain ones until the alarm", *heads], rows)
    heads = ["false alarms a year", *(f"found: {each:g} to 1 honest report" for each in FAKES)]
    rows = [
        [f"{float(name):,.0f}", format_rate(row["false"]), *(f"{100 * each:.0f} %" for each in row["found"])]
        for name, row in found["surges"].items()
    ]
    return "\n".join([*lines, "", *_format_table(["reports in five minutes", *heads], rows)])


def format_rate(alarms: int, years: int = YEARS) -> str:
    """Return the number of alarms in a year with its exact 95 % interval, that of a Poisson mean."""
    low = chi2.ppf(0.025, 2 * alarms) / 2 if alarms else 0.0
    high = chi2.ppf(0.975, 2 * alarms + 2) / 2
    return f"{alarms / years:.2g} ({low / years:.2g} to {high / years:.2g})"


def _format_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(heads)} |",
        "|---" + "|--:" * (len(heads) - 1) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
