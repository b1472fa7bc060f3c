"""Load real data by name, or read your own table, as problems for a bandit.

``load("retail")`` returns the stored result of ``maskedbandits data get retail``: ``Rounds`` where all outcomes are
known, a ``Log`` where each row has the outcome of one arm, ``Segments`` where rates are known. ``read_csv`` reads your
own file.
"""

from __future__ import annotations

import os
from pathlib import Path

from maskedbandits.data import cache
from maskedbandits.data.catalogue import find_data_set, names
from maskedbandits.data.download import get
from maskedbandits.data.readers import read_csv
from maskedbandits.data.tables import Log, Rounds, Segments

__all__ = ["Log", "Rounds", "Segments", "get", "load", "names", "read_csv"]


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Rounds | Log | Segments:
    """Load a data set that was downloaded before.

    Parameters
    ----------
    name
        A name from ``names()``.
    folder
        Where data sets are stored; the user's cache by default.

    Returns
    -------
    Rounds, Log or Segments
        The table of the data set.

    Raises
    ------
    UserError
        The name is unknown, or the data set is not stored or damaged. Nothing is downloaded.

    Examples
    --------
    >>> load("movielens")
    Traceback (most recent call last):
    ...
    maskedbandits.errors.UserError: no data set is called 'movielens'; did you mean 'movielens-100k'?

    """
    source = cache.default_folder() if folder is None else Path(folder)
    return cache.load(find_data_set(name).name, source)[0]
