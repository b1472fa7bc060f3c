"""A table of an experiment file that knows its place, so that every error names the file and the key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from maskedbandits.errors import (
    LARGEST,
    UserError,
    WrongValueError,
    abbreviate,
    check_int,
    check_line,
    check_number,
    suggest_nearest,
)

Value = TypeVar("Value")


class Key(NamedTuple):
    """A key of experiment files, for the reference: its type, its meaning and its default; None if it has none."""

    kind: str
    meaning: str
    default: str | None = None


class TomlTable:
    """A table of the file whose values are checked when they are read.

    Parameters
    ----------
    file
        The name of the file, for errors.
    path
        The place of the table in the file, such as ``problems[0]``; empty for the top.
    values
        The parsed table. Anything but a dict is an error of the user's.
    folders
        The folders of CSV files and of your own modules.

    """

    def __init__(self, file: str, path: str, values: object, folders: tuple[Path, ...] = ()) -> None:
        self.file, self.path, self.folders = file, path, folders
        if not isinstance(values, dict):
            key = re.sub(r"\[\d+\]", "", path)
            example = f"[[{key}]]" if path.endswith("]") else f"[{key}]"
            raise UserError(f"{file}: {path}: expected a table such as {example}, got {format_value(values)}")
        self.values: dict[str, Any] = values

    def error(self, key: str, message: str) -> UserError:
        """Return an error about a key of this table."""
        safe = key if key.isprintable() else repr(key)
        path = ".".join(part for part in (self.path, safe) if part)
        return UserError(f"{self.file}: {path}: {message}")

    def wrap_error(self, error: Exception, end: str = "") -> UserError:
        """Return an error of the library with the place in the file; ``end`` says when it applies."""
        if isinstance(error, WrongValueError):
            return self.error(error.name, f"expected {error.wanted}, {describe_actual(error.value)}{end}")
        return UserError(f"{self.file}: {self.path}: {error}{end}")

    def check_keys(self, known: Iterable[str], noun: str = "key") -> None:
        """Raise an error for an unknown key, with the nearest known one."""
        known = list(known)
        for key in self.values:
            if key not in known:
                raise self.error(key, f"unknown {noun}{suggest_nearest(key, known)}")

    def get_text(self, key: str, default: str | None = None) -> str:
        """Return a text that is not empty and is safe to print."""
        return self._check(key, check_line, self.values.get(key, default))

    def get_int(self, key: str, default: int | None = None, least: int = 0) -> int:
        """Return a whole number of at least ``least``."""
        return self._check(
            key, lambda name, value: check_int(name, value, least, LARGEST), self.values.get(key, default)
        )

    def get_numbers(self, key: str, expected: str, **limits: float) -> list[float]:
        """Return a list of numbers within limits; a single number means a list of one."""
        value = self.values.get(key)
        entries: list[Any] = value if isinstance(value, list) else [value]
        if not entries:
            raise self.error(key, f"expected {expected}, got an empty list")
        return [self._check_number(key, expected, entry, limits) for entry in entries]

    def get_ints(self, key: str, default: list[int]) -> list[int]:
        """Return a list of whole numbers from 0."""
        value: Any = self.values.get(key, default)
        try:
            return [check_int(key, entry, 0, LARGEST) for entry in (value if isinstance(value, list) else [None])]
        except WrongValueError:
            raise self.error(key, f"expected a list of whole numbers from 0, {describe_actual(value)}") from None

    def get_tables(self, key: str) -> list[TomlTable]:
        """Return the tables of an array of tables, at least one."""
        value = self.values.get(key)
        if not isinstance(value, list) or not value:
            raise self.error(key, f"expected at least one [[{key}]] table, {describe_actual(value)}")
        return [TomlTable(self.file, f"{key}[{index}]", entry, self.folders) for index, entry in enumerate(value)]

    def _check(self, key: str, check: Callable[[str, object], Value], value: object) -> Value:
        try:
            return check(key, value)
        except WrongValueError as error:
            raise self.wrap_error(error) from None

    def _check_number(self, key: str, expected: str, entry: object, limits: dict[str, Any]) -> float:
        try:
            return check_number(key, entry, **limits)
        except WrongValueError:
            raise self.error(key, f"expected {expected}, {describe_actual(entry)}") from None


def format_value(value: object) -> str:
    """Return a value as the file would write it, shortened."""
    return str(value).lower() if isinstance(value, bool) else abbreviate(value)


def describe_actual(value: object) -> str:
    """Return the end of an error: the value found in place of the expected one."""
    return "but it is missing" if value is None else f"got {format_value(value)}"
