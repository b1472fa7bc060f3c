"""Problems drawn from a seed: which generator draws them, and what it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from maskedbandits.corruption import IDENTITY
from maskedbandits.errors import nearest
from maskedbandits.experiments.toml_table import Section, show
from maskedbandits.problems import GENERATORS, GROUP_GENERATORS, ContextualProblem, Problem

EVERY: dict[str, Callable[..., Problem | ContextualProblem]] = {**GENERATORS, **GROUP_GENERATORS}


def generator_of(section: Section) -> str:
    """Return the name of a generator that exists."""
    name = section.text("generator")
    if name not in EVERY:
        raise section.mistake("generator", f"unknown generator {show(name)}{nearest(name, EVERY)}")
    return name


def parameters_of(section: Section) -> list[str]:
    """Return what the generator of a problem takes; the corruption is for the file to say."""
    return [key for key in inspect.signature(EVERY[generator_of(section)]).parameters if key != "corruption"]


def problem_of(section: Section, keys: Sequence[str]) -> Problem | ContextualProblem:
    """Return a problem drawn from a seed, yet without corruption; beside the parameters it may have these keys."""
    name = generator_of(section)
    for key in ("means", "starts"):
        if key in section.values:
            raise section.mistake(key, f"expected either a generator or means, got both generator and {key}")
    known, parameters = inspect.signature(EVERY[name]).parameters, parameters_of(section)
    section.refuse_unknown(["generator", *keys, *parameters], "parameter")
    for key in parameters:
        if known[key].default is inspect.Parameter.empty:
            section.integer(key, least=1)
    given = {key: value for key, value in section.values.items() if key in parameters}
    try:
        return EVERY[name](**given, corruption=IDENTITY)
    except ValueError as error:
        raise section.refusal(error) from error
