"""Problems with groups in an experiment's file, and the policies that play them.

[[problems]]
groups = 2                                  # how many; means are then a row for each group
means = [[0.9, 0.4], [0.4, 0.9]]            # or such a table for each segment
shares = [0.3, 0.7]                         # of the visitors; without it all groups are equally large

[[policies]]
name = "auto"
context = false                             # one arm for everybody; without it a choice for each group
pool = true                                 # of those that choose for each group: as make_contextual takes them
answers = "bit"
shares = [0.5, 0.5]                         # what the policy takes them for; without it those of the problem
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maskedbandits.contextual import check_contextual
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.experiments import drawn_problems
from maskedbandits.experiments.corruption_spec import Masks
from maskedbandits.experiments.toml_table import Section, got, show
from maskedbandits.policies import kind_of
from maskedbandits.problems import GROUP_GENERATORS, ContextualProblem

EVERY_KEYS = ("name", "epsilons", "published", "horizon")
GIVEN_KEYS = (*EVERY_KEYS, "groups", "shares", "means", "starts", "generator")
OTHER_MASKS = ("p00", "p11", "noise", "delta", "rewards")
ASKED = ("pool", "answers", "shares")  # what a policy is given about its questions
KEYS = ("context", *ASKED)
TOLD = ("horizon", "restarts")  # what the problem knows, and the policy of every group may have to be told


def are_in(section: Section) -> bool:
    """Tell whether a problem has groups: it says so, or its means are a table for each segment."""
    values = section.values
    if "generator" in values:
        return drawn_problems.generator_of(section) in GROUP_GENERATORS
    return "groups" in values or "shares" in values or depth(values.get("means")) > 2


def depth(value: Any) -> int:
    """Return how deeply lists are nested, by the first of each."""
    return 1 + depth(value[0] if value else None) if isinstance(value, list) else 0


def problem_of(section: Section) -> ContextualProblem:
    """Return a problem with groups, yet without corruption."""
    for key in OTHER_MASKS:
        if key in section.values:
            raise section.mistake(key, "a problem with groups takes none: give epsilons")
    if "generator" in section.values:
        made = drawn_problems.problem_of(section, EVERY_KEYS)
        assert isinstance(made, ContextualProblem)  # noqa: S101 -- by the generator
        return made
    section.refuse_unknown(GIVEN_KEYS)
    if depth(section.values.get("means")) < 2:
        wanted = "a row of numbers for each group, or such a table for each segment"
        raise section.mistake("means", f"expected {wanted}, {got(section.values.get('means'))}")
    starts, horizon = section.integers("starts", [0]), section.integer("horizon", least=1)
    try:
        problem = ContextualProblem(section.values["means"], starts, horizon, section.values.get("shares"))
    except ValueError as error:
        raise section.refusal(error) from error
    if "groups" in section.values and section.integer("groups", least=1) != problem.groups:
        raise section.mistake("groups", f"expected {problem.groups}, as means have, {got(section.values['groups'])}")
    return problem


def masked(problem: ContextualProblem, each: Masks) -> ContextualProblem:
    """Return a problem with groups, now that it is known what masks the rewards of policies without."""
    responses = [mask for mask in each if isinstance(mask, RandomizedResponse)]
    return ContextualProblem(problem.means, problem.starts, problem.horizon, problem.shares, responses)


def chooses_for_groups(name: str) -> bool:
    """Tell whether a policy of ours can choose for each group: it has to learn through a mask."""
    return kind_of(name).sees_corruption and not kind_of(name).sees_rewards


def policy_keys(name: str) -> list[str]:
    """Return what a policy of ours may be given on a problem with groups, beside its parameters."""
    return list(KEYS) if chooses_for_groups(name) else ["context"]


def asks(section: Section) -> bool:
    """Tell whether a policy chooses for each group."""
    context = section.values.get("context", True)
    if not isinstance(context, bool):
        raise section.mistake("context", f"expected true or false, got {show(context)}")
    for key in ASKED:
        if key in section.values and not context:
            raise section.mistake(key, "is for a choice for each group, and context = false is one arm for everybody")
    return context


def refuse_words_about_groups(section: Section) -> None:
    """Refuse what a policy is told of groups where a problem has none; that it does without them is no mistake."""
    for key in KEYS:
        if key in section.values and section.values[key] is not False:
            raise section.mistake(key, "is for problems with groups, and not all of these have some")


def parameters_of(
    section: Section, given: Mapping[str, Any], problem: ContextualProblem, epsilon: float | None, where: str
) -> dict[str, Any]:
    """Return all that a policy with a choice for each group is given, checked; the kind of answers among it."""
    name = section.values["name"]
    if ":" in name:
        raise section.mistake("name", "a policy from outside plays no problem with groups: leave one of them out")
    if isinstance(rule := given.get("window"), str):
        raise section.mistake("window", f"expected a number, as no rule is known for groups, got {show(rule)}")
    known = {"horizon": problem.horizon, "restarts": problem.starts.tolist()}
    wanted = kind_of(name).parameters
    told = {key: known[key] for key in TOLD if key in wanted and wanted[key].required and key not in given}
    if np.ptp(problem.shares) > 0.0 and "shares" not in given:
        told["shares"] = problem.shares.tolist()
    if len(told.get("restarts", ())) > 1:  # only so is every visitor's time one of every group
        told |= {"answers": "bit", "pool": False}
    parameters: dict[str, Any] = {**told, **given}
    shape: dict[str, Any] = {"groups": problem.groups, "arms": problem.arms, "epsilon": epsilon}
    try:
        answers = check_contextual(name, **shape, **parameters)
    except (ValueError, TypeError, OverflowError) as error:
        hint = "; context = false plays one arm for everybody" if not chooses_for_groups(name) else ""
        raise section.refusal(error, f"{hint} (on {where})") from error
    return {**parameters, "answers": answers, "context": True}
