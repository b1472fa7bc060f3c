"""Signatures that ``help()`` and ``?`` print readably: short names of types, and a line for each parameter."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import FunctionType, ModuleType, NoneType
from typing import Any, ForwardRef

MAX_WIDTH = 88  # longer signatures are folded
PREFIX = re.compile(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")  # modules before the name of a type

ARRAY = re.compile(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)\]\]")


class TypeText(str):
    """The text of a type, which prints without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class FoldedSignature(inspect.Signature):
    """A signature with a line for each parameter if one line is too long."""

    __slots__ = ()

    def __str__(self) -> str:
        line = inspect.Signature.__str__(self)
        if len(line) <= MAX_WIDTH:
            return line
        end = "" if self.return_annotation is self.empty else f" -> {self.return_annotation!r}"
        return "\n".join(["(", *(f"    {part}," for part in list_parts(self)), f"){end}"])

    def format(self, **options: Any) -> str:
        """Return the same text as ``str``; newer versions of Python ask for it by this name."""
        return str(self)


def list_parts(signature: inspect.Signature) -> Iterator[str]:
    """Yield each parameter as text, and the marks between kinds of parameters."""
    before: Any = None
    for parameter in signature.parameters.values():
        if before is inspect.Parameter.POSITIONAL_ONLY is not parameter.kind:
            yield "/"
        if parameter.kind is parameter.KEYWORD_ONLY and before not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            yield "*"
        yield str(parameter)
        before = parameter.kind


def fold_signatures(value: Any) -> None:
    """Make signatures readable: of a function, of the methods of a class, or of all public names of a module."""
    if isinstance(value, ModuleType):
        for name in getattr(value, "__all__", ()):
            inner = getattr(value, name, None)
            if not isinstance(inner, ModuleType):
                fold_signatures(inner)
    elif isinstance(value, type):
        for name, method in list(vars(value).items()):
            if name in ("__init__", "__new__") or not name.startswith("_"):
                fold_signatures(getattr(method, "__func__", method))
    elif isinstance(value, FunctionType) and not hasattr(value, "__signature__"):
        value.__signature__ = fold_signature(value)  # type: ignore[attr-defined]


def fold_signature(function: FunctionType) -> FoldedSignature:
    """Return the signature of a function, with short names of types."""
    signature = FoldedSignature.from_callable(function)
    parameters = [
        parameter.replace(annotation=shorten_type(parameter.annotation)) for parameter in signature.parameters.values()
    ]
    return signature.replace(parameters=parameters, return_annotation=shorten_type(signature.return_annotation))


def shorten_type(annotation: Any) -> Any:
    """Return the text of a type, without the modules of its names."""
    if annotation is inspect.Parameter.empty:
        return annotation
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    elif isinstance(annotation, type):
        annotation = "None" if annotation is NoneType else annotation.__name__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return TypeText(ARRAY.sub(r"NDArray[\1]", PREFIX.sub("", text.strip("'\""))))
