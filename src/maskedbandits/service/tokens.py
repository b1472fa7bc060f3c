"""Tokens: what a device gets with a decision, and the only thing it needs in order to report once.

A token is 48 bytes, 64 letters of base64url: what was decided, and a keyed digest (HMAC-SHA256, RFC 2104, cut to 16
bytes) that nobody without the key can make. So there is no row per decision, and nothing to look up. It needs the
standard library alone.

    version 1, key 1, experiment 4, config 2, arm 2, flags 1, epsilon 4, probability 2, expires 4, id 11, digest 16

48 bytes fill 64 letters to the last bit, and letters of the other base64 alphabet are refused: no two texts are the
same token.

Where there are groups a token is longer: it binds the question as well, which stands before the digest, a multiple of
three bytes. Its version is another one, arm and probability say nothing, and nobody knows them.

    version 1, ..., id 11, question 3 n, digest 16
"""

import binascii
import hmac
import os
import struct
from collections.abc import Mapping
from typing import NamedTuple

from maskedbandits.errors import UserError

VERSION = 1
ASKING = 2  # the version of tokens that bind a question
LENGTH = 64  # letters of a token without one
LONGEST = 1 << 10  # letters of one with the most groups there may be, and some more
ID = 11  # bytes
DIGEST = 16  # bytes: to guess one takes 2^127 reports on average
SECRET = 32  # bytes of a signing key
AT_ONCE = 256  # ids whose random bytes are drawn together
FLAG_FLOOR = 1  # the arm was drawn for its minimum share
FLAG_HOLDOUT = 2  # the default arm, for the share that is held out
FLAG_SUBSET = 4  # eligible_arms were given
# 16 among the flags of an event is ``sources.FLAG_HELD``, which no token has.
FLAG_SHOWN = 8  # whoever asked takes no part: kept for a visitor's reload, given to nobody, and no report of it counts

_BODY = struct.Struct(">BBIHHBIHI11s")
_pack, _unpack = _BODY.pack, _BODY.unpack_from
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_+/=", b"+/\0\0\0")  # the other alphabet becomes what no alphabet has


class ForgedToken(Exception):  # noqa: N818 -- it is the token that is forged
    """A text that none of these keys has signed."""


class UnknownKey(ForgedToken):
    """A text that may be signed by a key which is not here: one that was made elsewhere, or dropped, or never was."""


class Token(NamedTuple):
    """What was decided."""

    experiment: int
    config: int  # version of the configuration, its last 16 bits
    arm: int
    flags: int
    epsilon: int  # in millionths
    probability: int  # in 65536ths, from 1 to 65536
    expires: int  # unix seconds
    id: bytes  # random
    question: bytes = b""  # where there are groups, as ``cache_key.py`` writes it


def new_id() -> bytes:
    """Return an id that no other decision has: random bytes, which tell no time."""
    try:
        return _spare.pop()  # threads share the spare ones, and each is popped once
    except IndexError:
        drawn = os.urandom(ID * AT_ONCE)
        _spare.extend(drawn[place : place + ID] for place in range(ID, len(drawn), ID))
        return drawn[:ID]


_spare: list[
    bytes
] = []  # drawn from the operating system in one call, which may take as long as the rest of a decision
if hasattr(os, "register_at_fork"):  # not on Windows, where nobody forks
    os.register_at_fork(after_in_child=_spare.clear)  # or two processes would use the same ones


class Keyring:
    """The signing keys by number, of which the current one signs; the others are still believed."""

    def __init__(self, keys: Mapping[int, bytes], current: int) -> None:
        if current not in keys:
            raise UserError(f"no signing key has the number {current}: make one with maskedbandits key rotate")
        self._keys = dict(keys)
        self.current = current
        self._secret = self._keys[current]

    def sign(self, token: Token) -> str:
        """Return a token as its text."""
        experiment, config, arm, flags, epsilon, probability, expires, identity, question = token
        config &= 0xFFFF
        kind = ASKING if question else VERSION
        body = _pack(kind, self.current, experiment, config, arm, flags, epsilon, probability - 1, expires, identity)
        if question:
            body += question
        digest = hmac.digest(self._secret, body, "sha256")[:DIGEST]
        return binascii.b2a_base64(body + digest, newline=False).translate(_TO_URL).decode("ascii")

    def read(self, text: str) -> Token:
        """Return what a text says, or refuse it: `ForgedToken`, whatever is wrong with it."""
        if len(text) != LENGTH and not (LENGTH < len(text) <= LONGEST and len(text) % 4 == 0):
            raise ForgedToken
        try:
            whole = binascii.a2b_base64(text.encode("ascii").translate(_FROM_URL), strict_mode=True)
        except ValueError:  # a letter that is none of base64url's
            raise ForgedToken from None
        body = whole[:-DIGEST]
        secret = self._keys.get(body[1])
        if secret is None:
            raise UnknownKey
        if not hmac.compare_digest(hmac.digest(secret, body, "sha256")[:DIGEST], whole[-DIGEST:]):
            raise ForgedToken
        version, _, experiment, config, arm, flags, epsilon, probability, expires, identity = _unpack(body)
        question = body[_BODY.size :]
        if version != (ASKING if question else VERSION):  # of a later release, with a key that this one shares
            raise ForgedToken
        return Token(experiment, config, arm, flags, epsilon, probability + 1, expires, identity, question)
