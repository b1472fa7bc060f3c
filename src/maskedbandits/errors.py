"""A user's error, told in one line: what, where, and what was expected."""

import zlib
from zipfile import BadZipFile


class UserError(ValueError):
    """Something that the person at the keyboard can put right; it is printed without a traceback."""


# What reading an archive of arrays raises when the file is damaged, cut off or something else altogether.
DAMAGED = (
    BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
