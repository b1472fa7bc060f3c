"""Docstrings: examples run, and public names describe their parameters, results and fields."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import maskedbandits
from maskedbandits import policies

PACKAGE = Path(maskedbandits.__file__).parent
# Methods that the package itself calls.
INTERNAL_METHODS = {
    "Contextual": {"for_simulation", "fresh_levels", "note", "restore", "snapshot", "take_in"},
    "Featured": {"for_simulation"},
    "Policy": {"for_log", "for_simulation", "snapshot"},
    "planner.PlanInputs": {
        "build_expected_world",
        "build_policy",
        "build_world",
        "count_worlds",
        "derive_seeds",
        "list_parameters",
        "takes_too_long",
    },
}
# Classes that functions of the package return.
RETURNED_CLASSES = {
    "Contextual",
    "Featured",
    "Policy",
    "device.Decision",
    "planner.Estimate",
    "privacy.audit.Findings",
    "privacy.audit.GroupFindings",
}
MODULES_WITH_EXAMPLES = ("device.", "privacy.", "theory.")
PUBLIC_MODULES = ("data", "device", "planner", "privacy", "privacy.audit", "problems", "testing", "theory")


def list_modules_with_examples() -> list[str]:
    """Return the modules whose docstrings have examples."""
    paths = [path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text("utf-8")]
    return [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths]


def list_public_names() -> Iterator[tuple[str, Any]]:
    """Yield the public functions and classes of the package and its documented modules."""
    for module in ("", *PUBLIC_MODULES):
        owner = importlib.import_module(f"maskedbandits.{module}".rstrip("."))
        for name in owner.__all__:
            yield f"{module}.{name}".lstrip("."), getattr(owner, name)


def list_public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions, and the public methods of public classes."""
    for name, value in list_public_names():
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            for method, attribute in vars(value).items():
                function = getattr(attribute, "__func__", attribute)
                is_public = not method.startswith("_") and method not in INTERNAL_METHODS.get(name, ())
                if inspect.isfunction(function) and is_public:
                    yield f"{name}.{method}", function


def list_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the parameters that callers give."""
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


@pytest.mark.plain
@pytest.mark.parametrize("name", list_modules_with_examples())
def test_docstring_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "KINDS", dict(policies.KINDS))  # an example registers a policy
    result = doctest.testmod(importlib.import_module(f"maskedbandits.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_public_functions_describe_parameters_and_results() -> None:
    missing = []
    for name, function in list_public_functions():
        text, parameters = inspect.getdoc(function) or "", list_parameters(function)
        if parameters and "Parameters\n" not in text:
            missing.append(f"{name}: Parameters")
        if inspect.signature(function).return_annotation not in (None, "None") and "Returns\n" not in text:
            missing.append(f"{name}: Returns")
        missing += [f"{name}: {one}" for one in parameters if one not in text]
    assert missing == []


def test_public_classes_describe_their_parameters() -> None:
    missing = []
    for name, value in list_public_names():
        if inspect.isclass(value) and not issubclass(value, Exception) and name not in RETURNED_CLASSES:
            text = f"{inspect.getdoc(value)} {value.__init__.__doc__}"
            missing += [f"{name}: {one}" for one in list_parameters(value) if one not in text]
    assert missing == []


def test_public_names_of_privacy_and_theory_show_examples() -> None:
    named = [*list_public_names(), *list_public_functions()]
    texts = {name: inspect.getdoc(value) or "" for name, value in named if name.startswith(MODULES_WITH_EXAMPLES)}
    assert len(texts) > 60
    assert [name for name, text in texts.items() if ">>> " not in text] == []
