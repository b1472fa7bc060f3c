"""Where data are kept once they are here: one file each, in the user's cache, whole or not at all.

    $MASKEDBANDITS_DATA                     if that is set
    $XDG_CACHE_HOME/maskedbandits/data      or ~/.cache/maskedbandits/data

A file is an archive of arrays; what is no array (names of arms, where the data are from) stands in it as one JSON text,
so that the two never part.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from maskedbandits._util.files import user_cache, write_whole
from maskedbandits.data.tables import KINDS, Table, kind_of
from maskedbandits.errors import DAMAGED, UserError

VARIABLE = "MASKEDBANDITS_DATA"
ABOUT = "about"  # the array that holds the JSON text
FORM = 1  # of these files: raised when parsers give other tables, which are then made anew


def default_folder() -> Path:
    """Return the folder of kept data."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    try:
        return user_cache() / "data"
    except RuntimeError:
        raise UserError(f"there is no home folder to keep data in: name a folder with {VARIABLE}") from None


def make_writable(folder: Path) -> None:
    """Make a folder and find it writable, before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be written: {error.strerror}; name another folder with {VARIABLE}"
        ) from error


def path_of(name: str, folder: Path) -> Path:
    """Return the file of a data set."""
    return folder / f"{name}.npz"


def save(name: str, table: Table, origin: dict[str, str], folder: Path) -> None:
    """Keep a table, with the names and sha256 of the files that it was made of."""
    values = {field.name: getattr(table, field.name) for field in dataclasses.fields(table)}
    arrays = {key: value for key, value in values.items() if isinstance(value, np.ndarray)}
    plain = {key: value for key, value in values.items() if key not in arrays}
    about = {"form": FORM, "kind": kind_of(table), "origin": origin, "plain": plain}
    packed = io.BytesIO()
    np.savez_compressed(packed, **{ABOUT: np.array(json.dumps(about)), **arrays})  # type: ignore[arg-type]
    path = path_of(name, folder)
    try:
        write_whole(path, lambda stream: stream.write(packed.getvalue()))
    except OSError as error:  # a full disk does not say whose it is
        raise OSError(error.errno, error.strerror, str(path)) from error


def load(name: str, folder: Path) -> tuple[Table, dict[str, str]]:
    """Return a table that is kept, and what it was made of."""
    path = path_of(name, folder)
    try:
        with np.load(path, allow_pickle=False) as archive:
            about: dict[str, Any] = json.loads(str(archive[ABOUT]))
            arrays = {key: archive[key] for key in archive.files if key != ABOUT}
        table = KINDS[about["kind"]](**arrays, **about["plain"])
    except FileNotFoundError:
        raise UserError(f"{name} is not here yet: maskedbandits data get {name}") from None
    except DAMAGED as error:
        raise UserError(f"{path}: damaged: maskedbandits data get {name} --fresh") from error
    if about["form"] != FORM:
        raise UserError(f"{path}: made by another version: maskedbandits data get {name} --fresh")
    return table, about["origin"]
