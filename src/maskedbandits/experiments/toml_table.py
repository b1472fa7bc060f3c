"""A table of an experiment's file, which knows where it stands: so every complaint names the file and the key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from maskedbandits.errors import LARGEST, UserError, WrongValueError, check_int, line, nearest, number, shown

Value = TypeVar("Value")


class Section:
    """A table of the file; what is taken from it is checked."""

    def __init__(self, file: str, place: str, values: object) -> None:
        self.file, self.place = file, place
        if not isinstance(values, dict):
            key = re.sub(r"\[\d+\]", "", place)
            table = f"[[{key}]]" if place.endswith("]") else f"[{key}]"
            raise UserError(f"{file}: {place}: expected a table such as {table}, got {show(values)}")
        self.values: dict[str, Any] = values

    def mistake(self, key: str, message: str) -> UserError:
        """Return the complaint about a key of this table."""
        safe = key if key.isprintable() else repr(key)
        place = ".".join(part for part in (self.place, safe) if part)
        return UserError(f"{self.file}: {place}: {message}")

    def refusal(self, error: Exception, end: str = "") -> UserError:
        """Return somebody else's complaint about what stands here, with the place; the end says when it applies."""
        if isinstance(error, WrongValueError):
            return self.mistake(error.name, f"expected {error.wanted}, {got(error.value)}{end}")
        return UserError(f"{self.file}: {self.place}: {error}{end}")

    def refuse_unknown(self, known: Iterable[str], what: str = "key") -> None:
        """Refuse a key that nobody would read, and name the nearest that somebody would."""
        known = list(known)
        for key in self.values:
            if key not in known:
                raise self.mistake(key, f"unknown {what}{nearest(key, known)}")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text that is not empty, and is safe to print."""
        return self._checked(key, line, self.values.get(key, default))

    def integer(self, key: str, default: int | None = None, least: int = 0) -> int:
        """Return a whole number that is at least the given one."""
        return self._checked(
            key, lambda name, value: check_int(name, value, least, LARGEST), self.values.get(key, default)
        )

    def numbers(self, key: str, expected: str, **limits: float) -> list[float]:
        """Return a list of numbers within limits; a single number stands for a list of one."""
        value = self.values.get(key)
        entries: list[Any] = value if isinstance(value, list) else [value]
        if not entries:
            raise self.mistake(key, f"expected {expected}, got an empty list")
        return [self._number(key, expected, entry, limits) for entry in entries]

    def integers(self, key: str, default: list[int]) -> list[int]:
        """Return a list of whole numbers from 0."""
        value: Any = self.values.get(key, default)
        try:
            return [check_int(key, entry, 0, LARGEST) for entry in (value if isinstance(value, list) else [None])]
        except WrongValueError:
            raise self.mistake(key, f"expected a list of whole numbers from 0, {got(value)}") from None

    def sections(self, key: str) -> list[Section]:
        """Return the tables of an array of tables, at least one."""
        value = self.values.get(key)
        if not isinstance(value, list) or not value:
            raise self.mistake(key, f"expected at least one [[{key}]] table, {got(value)}")
        return [Section(self.file, f"{key}[{place}]", entry) for place, entry in enumerate(value)]

    def _checked(self, key: str, check: Callable[[str, object], Value], value: object) -> Value:
        try:
            return check(key, value)
        except WrongValueError as error:
            raise self.refusal(error) from None

    def _number(self, key: str, expected: str, entry: object, limits: dict[str, Any]) -> float:
        try:
            return number(key, entry, **limits)
        except WrongValueError:
            raise self.mistake(key, f"expected {expected}, {got(entry)}") from None


def show(value: object) -> str:
    """Return a value as the file would write it, shortened."""
    return str(value).lower() if isinstance(value, bool) else shown(value)


def got(value: object) -> str:
    """Return the end of a complaint: what stood there in place of what was expected."""
    return "but it is missing" if value is None else f"got {show(value)}"
