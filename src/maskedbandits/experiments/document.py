"""The TOML text of an experiment that is made in Python.

Problems and policies become the tables of an experiment file. So an experiment from Python and the same one from a file
have the same checks, seeds and numbers, and the text can be stored with the results.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maskedbandits.corruption import Population, RandomizedResponse
from maskedbandits.errors import UserError, abbreviate
from maskedbandits.experiments.corruption_spec import list_people
from maskedbandits.noise import GaussianNoise, LaplaceNoise
from maskedbandits.problems import ContextualProblem, Problem
from maskedbandits.problems.rewards import Beta, Gaussian

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
NO_CORRUPTION = (
    "in place of the problem's own corruption: leave epsilons out, or give the problem as a dict of its keys"
)


def build_document(problems: Any, policies: Any, epsilons: Any, **top: Any) -> dict[str, Any]:
    """Return the tables of an experiment file; entries of ``top`` that are None are left out."""
    document = {key: value for key, value in {**top, "epsilons": epsilons}.items() if value is not None}
    tables = list_problems(problems, has_epsilons=epsilons is not None)
    return {**document, "problems": tables, "policies": list_policies(policies)}


def list_problems(problems: Any, *, has_epsilons: bool) -> list[dict[str, Any]]:
    """Return the tables of one problem or of several, which a dict may name."""
    named: list[tuple[str | None, Any]]
    if isinstance(problems, Mapping) and problems and all(map(is_problem, problems.values())):
        named = [(str(name), problem) for name, problem in problems.items()]
    elif is_problem(problems):
        named = [(None, problems)]
    elif isinstance(problems, Sequence) and not isinstance(problems, str):
        named = [(None, problem) for problem in problems]
    else:
        raise UserError(
            f"problems is {abbreviate(problems)}: give a Problem, a list of them, or a dict that names them"
        )
    if not named:
        raise UserError("problems is empty: give at least one problem")
    return [build_problem_table(name, problem, has_epsilons=has_epsilons) for name, problem in named]


def is_problem(value: object) -> bool:
    """Tell whether this is a problem, or a dict of the keys of a ``[[problems]]`` table."""
    return isinstance(value, Problem | ContextualProblem | Mapping)


def build_problem_table(name: str | None, problem: Any, *, has_epsilons: bool) -> dict[str, Any]:
    """Return the table of a problem."""
    own = {} if name is None else {"name": name}
    if isinstance(problem, Mapping):
        return {**own, **problem}
    if isinstance(problem, ContextualProblem):
        return {**own, **describe_means(problem), "groups": problem.groups, "shares": problem.shares}
    if type(problem) is not Problem:
        remedy = "give a dict of its keys, such as {'data': ...} or {'csv': ..., 'arm': ..., 'reward': ...}"
        what = "recorded rounds" if isinstance(problem, Problem) else abbreviate(problem)
        raise UserError(f"an experiment has no form for {what}: {remedy}")
    if problem.liars > 0.0:
        raise UserError("an experiment has no form for liars: play this problem with simulate or compare")
    table = {**own, **describe_means(problem)}
    if not has_epsilons:
        return table | describe_masks(problem)
    if problem.is_noisy:
        raise UserError(f"epsilons give randomised response {NO_CORRUPTION}")
    return table


def describe_means(problem: Problem | ContextualProblem) -> dict[str, Any]:
    """Return the keys of the means."""
    return {"means": problem.means, "starts": problem.starts, "horizon": problem.horizon}


def describe_masks(problem: Problem) -> dict[str, Any]:
    """Return the keys of the corruption, and of the rewards where they matter: under noise."""
    first, masks = problem.corruption[0], problem.corruption
    if all(isinstance(mask, RandomizedResponse) for mask in masks):
        return {key: [getattr(mask, key) for mask in masks] for key in ("p00", "p11")}
    if isinstance(first, Population):  # of all arms
        return {"population": list_people(first)}
    if not isinstance(first, LaplaceNoise | GaussianNoise) or any(mask != first for mask in masks):
        raise UserError(
            f"an experiment has no form for {abbreviate(first)}: give RandomizedResponse, a Population, or the same "
            "noise for all arms, or play this problem with simulate or compare"
        )
    noise = {"laplace": first.scale} if isinstance(first, LaplaceNoise) else {"gaussian": first.sigma}
    rewards: dict[str, Any] = {}
    if isinstance(problem.law, Beta):
        rewards = {"rewards": {"beta": problem.law.concentration}}
    elif isinstance(problem.law, Gaussian):
        rewards = {"rewards": {"gaussian": problem.law.sigma}}
    return {"noise": noise, **rewards}


def list_policies(policies: Any) -> list[dict[str, Any]]:
    """Return the tables of one policy or of several, which a dict may label."""
    if isinstance(policies, Mapping) and "name" not in policies:
        tables = [{**build_policy_table(policy), "label": str(label)} for label, policy in policies.items()]
    elif isinstance(policies, str | Mapping) or is_pair(policies):
        tables = [build_policy_table(policies)]
    elif isinstance(policies, Sequence):
        tables = [build_policy_table(policy) for policy in policies]
    else:
        raise UserError(f"policies is {abbreviate(policies)}: give a name, a list of names, or a dict that labels them")
    if not tables:
        raise UserError("policies is empty: give at least one policy")
    return tables


def is_pair(policy: Any) -> bool:
    """Tell whether this is the name of a policy with its parameters."""
    return isinstance(policy, tuple) and len(policy) == 2 and isinstance(policy[1], Mapping)


def build_policy_table(policy: Any) -> dict[str, Any]:
    """Return the table of a policy."""
    if isinstance(policy, str):
        return {"name": policy}
    if isinstance(policy, Mapping):
        return dict(policy)
    if is_pair(policy):
        return {"name": policy[0], **policy[1]}
    raise UserError(
        f"an experiment stores policies by name, and got {abbreviate(policy)}: give a name, ('name', {{...}}), or "
        "'module:function' for your own"
    )


def format_document(document: Mapping[str, Any]) -> str:
    """Return the TOML text of the tables of an experiment file."""
    tables = {key: document[key] for key in ("problems", "policies")}
    lines = format_entries({key: value for key, value in document.items() if key not in tables})
    for key, entries in tables.items():
        for entry in entries:
            lines += ["", f"[[{key}]]", *format_entries(entry)]
    return "\n".join(lines) + "\n"


def format_entries(table: Mapping[str, Any]) -> list[str]:
    """Return a line for each entry of a table."""
    return [f"{format_key(key)} = {format_toml(value)}" for key, value in table.items()]


def format_key(key: object) -> str:
    """Return a key as TOML."""
    return str(key) if BARE_KEY.fullmatch(str(key)) else format_text(str(key))


def format_text(text: str) -> str:
    """Return a text as TOML, whose escapes are those of JSON, and DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def format_toml(value: Any) -> str:
    """Return a value as TOML, on one line; floats are exact."""
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):  # a column of a frame, too
        return format_toml(np.asarray(value).tolist())
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return format_text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return ("-inf" if value < 0 else "inf") if math.isinf(value) else repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(format_entries(value)) + " }" if value else "{}"
    if isinstance(value, list | tuple | range):
        return "[" + ", ".join(map(format_toml, value)) + "]"
    raise UserError(f"an experiment has no form for {abbreviate(value)}: give numbers, texts, lists or dicts")
