"""Writes the tables of docs/report_times.md: `python -m docs.report_times`. All of them are computed.

A visit has a decision, lasts for a random time, and is engaged or not. An engaged visit lasts twice as long, and has a
click at a random moment of it. A report is lost if the visit is over when it is to leave, unless a service worker is
still there to send it.
"""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from docs import blocks

PAGE = Path(__file__).with_suffix(".md")
POINTS = 4000  # quantiles of a law
MOMENTS = 20  # of a minute, and of the jitter
GAP_S = 60.0  # client.js: from report_at to the start of the minute in which a report leaves, at least
MINUTE_S = 60.0
PUNCTUAL_S = 2.0  # a report leaves that much later, so that punctual timers are told from throttled ones
WORKER_LIFE_S = 290.0  # client/report-worker.js
ENGAGED = 0.1  # share of visits with a click
LONGER = 2.0  # an engaged visit, in other visits
SETTINGS = ((0, 60), (30, 60), (60, 60), (120, 60), (180, 60), (600, 60), (60, 900))  # report_after and jitter
MEAN_S = 55.0
Floats = NDArray[np.float64]


class Law(NamedTuple):
    """A law of the length of visits."""

    name: str
    mean: float  # of all visits, in seconds
    shape: float  # of a Weibull law; or minus the sigma of a log-normal one

    def quantiles(self) -> Floats:
        """Return lengths of visits, all equally probable, for a mean of one second."""
        levels = (np.arange(POINTS) + 0.5) / POINTS
        if self.shape > 0:
            return np.asarray((-np.log1p(-levels)) ** (1 / self.shape) / math.gamma(1 + 1 / self.shape))
        scores = np.array([NormalDist().inv_cdf(level) for level in levels.tolist()])
        return np.asarray(np.exp(-self.shape * scores - self.shape**2 / 2))


LAWS = (
    Law("Weibull, shape 0.6", MEAN_S, 0.6),
    Law("Weibull, shape 0.8", MEAN_S, 0.8),
    Law("log-normal, σ = 1", MEAN_S, -1.0),
    Law("Weibull, shape 0.8", 180.0, 0.8),
)


class Outcome(NamedTuple):
    """Shares of all visits."""

    lost: float  # reports, of all decisions
    estimate: float  # share of clicks, of the reports that arrive


def list_departures(report_after: float, jitter: float) -> Floats:
    """Return moments after the decision at which a report leaves, all equally probable."""
    levels = (np.arange(MOMENTS) + 0.5) / MOMENTS
    begins = report_after + GAP_S + (jitter - GAP_S) * levels
    return np.add.outer(begins, PUNCTUAL_S + MINUTE_S * levels).ravel()


def play(law: Law, report_after: float, jitter: float, life: float = 0.0) -> Outcome:
    """Return what becomes of visits; a worker sends reports for some seconds after the decision."""
    unit = law.mean / (1 - ENGAGED + ENGAGED * LONGER)
    departures = list_departures(report_after, jitter)
    calm, engaged = unit * law.quantiles(), LONGER * unit * law.quantiles()
    calm_arrive, engaged_arrive = ((each[:, None] >= departures) | (departures <= life) for each in (calm, engaged))
    arrived = ENGAGED * engaged_arrive.mean() + (1 - ENGAGED) * calm_arrive.mean()
    in_time = np.minimum(1.0, report_after / engaged)  # the share of clicks before report_at
    clicks = ENGAGED * (engaged_arrive * in_time[:, None]).mean()
    return Outcome(float(1 - arrived), float(clicks / arrived) if arrived else math.nan)


def write_losses() -> str:
    """Return the table of lost reports."""
    lines = [
        "| visits | `report_after` | `jitter` | lost | estimate of 10 % | lost with the worker | estimate of 10 % |",
        "| --- | --: | --: | --: | --: | --: | --: |",
    ]
    for law in LAWS:
        for report_after, jitter in SETTINGS:
            page = play(law, report_after, jitter)
            worker = play(law, report_after, jitter, WORKER_LIFE_S)
            cells = [_percent(each) for each in (*page, *worker)]
            lines.append(f"| {law.name}, mean {law.mean:g} s | {report_after} | {jitter} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


TABLES = {"losses": write_losses}


def main() -> None:
    """Write the tables into the page."""
    blocks.fill(PAGE, {which: write() for which, write in TABLES.items()})


if __name__ == "__main__":
    main()
