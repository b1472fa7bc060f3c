"""The Upworthy Research Archive: tests of headlines, each a segment whose click rates are known.

The archive holds how many viewers each package (a headline with a picture) was shown to, and how many clicked; so a
test is a segment with given means. Its arms are its first four packages, its length is how many viewers these had. Left
out are tests with fewer packages, and those of the dates between which viewers were not assigned at random as intended:
the archive's authors advise against their use (upworthy.natematias.com, June 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import IO

import numpy as np

from maskedbandits.data.delimited import Tell, count_of, rows, silent, time_of
from maskedbandits.data.tables import Segments
from maskedbandits.errors import UserError

WHERE = "the archive"
COLUMNS = ("created_at", "clickability_test_id", "impressions", "clicks")
PACKAGES = 4  # of a test: most have at least as many
DOUBTFUL = date(2013, 6, 25), date(2014, 1, 10)


@dataclass(frozen=True)
class Package:
    """A headline with its picture: when it was made, to how many it was shown, how many clicked."""

    made: datetime
    viewers: int
    clicks: int


def headlines(streams: Sequence[IO[bytes]], tell: Tell = silent) -> Segments:
    """Return the tests in time order."""
    found: dict[str, list[Package]] = {}
    for row, fields in rows(streams[0], COLUMNS, WHERE, tell):
        package = _package(row, fields)
        if package.viewers:
            found.setdefault(fields[1], []).append(package)
    picked = [sorted(packages, key=lambda package: package.made)[:PACKAGES] for packages in found.values()]
    usable = [packages for packages in picked if len(packages) == PACKAGES and not _doubtful(packages[0].made.date())]
    if not usable:
        raise UserError(f"{WHERE}: no test in it has {PACKAGES} packages that were shown, outside the doubtful dates")
    usable.sort(key=lambda packages: packages[0].made)
    lengths = [sum(package.viewers for package in packages) for packages in usable]
    return Segments(
        arms=tuple(f"package {place + 1}" for place in range(PACKAGES)),
        means=np.array([[package.clicks / package.viewers for package in packages] for packages in usable]),
        starts=np.cumsum([0, *lengths[:-1]]),
        horizon=sum(lengths),
        period="a test",
        labels=tuple(f"{packages[0].made:%Y-%m-%d}" for packages in usable),
    )


def _doubtful(day: date) -> bool:
    return DOUBTFUL[0] <= day <= DOUBTFUL[1]


def _package(row: int, fields: Sequence[str]) -> Package:
    made = time_of(fields[0], "created_at", WHERE, row).replace(tzinfo=None)
    viewers, clicks = (count_of(text, name, WHERE, row) for text, name in zip(fields[2:], COLUMNS[2:], strict=True))
    if clicks > viewers:
        raise UserError(f"{WHERE}: row {row}: {clicks} clicks of {viewers} viewers: give at most as many")
    return Package(made, viewers, clicks)
