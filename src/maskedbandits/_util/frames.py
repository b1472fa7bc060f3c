"""Data frames of an optional library."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from maskedbandits._util import extras
from maskedbandits.errors import UserError, suggest_nearest

LIBRARIES = ("pandas", "polars")


def find_library(library: str | None) -> str:
    """Return the library to use, by default the first that is installed."""
    if library is not None and library not in LIBRARIES:
        raise UserError(f"library {library!r} is not supported{suggest_nearest(library, LIBRARIES)}")
    installed = [name for name in LIBRARIES if not extras.list_missing([name]) and library in (None, name)]
    if not installed:
        raise UserError(f"a frame needs {library or 'pandas or polars'}: pip install {library or 'pandas'}")
    return installed[0]


def import_xarray() -> Any:
    """Import xarray, or say in one line how to install it."""
    if extras.list_missing(["xarray"]):
        raise UserError("a labelled dataset needs xarray: pip install xarray")
    return importlib.import_module("xarray")


def build_frame(table: Mapping[str, NDArray[Any]], library: str | None, nullable: Sequence[str] = ()) -> Any:
    """Return columns as a data frame; in polars, NaN in a ``nullable`` column is null."""
    name = find_library(library)
    if name == "pandas":
        return importlib.import_module("pandas").DataFrame(dict(table))
    polars = importlib.import_module("polars")
    columns = {key: column.tolist() if column.dtype == object else column for key, column in table.items()}
    return polars.DataFrame(columns).with_columns(polars.col(key).fill_nan(None) for key in nullable)
