"""What is wrong with a body, in words: which fields and values are known, and what a pattern means."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import inspect

from maskedbandits.errors import nearest

AT = r"(?: - at `(?P<path>\$[^`]*)`)?$"
UNKNOWN = re.compile(r"Object contains unknown field `(?P<what>.*?)`" + AT, re.DOTALL)
PATTERN = re.compile(r"Expected `str` matching regex .*?" + AT, re.DOTALL)
VALUE = re.compile(r"Invalid enum value (?P<what>.*?)" + AT, re.DOTALL)
STEP = re.compile(r"\.(\w+)|\[[^\]]*\]")
HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")  # of a character


def unfit(wanted: Any, text: str) -> str:
    """Return what does not fit a type, by what msgspec says of it."""
    if found := UNKNOWN.match(text):
        path, what = found["path"] or "$", found["what"]
        kind = _bare(_at(wanted, path))
        known = [field.encode_name for field in kind.fields] if isinstance(kind, inspect.StructType) else []
        where = "" if path == "$" else f" of {path.removeprefix('$.')}"
        return f"no field{where} is called {what!r}{nearest(what, known)}"
    if (found := VALUE.match(text)) and isinstance(
        kind := _bare(_at(wanted, found["path"] or "$")), inspect.LiteralType
    ):
        return f"the body does not fit: {text}{nearest(found['what'][1:-1], map(str, kind.values))}"
    if (found := PATTERN.match(text)) and isinstance(kind := _at(wanted, found["path"] or "$"), inspect.Metadata):
        described = (kind.extra_json_schema or {}).get("description", "")
        return (
            f"the body does not fit: `{found['path']}` is to be of {described[:1].lower()}{described[1:].rstrip('.')}"
        )
    return f"the body does not fit: {text}"


def no_json(body: bytes, error: ValueError) -> str:
    """Return why a body is not JSON."""
    if not body.strip():
        what = "it is empty"
    elif not isinstance(error, msgspec.DecodeError):
        what = "it is not UTF-8"
    elif HALF.search(body):
        what = r"half a character is in it, such as \ud83d without its other half"
    else:
        what = str(error).partition("\n")[0]
    return f"the body is not JSON: {what}; send a JSON object"


def _at(wanted: Any, path: str) -> inspect.Type:
    """Return the type of what is at a path, such as `$.arms[0]`."""
    kind = inspect.type_info(wanted)
    for name in STEP.findall(path):
        kind = _bare(kind)
        if isinstance(kind, inspect.StructType):
            kind = next((field.type for field in kind.fields if field.encode_name == name), inspect.AnyType())
        else:
            kind = kind.item_type if isinstance(kind, inspect.ListType) else inspect.AnyType()
    return kind


def _bare(kind: inspect.Type) -> inspect.Type:
    """Return a type without what is said about it, and without that it may be left out."""
    if isinstance(kind, inspect.Metadata):
        return _bare(kind.type)
    if isinstance(kind, inspect.UnionType):
        return _bare(next(each for each in kind.types if not isinstance(each, inspect.NoneType)))
    return kind
