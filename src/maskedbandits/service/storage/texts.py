"""Texts that both databases can keep: what one of them would refuse is refused for both, in one line."""

from __future__ import annotations

import json
from typing import Any, Never

from maskedbandits.errors import UserError, WrongValueError

LONGEST_NAME = 500  # bytes: names stand in indexes, which take no long texts


def text(name: str, value: str) -> str:
    """Return a text of any length that can be kept."""
    if "\0" in value:
        raise WrongValueError(name, value, "a text without the character 0, which PostgreSQL cannot keep")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise WrongValueError(name, value, "a text without halves of characters") from None
    return value


def short(name: str, value: str) -> str:
    """Return a text that can stand in an index, and is not empty."""
    if not value or len(text(name, value).encode()) > LONGEST_NAME:
        raise WrongValueError(name, value, f"a text of 1 to {LONGEST_NAME} bytes")
    return value


def json_text(name: str, value: str) -> str:
    """Return JSON text as it was given, if it is that."""
    try:
        json.loads(text(name, value), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise WrongValueError(name, value, "JSON") from None
    return value


def document(**parts: str) -> str:
    """Return a JSON document whose values are JSON text already."""
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in parts.items()) + "}"


def quoted(value: Any) -> str:
    """Return a value as JSON text."""
    return json.dumps(value, ensure_ascii=False)


def _refuse(constant: str) -> Never:
    raise ValueError(constant)  # NaN and infinities are Python's, not JSON's
