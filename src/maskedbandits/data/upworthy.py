"""The Upworthy Research Archive: tests of headlines, each a segment with known click rates.

The archive has the number of viewers and clicks of each package (a headline with a picture), so a test is a segment
with given means. Its arms are its first four packages, its length the number of their viewers. Tests with fewer
packages are skipped, and so are those between the dates for which the archive's authors doubt the random assignment of
viewers (upworthy.natematias.com, June 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import IO

import numpy as np

from maskedbandits.data.readers import Progress, ignore_progress, parse_count, parse_time, read_rows
from maskedbandits.data.tables import Segments
from maskedbandits.errors import UserError

WHERE = "the archive"
COLUMNS = ("created_at", "clickability_test_id", "impressions", "clicks")
PACKAGES_PER_TEST = 4  # most tests have at least as many
DOUBTFUL_DATES = date(2013, 6, 25), date(2014, 1, 10)


@dataclass(frozen=True)
class Headline:
    """A headline with its picture: its time, viewers and clicks."""

    created: datetime
    viewers: int
    clicks: int


def read_headlines(streams: Sequence[IO[bytes]], progress: Progress = ignore_progress) -> Segments:
    """Return the tests in time order."""
    tests: dict[str, list[Headline]] = {}
    for row, fields in read_rows(streams[0], COLUMNS, WHERE, progress):
        package = _parse_headline(row, fields)
        if package.viewers:
            tests.setdefault(fields[1], []).append(package)
    first_packages = [
        sorted(packages, key=lambda package: package.created)[:PACKAGES_PER_TEST] for packages in tests.values()
    ]
    usable = [
        packages
        for packages in first_packages
        if len(packages) == PACKAGES_PER_TEST and not _is_doubtful(packages[0].created.date())
    ]
    if not usable:
        raise UserError(f"{WHERE}: no test outside the excluded dates has {PACKAGES_PER_TEST} packages that were shown")
    usable.sort(key=lambda packages: packages[0].created)
    lengths = [sum(package.viewers for package in packages) for packages in usable]
    return Segments(
        arms=tuple(f"package {number + 1}" for number in range(PACKAGES_PER_TEST)),
        means=np.array([[package.clicks / package.viewers for package in packages] for packages in usable]),
        starts=np.cumsum([0, *lengths[:-1]]),
        horizon=sum(lengths),
        period="a test",
        labels=tuple(f"{packages[0].created:%Y-%m-%d}" for packages in usable),
    )


def _is_doubtful(day: date) -> bool:
    return DOUBTFUL_DATES[0] <= day <= DOUBTFUL_DATES[1]


def _parse_headline(row: int, fields: Sequence[str]) -> Headline:
    created = parse_time(fields[0], "created_at", WHERE, row).replace(tzinfo=None)
    viewers, clicks = (parse_count(text, name, WHERE, row) for text, name in zip(fields[2:], COLUMNS[2:], strict=True))
    if clicks > viewers:
        raise UserError(
            f"{WHERE}: row {row}: {clicks} clicks of {viewers} viewers: there cannot be more clicks than viewers"
        )
    return Headline(created, viewers, clicks)
