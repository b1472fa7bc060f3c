"""Tokens: a device gets one with each decision, and needs nothing else to report once.

A token is 48 bytes, 64 characters of base64url: the decision, and a keyed digest (HMAC-SHA256, RFC 2104, cut to 16
bytes) that only the service can make. So there is no row per decision, and nothing to look up. This module needs the
standard library alone. Fields and their bytes:

    version 1, key 1, experiment 4, config 2, arm 2, flags 1, epsilon 4, probability 2, expires 4, id 11, digest 16

48 bytes fill 64 characters to the last bit, and characters of the other base64 alphabet are refused: a token has one
text.

With groups a token is longer: the question comes before the digest, as a multiple of three bytes. The version is
another one. Arm and probability are unknown, and have no meaning.

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
QUESTION_VERSION = 2  # of tokens with a question
TOKEN_LENGTH = 64  # characters, without a question
MAX_TOKEN_LENGTH = 1 << 10  # with the most groups, and some room
ID_BYTES = 11
DIGEST_BYTES = 16  # guessing one takes 2^127 reports on average
SIGNING_KEY_BYTES = 32
IDS_AT_ONCE = 256
FLAG_FLOOR = 1  # the arm was drawn for its minimum share
FLAG_HOLDOUT = 2  # the default arm, for the share that is held out
FLAG_SUBSET = 4  # eligible_arms were given
FLAG_SHOWN = 8  # without participation: stored for a visitor's reload, never sent, and its reports do not count
FLAG_HELD_BACK = 16  # of events alone, never of tokens: the report is over a source limit, and no policy learns from it

_BODY = struct.Struct(">BBIHHBIHI11s")
_pack, _unpack = _BODY.pack, _BODY.unpack_from
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_+/=", b"+/\0\0\0")  # characters of the other alphabet become invalid


class ForgedToken(Exception):  # noqa: N818 -- it is the token that is forged
    """A text that was not signed with any of the keys."""


class UnknownKey(ForgedToken):
    """A text with a key number that is not known here: the key is new, was dropped, or never existed."""


class Token(NamedTuple):
    """A decision as its token carries it."""

    experiment: int
    config: int  # version of the configuration, its last 16 bits
    arm: int
    flags: int
    epsilon: int  # in millionths
    probability: int  # in 65536ths, from 1 to 65536
    expires: int  # unix seconds
    id: bytes  # random
    question: bytes = b""  # with groups, as ``group_queries.py`` packs it


def draw_id() -> bytes:
    """Draw the id of a decision: random bytes, which reveal no time."""
    try:
        return _spare_ids.pop()  # atomic, so that threads may share them
    except IndexError:
        drawn = os.urandom(ID_BYTES * IDS_AT_ONCE)
        _spare_ids.extend(drawn[start : start + ID_BYTES] for start in range(ID_BYTES, len(drawn), ID_BYTES))
        return drawn[:ID_BYTES]


_spare_ids: list[bytes] = []  # drawn in one call, which can take as long as the rest of a decision
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_spare_ids.clear)  # or two processes would use the same ids


class Keyring:
    """The signing keys by number: the current one signs, and all of them verify."""

    def __init__(self, keys: Mapping[int, bytes], current: int) -> None:
        if current not in keys:
            raise UserError(f"no signing key has the number {current}: create one with maskedbandits key rotate")
        self._keys = dict(keys)
        self.current = current
        self._secret = self._keys[current]

    def sign(self, token: Token) -> str:
        """Return the signed text of a token."""
        experiment, config, arm, flags, epsilon, probability, expires, identity, question = token
        config &= 0xFFFF
        kind = QUESTION_VERSION if question else VERSION
        body = _pack(kind, self.current, experiment, config, arm, flags, epsilon, probability - 1, expires, identity)
        if question:
            body += question
        digest = hmac.digest(self._secret, body, "sha256")[:DIGEST_BYTES]
        return binascii.b2a_base64(body + digest, newline=False).translate(_TO_URL).decode("ascii")

    def read(self, text: str) -> Token:
        """Return the token of a text; raise `ForgedToken` for any fault in it."""
        if len(text) != TOKEN_LENGTH and not (TOKEN_LENGTH < len(text) <= MAX_TOKEN_LENGTH and len(text) % 4 == 0):
            raise ForgedToken
        try:
            signed = binascii.a2b_base64(text.encode("ascii").translate(_FROM_URL), strict_mode=True)
        except ValueError:  # no base64url
            raise ForgedToken from None
        body = signed[:-DIGEST_BYTES]
        secret = self._keys.get(body[1])
        if secret is None:
            raise UnknownKey
        if not hmac.compare_digest(hmac.digest(secret, body, "sha256")[:DIGEST_BYTES], signed[-DIGEST_BYTES:]):
            raise ForgedToken
        version, _, experiment, config, arm, flags, epsilon, probability, expires, identity = _unpack(body)
        question = body[_BODY.size :]
        if version != (QUESTION_VERSION if question else VERSION):  # of a later release that shares the key
            raise ForgedToken
        return Token(experiment, config, arm, flags, epsilon, probability + 1, expires, identity, question)
