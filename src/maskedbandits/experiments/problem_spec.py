"""The conditions of an experiment: each of its problems, under each of its corruptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maskedbandits import data
from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.corruption import IDENTITY
from maskedbandits.experiments import corruption_spec, drawn_problems, group_spec
from maskedbandits.experiments.corruption_spec import Masks
from maskedbandits.experiments.grid import spread
from maskedbandits.experiments.toml_table import Section, show
from maskedbandits.problems import ContextualProblem, Problem

EVERY_KEYS = ("name", "epsilons", "p00", "p11", "published")  # of every problem
DRAWN_KEYS = (*EVERY_KEYS, "horizon", *corruption_spec.KEYS)  # of every one that was not recorded
PROBLEM_KEYS = (*DRAWN_KEYS, "means", "starts", "generator")

COLUMNS = ("time", "arm", "reward")  # of a file
RECORD_KEYS = (*EVERY_KEYS, "data", "csv", *COLUMNS)


@dataclass(frozen=True)
class Bare:
    """A problem of which it is not known yet what masks the feedback."""

    arms: int
    masked: Callable[[Masks], Problem | ContextualProblem]
    names: tuple[str, ...] = ()  # of the arms, where they have any


@dataclass(frozen=True)
class Condition:
    """A problem under one corruption; epsilon is None where the file gives the mask itself."""

    name: str
    epsilon: float | None
    problem: Problem | ContextualProblem
    masks: Masks  # the problem's corruption, arm by arm
    published: dict[str, float]  # regret that a publication reports, by the policy's name or label
    arms: tuple[str, ...] = ()  # their names, where they have any

    @lockfree_cached_property
    def alike(self) -> Problem:
        """The problem that a policy without groups meets: with groups, their average."""
        return self.problem.averaged() if isinstance(self.problem, ContextualProblem) else self.problem

    def __str__(self) -> str:
        return self.name if self.epsilon is None else f"{self.name}, epsilon {self.epsilon:g}"


def conditions_of(top: Section, labels: Mapping[str, str]) -> tuple[Condition, ...]:
    """Return every problem under each of its corruptions."""
    conditions: list[Condition] = []
    taken: set[str] = set()
    for place, section in enumerate(spread(top, "problems", parameters_of)):
        bare = problem_of(section)
        name = section.text("name", f"problem {place + 1}")
        if name in taken:
            raise section.mistake("name", f"expected a name of its own, {show(name)} is taken")
        taken.add(name)
        corruptions = corruption_spec.masks_of(top, section, bare.arms)
        published = published_of(section, labels, len(corruptions))
        for number, (epsilon, each) in enumerate(corruptions):
            reported = {policy: regrets[number] for policy, regrets in published.items()}
            problem = problem_behind(section, bare, each)
            conditions.append(Condition(name, epsilon, problem, each, reported, bare.names))
    return tuple(conditions)


def problem_behind(section: Section, bare: Bare, each: Masks) -> Problem | ContextualProblem:
    """Return a problem, now that it is known what masks the feedback."""
    try:
        return bare.masked(each)
    except ValueError as error:
        raise section.refusal(error) from error


def problem_of(section: Section) -> Bare:
    """Return a problem that waits for its corruption."""
    if "data" in section.values or "csv" in section.values:
        return recorded_of(section)
    if group_spec.are_in(section):
        people = group_spec.problem_of(section)
        return Bare(people.arms, lambda each: group_spec.masked(people, each))
    plain = drawn_of(section) if "generator" in section.values else given_of(section)
    rewards = corruption_spec.rewards_of(section)
    return Bare(plain.arms, lambda each: Problem(plain.means, plain.starts, plain.horizon, each, rewards=rewards))


def recorded_of(section: Section) -> Bare:
    """Return a problem that was recorded: data that are kept by their name, or a file beside this one."""
    section.refuse_unknown(RECORD_KEYS)
    if ("data" in section.values) == ("csv" in section.values):
        raise section.mistake("csv", "expected either data or a csv, got both")
    for key in COLUMNS:
        if key in section.values and "data" in section.values:
            raise section.mistake(key, "is a column of a csv, and there is none")
    table = table_of(section)
    arms = len(table.arms)
    if isinstance(table, data.Rounds):
        outcomes = table.outcomes
        return Bare(arms, lambda each: Problem.replay(outcomes, each, periods=table.starts), table.arms)
    if isinstance(table, data.Log):
        chosen, rewards = table.chosen, table.rewards
        return Bare(
            arms, lambda each: Problem.replay_log(chosen, rewards, each, arms=arms, periods=table.starts), table.arms
        )
    means, horizon = table.means, table.horizon
    return Bare(arms, lambda each: Problem(means, table.starts, horizon, each), table.arms)


def table_of(section: Section) -> data.Rounds | data.Log | data.Segments:
    """Return what was recorded."""
    columns: dict[str, Any] = {key: section.text(key) for key in COLUMNS if key in section.values}
    name = section.text("data" if "data" in section.values else "csv")
    try:
        if "data" in section.values:
            return data.load(name)
        return data.read_csv(Path(section.file).absolute().parent / name, **columns)
    except ValueError as error:
        raise section.refusal(error) from error


def parameters_of(section: Section) -> list[str]:
    """Return what a problem can be given beside what all can, in its table or by the grid."""
    if "data" in section.values or "csv" in section.values:
        return []
    return drawn_problems.parameters_of(section) if "generator" in section.values else ["horizon"]


def drawn_of(section: Section) -> Problem:
    """Return a problem drawn from a seed, yet without corruption."""
    made = drawn_problems.problem_of(section, DRAWN_KEYS)
    assert isinstance(made, Problem)  # noqa: S101 -- those with groups are told by their generators
    return made


def given_of(section: Section) -> Problem:
    """Return a problem whose means the file gives, yet without corruption."""
    section.refuse_unknown(PROBLEM_KEYS)
    means, starts = means_of(section), section.integers("starts", [0])
    if len(starts) != len(means):
        raise section.mistake("starts", f"expected one for each row of means ({len(means)}), got {len(starts)}")
    horizon = section.integer("horizon", least=1)
    try:
        return Problem(means, starts, horizon, IDENTITY)
    except ValueError as error:
        raise section.refusal(error) from error


def means_of(section: Section) -> list[list[float]]:
    """Return the means, a row for each segment; a flat list is a problem that never changes."""
    rows = section.values.get("means")
    if not isinstance(rows, list) or not any(isinstance(row, list) for row in rows):
        rows = [rows]
    for row in rows:
        if len(rows) > 1 and not isinstance(row, list):
            raise section.mistake("means", f"expected a row of numbers for each segment, got {show(row)}")
    tables = [Section(section.file, section.place, {"means": row}) for row in rows]
    means = [table.numbers("means", "numbers in [0, 1]", least=0, most=1) for table in tables]
    if len({len(row) for row in means}) > 1:
        raise section.mistake("means", "expected as many numbers in each row, one for each arm")
    return means


def published_of(section: Section, labels: Mapping[str, str], corruptions: int) -> dict[str, list[float]]:
    """Return the regrets that a publication reports: one for each corruption, by policy."""
    table = Section(section.file, f"{section.place}.published", section.values.get("published", {}))
    table.refuse_unknown({**labels, **dict.fromkeys(labels.values())}, "policy")
    reported = {}
    for policy in table.values:
        regrets = table.numbers(policy, "regrets above 0", least=0, above=True)
        if len(regrets) != corruptions:
            raise table.mistake(policy, f"expected one regret for each epsilon ({corruptions}), got {len(regrets)}")
        reported[policy] = regrets
    return reported
