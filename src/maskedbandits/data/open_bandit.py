"""The Open Bandit Dataset: items of a fashion shop, shown at random, and whether they were clicked.

The random policy chooses items independently of the visitor, so its log may be replayed by rejection. The log of the
shop's Thompson sampling may not, and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import IO

import numpy as np

from maskedbandits.data.readers import Progress, ignore_progress, parse_count, parse_number, parse_time, read_rows
from maskedbandits.data.tables import Log, find_periods
from maskedbandits.errors import UserError

WHERE = "the log"
COLUMNS = ("timestamp", "item_id", "click", "propensity_score")


def read_items(streams: Sequence[IO[bytes]], progress: Progress = ignore_progress) -> Log:
    """Return the log in time order. The arms are all items that could have been shown."""
    found: list[tuple[datetime, int, float]] = []
    arms = 0
    for row, (when, item, click, chance) in read_rows(streams[0], COLUMNS, WHERE, progress):
        possible = _count_arms(parse_number(chance, "propensity_score", WHERE, row))
        if possible == 0 or (arms and possible != arms):
            raise UserError(
                f"{WHERE}: row {row}: propensity_score = {chance}: this is not the log of the uniformly random policy; "
                "give the file in its folder random/"
            )
        arms = possible
        item_number = parse_count(item, "item_id", WHERE, row)
        found.append((parse_time(when, "timestamp", WHERE, row), item_number, parse_number(click, "click", WHERE, row)))
    found.sort(key=lambda each: each[0])
    starts, labels = find_periods([f"{when:%Y-%m-%d}" for when, _, _ in found])
    chosen = np.array([item for _, item, _ in found], dtype=np.int64)
    rewards = np.array([click for _, _, click in found])
    return Log(tuple(f"item {item}" for item in range(arms)), chosen, rewards, starts, "a day", labels)


def _count_arms(chance: float) -> int:
    """Return how many items are shown if each has this probability, 0 if there is no such number."""
    arms = round(1.0 / chance) if 0.0 < chance <= 0.5 else 0
    return arms if arms and abs(chance * arms - 1.0) < 1e-9 else 0
