"""Real data by name, or a table of one's own, as what a bandit can be played on.

`load("retail")` returns what `maskedbandits data get retail` has kept: `Rounds` where all outcomes are known, a `Log`
where one outcome a row is, `Segments` where rates are. `read_csv` reads a file of your own.
"""

from __future__ import annotations

import os
from pathlib import Path

from maskedbandits.data import cache
from maskedbandits.data.catalogue import entry_of, names
from maskedbandits.data.download import get
from maskedbandits.data.own_table import read_csv
from maskedbandits.data.tables import Log, Rounds, Segments

__all__ = ["Log", "Rounds", "Segments", "get", "load", "names", "read_csv"]


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Rounds | Log | Segments:
    """Return a data set that is kept; nothing is downloaded."""
    place = cache.default_folder() if folder is None else Path(folder)
    return cache.load(entry_of(name).name, place)[0]
