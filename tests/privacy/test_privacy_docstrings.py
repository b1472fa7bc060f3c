"""Docstrings of privacy, device and data: examples run, and public names describe parameters and results."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import maskedbandits

PACKAGES = ("privacy", "privacy.audit", "device", "data")


def modules() -> list[str]:
    found = pkgutil.walk_packages(maskedbandits.__path__, "maskedbandits.")
    prefixes = tuple(f"maskedbandits.{name}" for name in PACKAGES)
    return [module.name for module in found if module.name.startswith(prefixes)]


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions and methods of public names that a docstring must describe."""
    for package in PACKAGES:
        module = importlib.import_module(f"maskedbandits.{package}")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value):
                yield f"{package}.{name}", value
            elif inspect.isclass(value):
                for method, function in vars(value).items():
                    function = function.__func__ if isinstance(function, classmethod) else function
                    if inspect.isfunction(function) and not method.startswith("_"):
                        yield f"{package}.{name}.{method}", function


@pytest.mark.parametrize("name", modules())
def test_docstring_examples_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_public_functions_describe_parameters_and_results() -> None:
    missing = []
    for name, function in public_functions():
        text, signature = inspect.getdoc(function) or "", inspect.signature(function)
        parameters = [one for one in signature.parameters if one not in ("self", "cls")]
        if parameters and "Parameters\n" not in text:
            missing.append(f"{name}: Parameters")
        if signature.return_annotation not in (None, "None") and "Returns\n" not in text:
            missing.append(f"{name}: Returns")
        missing += [f"{name}: {one}" for one in parameters if one not in text]
    assert missing == []
