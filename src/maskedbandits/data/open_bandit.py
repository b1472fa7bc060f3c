"""The Open Bandit Dataset: which item of a fashion shop was shown, chosen at random, and whether it was clicked.

The items that the random policy shows at a place of the page do not depend on who looks, so that its log may be
replayed by rejection. The log of the shop's Thompson sampling may not, and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import IO

import numpy as np

from maskedbandits.data.delimited import Tell, count_of, number_of, rows, silent, time_of
from maskedbandits.data.tables import Log, periods_of
from maskedbandits.errors import UserError

WHERE = "the log"
COLUMNS = ("timestamp", "item_id", "click", "propensity_score")


def items(streams: Sequence[IO[bytes]], tell: Tell = silent) -> Log:
    """Return the log in time order; the arms are all items that could have been shown."""
    found: list[tuple[datetime, int, float]] = []
    arms = 0
    for row, (when, item, click, chance) in rows(streams[0], COLUMNS, WHERE, tell):
        possible = _arms(number_of(chance, "propensity_score", WHERE, row))
        if possible == 0 or (arms and possible != arms):
            raise UserError(
                f"{WHERE}: row {row}: propensity_score = {chance}: this is not the log of the uniformly random policy; "
                "give the file in its folder random/"
            )
        arms = possible
        item_number = count_of(item, "item_id", WHERE, row)
        found.append((time_of(when, "timestamp", WHERE, row), item_number, number_of(click, "click", WHERE, row)))
    found.sort(key=lambda each: each[0])
    starts, labels = periods_of([f"{when:%Y-%m-%d}" for when, _, _ in found])
    chosen = np.array([item for _, item, _ in found], dtype=np.int64)
    rewards = np.array([click for _, _, click in found])
    return Log(tuple(f"item {item}" for item in range(arms)), chosen, rewards, starts, "a day", labels)


def _arms(chance: float) -> int:
    """Return of how many items each is shown with this chance, 0 if there is no such number."""
    arms = round(1.0 / chance) if 0.0 < chance <= 0.5 else 0
    return arms if arms and abs(chance * arms - 1.0) < 1e-9 else 0
