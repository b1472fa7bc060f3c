"""Files that appear whole or not at all, whatever happens on the way; archives that do not fill the memory."""

import errno
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

MOST = 1 << 26  # bytes that what describes an archive may take up
HEADERS = 1 << 12  # bytes, of some arrays


def write_whole(path: Path, write: Callable[[IO[bytes]], object], *, lasting: bool = True) -> None:
    """Write a file so that it appears whole or not at all; writers do not meet.

    A lasting one is whole also after a power cut, for which the disk must be waited for. A link stays, and what it
    leads to is written. A device or a pipe cannot be put in place: it is written to.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file", str(path))
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            write(stream)
        return
    _put_in_place(Path(os.path.realpath(path)), write, lasting)


def _put_in_place(path: Path, write: Callable[[IO[bytes]], object], lasting: bool) -> None:
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:  # it names the draft, which nobody has asked for
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
            if lasting:
                stream.flush()
                os.fsync(stream.fileno())  # else the name could reach the disk before what it stands for
        Path(temporary).chmod(0o644)  # mkstemp makes files that only their owner can read
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def user_cache() -> Path:
    """Return where this user's programs keep what can be made again; RuntimeError if the user has no home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maskedbandits"


def unpacked_sizes(stream: IO[bytes]) -> dict[str, int]:
    """Return how many bytes each array of an archive would take up."""
    with zipfile.ZipFile(stream) as archive:
        sizes = {entry.filename.removesuffix(".npy"): entry.file_size for entry in archive.infolist()}
    stream.seek(0)
    return sizes


def refuse_more(sizes: Mapping[str, int], keys: Sequence[str], most: int) -> None:
    """Refuse what would fill the memory: zeros pack a thousand to one."""
    if sum(sizes[key] for key in keys) > most:
        raise ValueError("there is more in it than its description says")
