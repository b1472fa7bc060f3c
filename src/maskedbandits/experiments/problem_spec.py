"""The ``[[problems]]`` of an experiment file: each problem under each of its corruptions is a condition.

A problem has means, a generator with a seed, or recorded data. It may have groups of people:

    [[problems]]
    groups = 2                                  # means then have a row for each group
    means = [[0.9, 0.4], [0.4, 0.9]]            # or such a table for each segment
    shares = [0.3, 0.7]                         # of the visitors; equal by default
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any

from maskedbandits import data
from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.corruption import IDENTITY, RandomizedResponse
from maskedbandits.errors import suggest_nearest
from maskedbandits.experiments.corruption_spec import Masks, read_masks, read_rewards
from maskedbandits.experiments.grid import expand_grid
from maskedbandits.experiments.toml_table import Key, TomlTable, describe_actual, format_value
from maskedbandits.problems import GENERATORS, GROUP_GENERATORS, ContextualProblem, Problem

ALL_GENERATORS: dict[str, Callable[..., Problem | ContextualProblem]] = {**GENERATORS, **GROUP_GENERATORS}


class Source(Flag):
    """Where a problem comes from, which decides on the keys that its table takes."""

    MEANS = auto()
    GENERATOR = auto()
    RECORD = auto()
    GROUP_MEANS = auto()
    GROUP_GENERATOR = auto()
    GROUPS = GROUP_MEANS | GROUP_GENERATOR
    NOT_RECORDED = MEANS | GENERATOR
    WITHOUT_GROUPS = MEANS | GENERATOR | RECORD
    ALL = WITHOUT_GROUPS | GROUPS


# Every key of a [[problems]] table. Generators add their parameters.
KEYS = {
    "name": Source.ALL,
    "epsilons": Source.ALL,
    "p00": Source.WITHOUT_GROUPS,
    "p11": Source.WITHOUT_GROUPS,
    "population": Source.WITHOUT_GROUPS,
    "published": Source.ALL,
    "horizon": Source.NOT_RECORDED | Source.GROUPS,
    "noise": Source.NOT_RECORDED,
    "delta": Source.NOT_RECORDED,
    "rewards": Source.NOT_RECORDED,
    "groups": Source.GROUP_MEANS,
    "shares": Source.GROUP_MEANS,
    "means": Source.MEANS | Source.GROUP_MEANS,
    "starts": Source.MEANS | Source.GROUP_MEANS,
    "generator": Source.ALL & ~Source.RECORD,
    "data": Source.RECORD,
    "csv": Source.RECORD,
    "time": Source.RECORD,
    "arm": Source.RECORD,
    "reward": Source.RECORD,
}
MEANINGS = {
    "name": Key("text", "the name of the problem in tables and figures", "`problem 1`, ..."),
    "epsilons": Key("list of numbers", "an epsilon for each condition; `inf` is no privacy", "those at the top"),
    "p00": Key("number or list", "probability that a 0 stays a 0, in place of epsilons; one for all arms, or for each"),
    "p11": Key("number or list", "probability that a 1 stays a 1"),
    "population": Key(
        "table",
        "people who choose their own mask, in place of epsilons: `epsilons`, or `p00` and `p11`, and their `shares`",
        "one mask for everybody",
    ),
    "published": Key("table", "regrets of a publication by policy, one for each epsilon", "none"),
    "horizon": Key("whole number", "steps of a run"),
    "noise": Key(
        "text or table", "`laplace` or `gaussian` at each epsilon, or its size such as `{ laplace = 2.0 }`", "bits"
    ),
    "delta": Key("number", "the delta of Gaussian noise"),
    "rewards": Key("text or table", "`bernoulli`, `{ beta = 3 }` or `{ gaussian = 0.1 }`", "`bernoulli`"),
    "groups": Key("whole number", "private groups; means then have a row for each group", "none"),
    "shares": Key("list of numbers", "the share of each group", "equal"),
    "means": Key("list of numbers", "a mean for each arm; several rows are segments"),
    "starts": Key("list of whole numbers", "where segments start", "`[0]`"),
    "generator": Key("text", "a generator that draws the means; its parameters are keys, too"),
    "data": Key("text", "the name of a data set"),
    "csv": Key("text", "the path of your own table, from the first `folder`"),
    "time": Key("text", "the column of the times", "the order of the rows"),
    "arm": Key("text", "the column of the arms"),
    "reward": Key("text", "the column of the rewards"),
}
COLUMNS = ("time", "arm", "reward")  # keys that name columns of a csv
MASKS = ("p00", "p11", "population", "noise", "delta", "rewards")  # keys that problems with groups do not take


def list_keys(source: Source) -> list[str]:
    """Return the keys that a table with this kind of problem takes."""
    return [key for key, sources in KEYS.items() if source in sources]


@dataclass(frozen=True)
class UnmaskedProblem:
    """A problem whose corruption is not known yet."""

    arms: int
    mask: Callable[[Masks], Problem | ContextualProblem]
    arm_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Condition:
    """A problem under one corruption.

    Parameters
    ----------
    name
        The problem's name.
    epsilon
        The epsilon of the corruption, or None where the file gives the mask itself.
    problem
        The problem with its corruption.
    masks
        The corruption of each arm.
    published
        The regrets in a publication, by the name or label of the policy.
    arms
        The names of the arms, if they have any.

    """

    name: str
    epsilon: float | None
    problem: Problem | ContextualProblem
    masks: Masks
    published: dict[str, float]
    arms: tuple[str, ...] = ()

    @lockfree_cached_property
    def averaged_problem(self) -> Problem:
        """The problem that a policy without groups plays: the average over groups, if there are any."""
        return self.problem.average_groups() if isinstance(self.problem, ContextualProblem) else self.problem

    def __str__(self) -> str:
        return self.name if self.epsilon is None else f"{self.name}, epsilon {self.epsilon:g}"


def read_conditions(top: TomlTable, labels: Mapping[str, str]) -> tuple[Condition, ...]:
    """Return every problem under each of its corruptions."""
    conditions: list[Condition] = []
    taken: set[str] = set()
    for index, table in enumerate(expand_grid(top, "problems", list_parameters)):
        problem = read_problem(table)
        name = table.get_text("name", f"problem {index + 1}")
        if name in taken:
            raise table.error("name", f"expected a name of its own, {format_value(name)} is taken")
        taken.add(name)
        corruptions = read_masks(top, table, problem.arms)
        published = read_published(table, labels, len(corruptions))
        for number, (epsilon, masks) in enumerate(corruptions):
            regrets = {policy: values[number] for policy, values in published.items()}
            masked = mask_problem(table, problem, masks)
            conditions.append(Condition(name, epsilon, masked, masks, regrets, problem.arm_names))
    return tuple(conditions)


def mask_problem(table: TomlTable, problem: UnmaskedProblem, masks: Masks) -> Problem | ContextualProblem:
    """Return a problem with its corruption."""
    try:
        return problem.mask(masks)
    except ValueError as error:
        raise table.wrap_error(error) from error


def list_parameters(table: TomlTable) -> list[str]:
    """Return the keys of a problem that a grid may vary."""
    if is_recorded(table):
        return []
    return list_generator_parameters(table) if "generator" in table.values else ["horizon"]


def read_problem(table: TomlTable) -> UnmaskedProblem:
    """Return the problem of a table, without its corruption."""
    if is_recorded(table):
        return read_recorded_problem(table)
    if has_groups(table):
        grouped = read_grouped_problem(table)
        return UnmaskedProblem(grouped.arms, lambda masks: mask_grouped_problem(grouped, masks))
    plain = generate_problem(table) if "generator" in table.values else read_plain_problem(table)
    assert isinstance(plain, Problem)  # noqa: S101 -- ``has_groups`` is true of other generators
    rewards = read_rewards(table)
    return UnmaskedProblem(
        plain.arms, lambda masks: Problem(plain.means, plain.starts, plain.horizon, masks, rewards=rewards)
    )


def read_plain_problem(table: TomlTable) -> Problem:
    """Return a problem with the means of the file, without its corruption."""
    table.check_keys(list_keys(Source.MEANS))
    means, starts = read_means(table), table.get_ints("starts", [0])
    if len(starts) != len(means):
        raise table.error("starts", f"expected one for each row of means ({len(means)}), got {len(starts)}")
    horizon = table.get_int("horizon", least=1)
    try:
        return Problem(means, starts, horizon, IDENTITY)
    except ValueError as error:
        raise table.wrap_error(error) from error


def read_means(table: TomlTable) -> list[list[float]]:
    """Return the means, a row for each segment; a flat list is a problem without changes."""
    rows = table.values.get("means")
    if not isinstance(rows, list) or not any(isinstance(row, list) for row in rows):
        rows = [rows]
    for row in rows:
        if len(rows) > 1 and not isinstance(row, list):
            raise table.error("means", f"expected a row of numbers for each segment, got {format_value(row)}")
    tables = [TomlTable(table.file, table.path, {"means": row}) for row in rows]
    means = [each.get_numbers("means", "numbers in [0, 1]", least=0, most=1) for each in tables]
    if len({len(row) for row in means}) > 1:
        raise table.error("means", "expected as many numbers in each row, one for each arm")
    return means


# Generators


def read_generator(table: TomlTable) -> str:
    """Return the name of a generator."""
    name = table.get_text("generator")
    if name not in ALL_GENERATORS:
        raise table.error("generator", f"unknown generator {format_value(name)}{suggest_nearest(name, ALL_GENERATORS)}")
    return name


def list_generator_parameters(table: TomlTable) -> list[str]:
    """Return the parameters of a problem's generator; the file gives the corruption under other keys."""
    return [key for key in inspect.signature(ALL_GENERATORS[read_generator(table)]).parameters if key != "corruption"]


def generate_problem(table: TomlTable) -> Problem | ContextualProblem:
    """Return a problem drawn from a seed, without its corruption."""
    name = read_generator(table)
    for key in ("means", "starts"):
        if key in table.values:
            raise table.error(key, f"expected either a generator or means, got both generator and {key}")
    known, parameters = inspect.signature(ALL_GENERATORS[name]).parameters, list_generator_parameters(table)
    keys = list_keys(Source.GROUP_GENERATOR if name in GROUP_GENERATORS else Source.GENERATOR)
    keys.remove("generator")
    table.check_keys(["generator", *keys, *parameters], "parameter")
    for key in parameters:
        if known[key].default is inspect.Parameter.empty:
            table.get_int(key, least=1)
    values = {key: value for key, value in table.values.items() if key in parameters}
    try:
        return ALL_GENERATORS[name](**values, corruption=IDENTITY)
    except ValueError as error:
        raise table.wrap_error(error) from error


# Recorded data


def is_recorded(table: TomlTable) -> bool:
    """Return whether a problem replays recorded data."""
    return "data" in table.values or "csv" in table.values


def read_recorded_problem(table: TomlTable) -> UnmaskedProblem:
    """Return a problem of recorded data: a data set by its name, or a file beside the experiment file."""
    table.check_keys(list_keys(Source.RECORD))
    if ("data" in table.values) == ("csv" in table.values):
        raise table.error("csv", "expected either data or a csv, got both")
    for key in COLUMNS:
        if key in table.values and "data" in table.values:
            raise table.error(key, "is a column of a csv, and there is none")
    record = load_record(table)
    names, arms = record.arms, len(record.arms)
    if isinstance(record, data.Rounds):
        outcomes = record.outcomes
        return UnmaskedProblem(arms, lambda masks: Problem.replay(outcomes, masks, periods=record.starts), names)
    if isinstance(record, data.Log):
        if "population" in table.values:
            raise table.error("population", "a log is replayed under one mask for everybody: give epsilons")
        chosen, rewards = record.chosen, record.rewards
        return UnmaskedProblem(
            arms, lambda masks: Problem.replay_log(chosen, rewards, masks, arms=arms, periods=record.starts), names
        )
    means, horizon = record.means, record.horizon
    return UnmaskedProblem(arms, lambda masks: Problem(means, record.starts, horizon, masks), names)


def load_record(table: TomlTable) -> data.Rounds | data.Log | data.Segments:
    """Return the recorded data of a problem."""
    columns: dict[str, Any] = {key: table.get_text(key) for key in COLUMNS if key in table.values}
    name = table.get_text("data" if "data" in table.values else "csv")
    file = table.folders[0] / name
    if "csv" in table.values and not file.exists():
        raise table.error("csv", f"there is no file {file}: write its path, or write its folder as `folder` at the top")
    try:
        return data.load(name) if "data" in table.values else data.read_csv(file, **columns)
    except ValueError as error:
        raise table.wrap_error(error) from error


# Groups


def has_groups(table: TomlTable) -> bool:
    """Return whether a problem has groups: by its generator, its keys, or means that are a table for each segment."""
    values = table.values
    if "generator" in values:
        return read_generator(table) in GROUP_GENERATORS
    return "groups" in values or "shares" in values or measure_depth(values.get("means")) > 2


def measure_depth(value: Any) -> int:
    """Return how deeply lists are nested, by the first entry of each."""
    return 1 + measure_depth(value[0] if value else None) if isinstance(value, list) else 0


def read_grouped_problem(table: TomlTable) -> ContextualProblem:
    """Return a problem with groups, without its corruption."""
    for key in MASKS:
        if key in table.values:
            raise table.error(key, "a problem with groups takes none: give epsilons")
    if "generator" in table.values:
        generated = generate_problem(table)
        assert isinstance(generated, ContextualProblem)  # noqa: S101 -- by the generator
        return generated
    table.check_keys(list_keys(Source.GROUP_MEANS))
    if measure_depth(table.values.get("means")) < 2:
        expected = "a row of numbers for each group, or such a table for each segment"
        raise table.error("means", f"expected {expected}, {describe_actual(table.values.get('means'))}")
    starts, horizon = table.get_ints("starts", [0]), table.get_int("horizon", least=1)
    try:
        problem = ContextualProblem(table.values["means"], starts, horizon, table.values.get("shares"))
    except ValueError as error:
        raise table.wrap_error(error) from error
    if "groups" in table.values and table.get_int("groups", least=1) != problem.groups:
        actual = describe_actual(table.values["groups"])
        raise table.error("groups", f"expected {problem.groups}, as means have, {actual}")
    return problem


def mask_grouped_problem(problem: ContextualProblem, masks: Masks) -> ContextualProblem:
    """Return a problem with groups and the masks that policies without groups see."""
    responses = [mask for mask in masks if isinstance(mask, RandomizedResponse)]
    return ContextualProblem(problem.means, problem.starts, problem.horizon, problem.shares, responses)


# Published regrets


def read_published(table: TomlTable, labels: Mapping[str, str], corruptions: int) -> dict[str, list[float]]:
    """Return the regrets in a publication: one for each corruption, by policy."""
    published = TomlTable(table.file, f"{table.path}.published", table.values.get("published", {}))
    published.check_keys({**labels, **dict.fromkeys(labels.values())}, "policy")
    regrets = {}
    for policy in published.values:
        values = published.get_numbers(policy, "regrets above 0", least=0, above=True)
        if len(values) != corruptions:
            raise published.error(policy, f"expected one regret for each epsilon ({corruptions}), got {len(values)}")
        regrets[policy] = values
    return regrets
