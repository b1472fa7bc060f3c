"""A table of numbers by name, in memory that all workers of a service share, of a fixed size.

A name is stored as a keyed digest, so the memory reveals no address and no key. The digest selects a set of eight
entries. If all eight are in use, the one with the smallest number is replaced. Callers choose their numbers so that the
smallest matters least. Each change holds a lock of the operating system on its set, which is released if its process
dies.
"""

from __future__ import annotations

import mmap
import os
import secrets
import sys
import tempfile
from collections.abc import Callable
from hashlib import blake2b
from typing import IO

if sys.platform == "win32":  # which has one worker, and nothing to lock
    fcntl = None
else:
    import fcntl

SETS, WAYS = 1 << 14, 8
TAG_BYTES = 8
TABLE_BYTES = 2 * 8 * SETS * WAYS  # a tag and a number for each entry
SECRET_BYTES = 32


def open_memory(size: int) -> IO[bytes]:
    """Return a file without a name, of zeros, that child processes can map; on Linux it is never on a disk."""
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("maskedbandits"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 -- the caller closes it
    file.truncate(size)
    return file


def draw_secret() -> bytes:
    """Return a random key for the digests of a table."""
    return secrets.token_bytes(SECRET_BYTES)


class SharedTable:
    """Numbers by name, none negative; a name without a number has 0."""

    def __init__(self, handle: int | None = None, secret: bytes | None = None, sets: int = SETS) -> None:
        """Map the memory behind a file that all workers have open, or memory of this process alone."""
        self._handle, self._sets = handle, sets
        self._secret = secret or draw_secret()
        memory = memoryview(mmap.mmap(-1 if handle is None else handle, 2 * 8 * sets * WAYS))
        self._tags = memory[: 8 * sets * WAYS].cast("Q")
        self._numbers = memory[8 * sets * WAYS :].cast("d")

    def update(self, name: bytes, change: Callable[[float], float]) -> None:
        """Replace the number of a name by what a function returns for it."""
        tag, place = self._locate(name)
        if self._handle is None or fcntl is None:
            self._write(tag, place, change)
            return
        fcntl.lockf(self._handle, fcntl.LOCK_EX, 1, place)
        try:
            self._write(tag, place, change)
        finally:
            fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, place)

    def get(self, name: bytes) -> float:
        """Return the number of a name."""
        tag, place = self._locate(name)
        tags = self._tags[place * WAYS : (place + 1) * WAYS].tolist()
        return self._numbers[place * WAYS + tags.index(tag)] if tag in tags else 0.0

    def _locate(self, name: bytes) -> tuple[int, int]:
        """Return the tag of a name, which is never 0, and its set."""
        digest = blake2b(name, key=self._secret, digest_size=2 * TAG_BYTES).digest()
        place = int.from_bytes(digest[TAG_BYTES:], "little") % self._sets
        return int.from_bytes(digest[:TAG_BYTES], "little") | 1, place

    def _write(self, tag: int, place: int, change: Callable[[float], float]) -> None:
        start = place * WAYS
        tags = self._tags[start : start + WAYS].tolist()
        if tag in tags:
            index = start + tags.index(tag)
            self._numbers[index] = change(self._numbers[index])
            return
        number = change(0.0)
        numbers = self._numbers[start : start + WAYS].tolist()
        index = start + numbers.index(min(numbers))
        self._tags[index], self._numbers[index] = tag, number
