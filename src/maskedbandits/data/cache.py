"""Store data sets in the user's cache: one file each, written completely or not at all.

    $MASKEDBANDITS_DATA                     if set
    $XDG_CACHE_HOME/maskedbandits/data      or ~/.cache/maskedbandits/data

A file is an archive of arrays. Everything else (names of arms, the source) is one JSON text in it, so that the two are
never separated.
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
from maskedbandits.data.tables import KINDS, Table, table_kind
from maskedbandits.errors import DAMAGED, UserError

FOLDER_VARIABLE = "MASKEDBANDITS_DATA"
METADATA_KEY = "about"  # the array with the JSON text
FORMAT_VERSION = 1  # increase it when parsers return other tables


def default_folder() -> Path:
    """Return the folder of stored data sets."""
    if os.environ.get(FOLDER_VARIABLE):
        return Path(os.environ[FOLDER_VARIABLE])
    try:
        return user_cache() / "data"
    except RuntimeError:
        raise UserError(f"no home folder to store data in: set {FOLDER_VARIABLE} to a folder") from None


def ensure_writable(folder: Path) -> None:
    """Create a folder and check that it is writable, before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be written: {error.strerror}; set {FOLDER_VARIABLE} to another folder"
        ) from error


def file_path(name: str, folder: Path) -> Path:
    """Return the file of a data set."""
    return folder / f"{name}.npz"


def save(name: str, table: Table, origin: dict[str, str], folder: Path) -> None:
    """Store a table with the names and sha256 of the files it was made from."""
    values = {field.name: getattr(table, field.name) for field in dataclasses.fields(table)}
    arrays = {key: value for key, value in values.items() if isinstance(value, np.ndarray)}
    plain = {key: value for key, value in values.items() if key not in arrays}
    about = {"form": FORMAT_VERSION, "kind": table_kind(table), "origin": origin, "plain": plain}
    packed = io.BytesIO()
    np.savez_compressed(packed, **{METADATA_KEY: np.array(json.dumps(about)), **arrays})  # type: ignore[arg-type]
    path = file_path(name, folder)
    try:
        write_whole(path, lambda stream: stream.write(packed.getvalue()))
    except OSError as error:  # the error of a full disk has no path
        raise OSError(error.errno, error.strerror, str(path)) from error


def load(name: str, folder: Path) -> tuple[Table, dict[str, str]]:
    """Return a stored table and the files it was made from."""
    path = file_path(name, folder)
    try:
        with np.load(path, allow_pickle=False) as archive:
            about: dict[str, Any] = json.loads(str(archive[METADATA_KEY]))
            arrays = {key: archive[key] for key in archive.files if key != METADATA_KEY}
        table = KINDS[about["kind"]](**arrays, **about["plain"])
    except FileNotFoundError:
        raise UserError(f"{name} is not downloaded yet: run maskedbandits data get {name}") from None
    except DAMAGED as error:
        raise UserError(f"{path}: damaged: run maskedbandits data get {name} --fresh") from error
    if about["form"] != FORMAT_VERSION:
        raise UserError(f"{path}: written by another version: run maskedbandits data get {name} --fresh")
    return table, about["origin"]
