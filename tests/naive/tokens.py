"""Tokens that are obvious: bytes one after the other, and RFC 2104 written out; nothing of the package is imported."""

from __future__ import annotations

import hashlib

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
FIELDS = (
    ("experiment", 4),
    ("config", 2),
    ("arm", 2),
    ("flags", 1),
    ("epsilon", 4),
    ("probability", 2),
    ("expires", 4),
)


def keyed_digest(secret: bytes, text: bytes) -> bytes:
    block = (hashlib.sha256(secret).digest() if len(secret) > 64 else secret).ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block) + text).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in block) + inner).digest()


def letters(whole: bytes) -> str:
    bits = "".join(f"{byte:08b}" for byte in whole)
    return "".join(LETTERS[int(bits[start : start + 6], 2)] for start in range(0, len(bits), 6))


def signed(secret: bytes, key: int, fields: dict[str, int], identity: bytes, question: bytes = b"") -> str:
    stored = {**fields, "probability": fields["probability"] - 1}
    version = 2 if question else 1
    body = bytes([version, key]) + b"".join(stored[name].to_bytes(size, "big") for name, size in FIELDS) + identity
    body += question
    return letters(body + keyed_digest(secret, body)[:16])


def encode_question(level: int, table: list[int], signs: list[int] | None) -> bytes:
    """Return a question, bit by bit."""
    wide = any(arm > 255 for arm in table)
    bits = f"{level:06b}" + ("1" if wide else "0") + ("0" if signs is None else "1")
    bits += "".join(f"{arm:016b}" if wide else f"{arm:08b}" for arm in table)
    bits += "".join(str(sign) for sign in signs or [])
    while len(bits) % 24:
        bits += "0"
    return bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits), 8))


def read(secrets: dict[int, bytes], text: str) -> tuple[dict[str, int], bytes, bytes] | None:
    """Return the fields, the id and the question, or None if no key has signed this text."""
    if not 64 <= len(text) <= 1024 or len(text) % 4 or any(letter not in LETTERS for letter in text):
        return None
    bits = "".join(f"{LETTERS.index(letter):06b}" for letter in text)
    whole = bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits), 8))
    if whole[0] != (1 if len(whole) == 48 else 2) or whole[1] not in secrets:
        return None
    if keyed_digest(secrets[whole[1]], whole[:-16])[:16] != whole[-16:]:
        return None
    fields, place = {}, 2
    for name, size in FIELDS:
        fields[name] = int.from_bytes(whole[place : place + size], "big")
        place += size
    return {**fields, "probability": fields["probability"] + 1}, whole[place:32], whole[32:-16]
