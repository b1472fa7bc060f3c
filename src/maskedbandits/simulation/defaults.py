"""Parameters of policies that follow from a problem: its horizon, its changes, and rules that choose a window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from maskedbandits import theory
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import UserError, WrongValueError
from maskedbandits.policies import KINDS, Policy, kind_of, make_policy
from maskedbandits.problems import Problem

# Each rule gets the problem in the steps that a policy plays, and the exploration constant.
WINDOW_RULES: dict[str, Callable[[Problem, float], int]] = {
    "paper": lambda problem, c: theory.paper_window(problem.horizon, problem.segments),
    "lambert": lambda problem, c: theory.lambert_window(problem.horizon, problem.segments),
    "corrected": theory.corrected_window,
    "variation": lambda problem, c: theory.variation_window(
        problem.horizon, problem.arms, problem.variation, [g(1.0) - g(0.0) for g in problem.corruption], c=c
    ),
}

# Each fact gets the problem, and the epsilon of its corruption if there is one.
FACTS: dict[str, Callable[[Problem, float | None], Any]] = {
    "horizon": lambda problem, epsilon: problem.horizon,
    "restarts": lambda problem, epsilon: problem.starts.tolist(),
    "best": lambda problem, epsilon: problem.best_arms.tolist(),
    "variation": lambda problem, epsilon: problem.variation,
    # of the best arm, the first one included: the hardness of Auer et al. 2002
    "changes": lambda problem, epsilon: 1 + int(np.count_nonzero(np.diff(problem.best_arms))),
    "epsilon": lambda problem, epsilon: epsilon,
}


def fill_defaults(name: str, given: Mapping[str, Any], problem: Problem, epsilon: float | None) -> dict[str, Any]:
    """Return the parameters that the policy requires, that are not given, and that the problem knows."""
    filled = {}
    for key, parameter in KINDS[name].parameters.items():
        wanted = key not in given and key in FACTS and (parameter.required or key == "changes")
        if key == "horizon" and given.get("restarts") == "doubling":
            wanted = False  # the doubling trick is for an unknown horizon
        if key == "best" and "restarts" in given:
            wanted = False  # the given segments are not the problem's
        if wanted and (value := FACTS[key](problem, epsilon)) is not None:
            filled[key] = value
    spread = problem.spread
    if spread is not None and "sigma" in KINDS[name].parameters and "sigma" not in given:
        filled["sigma"] = spread.sigma  # under noise it depends on the rewards, too
    return filled


def choose_window(rule: str, name: str, parameters: Mapping[str, Any], problem: Problem) -> int:
    """Return the window that a rule chooses for a policy; on a log, in rows."""
    known = KINDS[name].parameters
    c = parameters.get("c", known["c"].default if "c" in known else 3.0)
    return WINDOW_RULES[rule](problem.as_played(), c) * problem.rows_per_play


def complete_parameters(name: str, given: Mapping[str, Any], problem: Problem) -> dict[str, Any]:
    """Return all parameters of a named policy on a problem; ``window`` may name a rule."""
    kind_of(name)
    parameters = {**given, **fill_defaults(name, given, problem, find_epsilon(problem))}
    rule = given.get("window")
    if isinstance(rule, str):
        if rule not in WINDOW_RULES:
            raise WrongValueError("window", rule, f"a whole number, or one of {', '.join(WINDOW_RULES)}")
        if "window" not in KINDS[name].parameters:
            raise UserError(f"{name} has no window: leave it out, or take a policy such as sw-klucb-cf")
        parameters["window"] = choose_window(rule, name, parameters, problem)
    return parameters


def build_policy(name: str, problem: Problem, given: Mapping[str, Any]) -> Policy:
    """Build a named policy for a problem."""
    parameters = complete_parameters(name, given, problem)
    return make_policy(name, arms=problem.arms, corruption=problem.corruption, **parameters)


def find_epsilon(problem: Problem) -> float | None:
    """Return the epsilon of a problem whose arms share one randomised response, otherwise None."""
    first, *others = problem.corruption
    if not isinstance(first, RandomizedResponse) or any(each != first for each in others):
        return None
    return first.epsilon


def best_fixed_arm(problem: Problem) -> int:
    """Return the arm that is best over the whole horizon; the first one of several."""
    return int((problem.lengths @ problem.means).argmax())
