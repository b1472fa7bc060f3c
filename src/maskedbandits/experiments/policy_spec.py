"""The ``[[policies]]`` of an experiment file: each policy in each condition is a task, with all its parameters.

The file need not repeat what the problem knows: the horizon, the times of the changes, and so on. A window may be named
by the rule that chooses it. On a problem with groups a policy also takes

    [[policies]]
    name = "auto"
    context = false                             # one arm for all people; by default a choice for each group
    pool = true                                 # parameters of ``make_contextual`` for choices by group
    answers = "bit"
    shares = [0.5, 0.5]                         # assumed by the policy; by default those of the problem
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maskedbandits.contextual import check_contextual
from maskedbandits.errors import LARGEST
from maskedbandits.experiments.grid import expand_grid
from maskedbandits.experiments.named_policy import NamedPolicy, RegisteredPolicy, find_policy, find_registered_policy
from maskedbandits.experiments.problem_spec import Condition
from maskedbandits.experiments.toml_table import Key, TomlTable, format_value
from maskedbandits.policies import KINDS, check_policy, kind_of, names, suggest_policy
from maskedbandits.problems import ContextualProblem, Log, Problem
from maskedbandits.simulation import external
from maskedbandits.simulation.defaults import WINDOW_RULES, best_fixed_arm, choose_window, fill_defaults
from maskedbandits.simulation.external import Factory, NamedFactory

COMMON_KEYS = {
    "name": Key("text", "a policy, or your own: `module:name`"),
    "label": Key("text", "the name of the policy in tables and figures", "the name and the parameters"),
    "context": Key("boolean", "with groups: `false` chooses one arm for everybody", "`true`"),
    "pool": Key("boolean", "with groups: whether similar groups learn from one another", "as `make_contextual`"),
    "answers": Key("text", "with groups: the kind of answer", "as `make_contextual`"),
    "shares": Key("list of numbers", "with groups: the shares that the policy assumes", "those of the problem"),
}
QUERY_KEYS = ("pool", "answers", "shares")  # what a policy is given about its questions to groups
GROUP_KEYS = ("context", *QUERY_KEYS)
NO_GROUPS = "a function in plain Python plays no problem with groups: leave one of them out"
GROUP_FACTS = ("horizon", "restarts")  # facts of a problem that the policy of each group may require


@dataclass(frozen=True)
class Task:
    """One cell to run: a policy with all its parameters in one condition.

    Parameters
    ----------
    condition
        The problem and its corruption.
    policy
        The policy's name: ``module:name`` for a policy from outside.
    label
        The policy's name in tables and figures.
    parameters
        All parameters, those that follow from the problem included.
    window_rule
        The rule that chose the window, if one did.
    factory
        The function behind a policy from outside in plain Python.
    own
        The module behind a compiled policy from outside.

    """

    condition: Condition
    policy: str
    label: str
    parameters: dict[str, Any]
    window_rule: str | None
    factory: NamedFactory | None = None
    own: NamedPolicy | RegisteredPolicy | None = None

    @property
    def outside(self) -> NamedFactory | NamedPolicy | RegisteredPolicy | None:
        """The policy from outside, if it is one."""
        return self.factory or self.own

    @property
    def published(self) -> float | None:
        """The regret that a publication reports for this cell, if the file names it."""
        return self.condition.published.get(self.label, self.condition.published.get(self.policy))


def read_policies(top: TomlTable) -> list[TomlTable]:
    """Return the tables of the policies, expanded by the grid."""
    return expand_grid(top, "policies", lambda table: list_parameters(table, read_name(table)))


def read_labels(tables: Sequence[TomlTable]) -> dict[str, str]:
    """Return the names of the policies by their labels."""
    labels: dict[str, str] = {}
    for table in tables:
        label = read_label(table)
        if label in labels:
            raise table.error("label", f"expected a label of its own, {format_value(label)} is taken")
        labels[label] = table.values["name"]
    return labels


def read_label(table: TomlTable) -> str:
    """Return the label of a policy, after a check of its name and its keys."""
    name = read_name(table)
    table.check_keys(["name", "label", *list_parameters(table, name)], "parameter")
    for key, value in table.values.items():
        check_size(table, key, value)
    given = [f"{key}={format_parameter(value)}" for key, value in table.values.items() if key not in ("name", "label")]
    return table.get_text("label", f"{name} ({', '.join(given)})" if given else name)


def format_parameter(value: Any) -> str:
    """Return a value as a label shows it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_name(table: TomlTable) -> str:
    """Return the name of a known policy, or of a function outside."""
    name = table.get_text("name")
    if ":" not in name and name not in names():
        raise table.error("name", f"unknown policy {format_value(name)}{suggest_policy(name, names())}")
    return name


def list_parameters(table: TomlTable, name: str) -> list[str]:
    """Return the keys that the table of a policy takes beside its name and label."""
    if ":" not in name or find_own(table, name):
        return [*KINDS[name].parameters, *(GROUP_KEYS if supports_groups(name) else ["context"])]
    return sorted(external.list_parameters(find_factory(table, name)) - set(external.KNOWN_PARAMETERS))


def find_factory(table: TomlTable, name: str) -> Factory:
    """Return the factory of a policy from outside, in a module beside the file or an installed one."""
    try:
        return external.import_factory(name, table.folders)
    except ValueError as error:
        raise table.error("name", str(error)) from error


def find_own(table: TomlTable, name: str) -> NamedPolicy | RegisteredPolicy | None:
    """Return the compiled policy from outside with this name, if it is one; from then on `KINDS` has it."""
    try:
        return find_policy(name, table.folders) if ":" in name else find_registered_policy(name, table.folders)
    except ValueError as error:
        raise table.error("name", str(error)) from error


def check_size(table: TomlTable, key: str, value: Any) -> None:
    """Raise an error for whole numbers, also within lists, that floats cannot hold exactly."""
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, int) and abs(entry) > LARGEST:
            raise table.error(key, f"expected numbers of at most {LARGEST}, got {format_value(entry)}")


def build_tasks(
    tables: Sequence[TomlTable], labels: Mapping[str, str], conditions: Sequence[Condition]
) -> tuple[Task, ...]:
    """Return every cell, condition by condition; each policy is checked in each condition."""
    policies = list(zip(tables, labels, strict=True))
    return tuple(build_task(table, label, condition) for condition in conditions for table, label in policies)


def build_task(table: TomlTable, label: str, condition: Condition) -> Task:
    """Return a policy in one condition, with its window if the file names a rule."""
    name, problem = table.values["name"], condition.averaged_problem
    own = find_own(table, name)
    given = {key: value for key, value in table.values.items() if key not in ("name", "label", "context")}
    if not isinstance(condition.problem, ContextualProblem):
        refuse_group_keys(table)
    elif chooses_by_group(table):
        parameters = complete_group_parameters(table, given, condition, condition.problem)
        return Task(condition, name, label, parameters, None, own=own)
    if ":" in name and own is None:
        return Task(condition, name, label, given, None, build_factory(table, given, condition.problem))
    rule = given.get("window")
    if isinstance(rule, str) and rule not in WINDOW_RULES:
        raise table.error("window", f"expected a whole number, {', '.join(WINDOW_RULES)}, got {format_value(rule)}")
    if given.get("best") == "fixed":
        given |= {"best": [best_fixed_arm(problem)], "restarts": [0]}
    parameters = given | fill_defaults(name, given, problem, condition.epsilon)
    try:
        if isinstance(rule, str):
            parameters["window"] = choose_window(rule, name, parameters, problem)
        pace = problem.rows_per_play if isinstance(problem, Log) else None
        check_policy(name, arms=problem.arms, corruption=problem.corruption, pace=pace, **parameters)
    except (ValueError, TypeError, OverflowError) as error:
        raise table.wrap_error(error, f" (on {condition})") from error
    if isinstance(condition.problem, ContextualProblem):
        parameters["context"] = False
    return Task(condition, name, label, parameters, rule if isinstance(rule, str) else None, own=own)


def build_factory(table: TomlTable, given: dict[str, Any], problem: Problem | ContextualProblem) -> NamedFactory:
    """Return the factory of a policy from outside, after a check that it accepts its parameters."""
    if isinstance(problem, ContextualProblem):
        raise table.error("name", NO_GROUPS)
    factory = NamedFactory(table.values["name"], table.folders, given)
    try:
        external.bind_parameters(factory, problem)
    except ValueError as error:
        raise table.error("name", str(error)) from error
    return factory


# Policies on problems with groups


def supports_groups(name: str) -> bool:
    """Return whether a policy can choose for each group, which takes learning through a mask."""
    return kind_of(name).sees_corruption and not kind_of(name).sees_rewards


def chooses_by_group(table: TomlTable) -> bool:
    """Return whether a policy is to choose for each group."""
    context = table.values.get("context", True)
    if not isinstance(context, bool):
        raise table.error("context", f"expected true or false, got {format_value(context)}")
    for key in QUERY_KEYS:
        if key in table.values and not context:
            raise table.error(key, "is for a choice for each group, and context = false is one arm for everybody")
    return context


def refuse_group_keys(table: TomlTable) -> None:
    """Raise an error for keys about groups on a problem without groups; ``context = false`` is allowed."""
    for key in GROUP_KEYS:
        if key in table.values and table.values[key] is not False:
            raise table.error(key, "is for problems with groups, and not all of these have some")


def complete_group_parameters(
    table: TomlTable, given: Mapping[str, Any], condition: Condition, problem: ContextualProblem
) -> dict[str, Any]:
    """Return all parameters of a policy with a choice for each group, checked, with the kind of its answers."""
    name = table.values["name"]
    if ":" in name and find_own(table, name) is None:
        raise table.error("name", NO_GROUPS)
    if isinstance(rule := given.get("window"), str):
        raise table.error("window", f"expected a number, as no rule is known for groups, got {format_value(rule)}")
    facts = {"horizon": problem.horizon, "restarts": problem.starts.tolist()}
    known = kind_of(name).parameters
    filled = {key: facts[key] for key in GROUP_FACTS if key in known and known[key].required and key not in given}
    if np.ptp(problem.shares) > 0.0 and "shares" not in given:
        filled["shares"] = problem.shares.tolist()
    if len(filled.get("restarts", ())) > 1:  # with other answers the clocks of groups differ from the visitors'
        filled |= {"answers": "bit", "pool": False}
    parameters: dict[str, Any] = {**filled, **given}
    shape: dict[str, Any] = {"groups": problem.groups, "arms": problem.arms, "epsilon": condition.epsilon}
    try:
        answers = check_contextual(name, **shape, **parameters)
    except (ValueError, TypeError, OverflowError) as error:
        hint = "; context = false plays one arm for everybody" if not supports_groups(name) else ""
        raise table.wrap_error(error, f"{hint} (on {condition})") from error
    return {**parameters, "answers": answers, "context": True}
