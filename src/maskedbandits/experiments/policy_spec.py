"""The tasks of an experiment: each of its policies in each of its conditions, with all that the policy is told.

What a policy wants to know and the problem knows need not stand in the file: the horizon, the times of the changes, and
so on. A window may be named by the rule that chooses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maskedbandits import theory
from maskedbandits.errors import LARGEST, nearest
from maskedbandits.experiments import group_spec
from maskedbandits.experiments.grid import spread
from maskedbandits.experiments.problem_spec import Condition
from maskedbandits.experiments.toml_table import Section, show
from maskedbandits.policies import KINDS, check_policy, names
from maskedbandits.problems import ContextualProblem, Log, Problem
from maskedbandits.simulation import external
from maskedbandits.simulation.external import Factory, Named

# Each is given the problem in the steps that a policy plays.
WINDOW_RULES: dict[str, Callable[[Problem, float], int]] = {
    "paper": lambda problem, c: theory.paper_window(problem.horizon, problem.segments),
    "lambert": lambda problem, c: theory.lambert_window(problem.horizon, problem.segments),
    "corrected": theory.corrected_window,
    "variation": lambda problem, c: theory.variation_window(
        problem.horizon, problem.arms, problem.variation, [g(1.0) - g(0.0) for g in problem.corruption], c=c
    ),
}


def best_fixed(problem: Problem) -> int:
    """Return the arm that is best over the whole play; of several, the first."""
    return int((problem.lengths @ problem.means).argmax())


# What the problem knows of what policies ask for.
KNOWN: dict[str, Callable[[Condition], Any]] = {
    "horizon": lambda condition: condition.alike.horizon,
    "restarts": lambda condition: condition.alike.starts.tolist(),
    "best": lambda condition: condition.alike.best_arms.tolist(),
    "variation": lambda condition: condition.alike.variation,
    # of the best arm, the first one included: the hardness of Auer et al. 2002
    "changes": lambda condition: 1 + int(np.count_nonzero(np.diff(condition.alike.best_arms))),
    "epsilon": lambda condition: condition.epsilon,
}


@dataclass(frozen=True)
class Task:
    """One cell to run: a policy, its parameters resolved, in one condition."""

    condition: Condition
    policy: str
    label: str
    parameters: dict[str, Any]
    window_rule: str | None
    factory: Named | None = None  # of a policy from outside

    @property
    def published(self) -> float | None:
        """The regret that a publication reports for this cell, if the file names it."""
        return self.condition.published.get(self.label, self.condition.published.get(self.policy))


def labels_of(sections: Sequence[Section]) -> dict[str, str]:
    """Return the policies' names by their labels."""
    labels: dict[str, str] = {}
    for section in sections:
        label = label_of(section)
        if label in labels:
            raise section.mistake("label", f"expected a label of its own, {show(label)} is taken")
        labels[label] = section.values["name"]
    return labels


def label_of(section: Section) -> str:
    """Return what a policy is called, after checking that it exists and has these parameters."""
    name = checked_name(section)
    section.refuse_unknown(["name", "label", *parameters_of(section, name)], "parameter")
    for key, value in section.values.items():
        refuse_endless(section, key, value)
    given = [f"{key}={told_as(value)}" for key, value in section.values.items() if key not in ("name", "label")]
    return section.text("label", f"{name} ({', '.join(given)})" if given else name)


def told_as(value: Any) -> str:
    """Return a value as a label tells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def checked_name(section: Section) -> str:
    """Return the name of a policy that exists, or of a function outside."""
    name = section.text("name")
    if ":" not in name and name not in names():
        raise section.mistake("name", f"unknown policy {show(name)}{nearest(name, names())}")
    return name


def parameters_of(section: Section, name: str) -> list[str]:
    """Return what a policy may be given in the file."""
    if ":" not in name:
        return [*KINDS[name].parameters, *group_spec.policy_keys(name)]
    return sorted(external.asked_by(found_outside(section, name)) - set(external.TOLD))


def found_outside(section: Section, name: str) -> Factory:
    """Return what makes a policy from outside: it stands in a module beside the file, or in one that is installed."""
    try:
        return external.find(name, folder_of(section))
    except ValueError as error:
        raise section.mistake("name", str(error)) from error


def folder_of(section: Section) -> Path:
    """Return the folder of the file."""
    return Path(section.file).absolute().parent


def refuse_endless(section: Section, key: str, value: Any) -> None:
    """Refuse whole numbers, also within lists, that are too large to reckon with."""
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, int) and abs(entry) > LARGEST:
            raise section.mistake(key, f"expected numbers of at most {LARGEST}, got {show(entry)}")


def policies_of(top: Section) -> list[Section]:
    """Return the policies, as often as the grid has them."""
    return spread(top, "policies", lambda section: parameters_of(section, checked_name(section)))


def tasks_of(
    sections: Sequence[Section], labels: Mapping[str, str], conditions: Sequence[Condition]
) -> tuple[Task, ...]:
    """Return every cell, condition by condition, each policy checked in each of them."""
    policies = list(zip(sections, labels, strict=True))
    return tuple(task_of(section, label, condition) for condition in conditions for section, label in policies)


def task_of(section: Section, label: str, condition: Condition) -> Task:
    """Return a policy in one condition, its window chosen by the rule that the file names."""
    name, problem = section.values["name"], condition.alike
    given = {key: value for key, value in section.values.items() if key not in ("name", "label", "context")}
    if not isinstance(condition.problem, ContextualProblem):
        group_spec.refuse_words_about_groups(section)
    elif group_spec.asks(section):
        asked = group_spec.parameters_of(section, given, condition.problem, condition.epsilon, str(condition))
        return Task(condition, name, label, asked, None)
    if ":" in name:
        return Task(condition, name, label, given, None, checked_factory(section, given, condition.problem))
    rule = given.get("window")
    if isinstance(rule, str) and rule not in WINDOW_RULES:
        raise section.mistake("window", f"expected a whole number, {', '.join(WINDOW_RULES)}, got {show(rule)}")
    if given.get("best") == "fixed":
        given |= {"best": [best_fixed(problem)], "restarts": [0]}
    parameters = given | told(name, given, condition)
    try:
        if isinstance(rule, str):
            parameters["window"] = window_by(rule, name, parameters, problem)
        pace = problem.rows_per_play if isinstance(problem, Log) else None
        check_policy(name, arms=problem.arms, corruption=problem.corruption, pace=pace, **parameters)
    except (ValueError, TypeError, OverflowError) as error:
        raise section.refusal(error, f" (on {condition})") from error
    if isinstance(condition.problem, ContextualProblem):
        parameters["context"] = False
    return Task(condition, name, label, parameters, rule if isinstance(rule, str) else None)


def checked_factory(section: Section, given: dict[str, Any], problem: Problem | ContextualProblem) -> Named:
    """Return what makes a policy from outside, if it can be called with what it is given."""
    if isinstance(problem, ContextualProblem):
        raise section.mistake("name", "a policy from outside plays no problem with groups: leave one of them out")
    factory = Named(section.values["name"], folder_of(section), given)
    try:
        external.check(factory, problem)
    except ValueError as error:
        raise section.mistake("name", str(error)) from error
    return factory


def window_by(rule: str, name: str, parameters: Mapping[str, Any], problem: Problem) -> int:
    """Return the window that a rule chooses for a policy; of a log, in rows."""
    known = KINDS[name].parameters
    c = parameters.get("c", known["c"].default if "c" in known else 3.0)
    return WINDOW_RULES[rule](problem.as_played(), c) * problem.rows_per_play


def told(name: str, given: Mapping[str, Any], condition: Condition) -> dict[str, Any]:
    """Return what the file leaves out and the problem knows, of what the policy must be told."""
    found = {}
    for key, what in KINDS[name].parameters.items():
        wanted = key not in given and key in KNOWN and (what.required or key == "changes")
        if key == "horizon" and given.get("restarts") == "doubling":
            wanted = False  # who doubles does not know it
        if key == "best" and "restarts" in given:
            wanted = False  # the file's segments are not the problem's
        if wanted and (value := KNOWN[key](condition)) is not None:
            found[key] = value
    spread = condition.alike.spread
    if spread is not None and "sigma" in KINDS[name].parameters and "sigma" not in given:
        found["sigma"] = spread.sigma  # of what is no bits: how far it strays depends on the rewards, too
    return found
