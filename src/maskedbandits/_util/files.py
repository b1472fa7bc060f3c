"""Files that appear whole or not at all, whatever happens on the way; archives that do not fill the memory."""

import errno
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError

MOST = 1 << 26  # bytes that what describes an archive may take up
HEADERS = 1 << 12  # bytes, of some arrays


def write_whole(
    path: Path, write: Callable[[IO[bytes]], object], *, lasting: bool = True, private: bool = False
) -> None:
    """Write a file so that it appears whole or not at all; writers do not meet.

    A lasting one is whole also after a power cut, for which the disk must be waited for. A link stays, and what it
    leads to is written. A device or a pipe cannot be put in place: it is written to. Only its owner can read a private
    one.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file", str(path))
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            write(stream)
        return
    _put_in_place(Path(os.path.realpath(path)), write, lasting, 0o600 if private else 0o666)


# What only the description of such a file has, and what loads it; all others are policies.
LOADERS = {"kinds": "load_contextual", "features": "load_featured"}


class WrongLoaderError(UserError):
    """A file that is sound, and for another loader."""


def refuse_others(about: Mapping[str, Any], loader: str, path: str) -> None:
    """Refuse a file whose description is that of one for another loader."""
    right = next((each for key, each in LOADERS.items() if key in about), "load_policy")
    if right != loader and "format" in about:
        raise WrongLoaderError(f"{path} holds another kind of policy: load it with {right}")


def opened(path: str | Path) -> IO[bytes]:
    """Open a file to be read; what is no file, or is nobody's business, is refused in a line."""
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): name a file that can") from None


def _put_in_place(path: Path, write: Callable[[IO[bytes]], object], lasting: bool, mode: int) -> None:
    draft = path.parent / f".draft-{os.urandom(8).hex()}"
    try:
        stream = open(draft, "xb", opener=partial(os.open, mode=mode))  # noqa: SIM115 -- it is closed below
    except OSError as error:  # it names the draft, which nobody has asked for
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        with stream:
            write(stream)
            if lasting:
                stream.flush()
                os.fsync(stream.fileno())  # else the name could reach the disk before what it stands for
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def user_cache() -> Path:
    """Return where this user's programs keep what can be made again; RuntimeError if the user has no home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maskedbandits"


# The parts of a zip archive (APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16).
ENTRY, LISTED, END = struct.Struct("<4s5H3L2H"), struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s4H2LH")
VERSION, DAY = 20, 33  # of the format, and 1 January 1980, its first


def archive(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return small arrays as numpy.savez would write them, in a tenth of its time."""
    entries, listed, place = list[bytes](), list[bytes](), 0
    for key, array in arrays.items():
        name = f"{key}.npy".encode()
        content = array_head(array.dtype.str, array.shape) + array.tobytes()
        facts = (VERSION, 0, 0, 0, DAY, zlib.crc32(content), len(content), len(content), len(name), 0)
        entries.append(ENTRY.pack(b"PK\3\4", *facts) + name + content)
        listed.append(LISTED.pack(b"PK\1\2", VERSION, *facts, 0, 0, 0, 0, place) + name)
        place += len(entries[-1])
    end = END.pack(b"PK\5\6", 0, 0, len(listed), len(listed), sum(map(len, listed)), place, 0)
    return b"".join([*entries, *listed, end])


@lru_cache(1 << 10)
def array_head(kind: str, shape: tuple[int, ...]) -> bytes:
    """Return how a file of an array begins."""
    stream = io.BytesIO()
    told = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, told)
    return stream.getvalue()


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
