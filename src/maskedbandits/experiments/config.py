"""A TOML file becomes an experiment: problems × corruptions × policies, checked before anything runs.

Every complaint is one line that names the file, the key and what was expected there.
"""

from __future__ import annotations

import difflib
import inspect
import os
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from maskedbandits import theory
from maskedbandits.corruption import IDENTITY, RandomizedResponse
from maskedbandits.errors import UserError
from maskedbandits.policies import REGISTRY, make_policy, names
from maskedbandits.problems import GENERATORS, Problem

TOP_KEYS = ("title", "runs", "seed", "checkpoints", "epsilons", "problems", "policies")
SHARED_KEYS = ("name", "horizon", "epsilons", "p00", "p11", "published")  # by every problem
PROBLEM_KEYS = (*SHARED_KEYS, "means", "starts", "generator")

Matrices = tuple[RandomizedResponse, ...]

# Windows that depend on the problem are asked for by the name of their rule.
LARGEST = 2**53  # beyond it, a float would not be exact

WINDOW_RULES: dict[str, Callable[[Problem, float], int]] = {
    "paper": lambda problem, c: theory.paper_window(problem.horizon, problem.segments),
    "lambert": lambda problem, c: theory.lambert_window(problem.horizon, problem.segments),
    "corrected": theory.corrected_window,
    "variation": lambda problem, c: theory.variation_window(
        problem.horizon, problem.arms, problem.variation, [g(1.0) - g(0.0) for g in problem.corruption], c=c
    ),
}


@dataclass(frozen=True)
class World:
    """A problem under one corruption; epsilon is None where the file gives p00 and p11 themselves."""

    name: str
    epsilon: float | None
    problem: Problem
    matrices: Matrices  # the problem's corruption, arm by arm
    published: dict[str, float]  # regret that a publication reports, by the policy's name or label


@dataclass(frozen=True)
class Task:
    """One cell to run: a policy, its parameters resolved, in one world."""

    world: World
    policy: str
    label: str
    parameters: dict[str, Any]
    window_rule: str | None

    @property
    def published(self) -> float | None:
        """The regret that a publication reports for this cell, if the file names it."""
        return self.world.published.get(self.label, self.world.published.get(self.policy))


@dataclass(frozen=True)
class Experiment:
    """Everything that a TOML file asks for."""

    file: str
    source: str
    title: str
    runs: int
    seed: int
    checkpoints: int | list[int]
    worlds: tuple[World, ...]
    tasks: tuple[Task, ...]


class Section:
    """A table of the file that knows where it stands, so that a complaint can say so."""

    def __init__(self, file: str, place: str, values: object) -> None:
        self.file, self.place = file, place
        if not isinstance(values, dict):
            raise UserError(f"{file}: {place}: expected a table such as [[{place.split('[')[0]}]], got {show(values)}")
        self.values: dict[str, Any] = values

    def mistake(self, key: str, message: str) -> UserError:
        """Return the complaint about a key of this table."""
        place = ".".join(part for part in (self.place, key) if part)
        return UserError(f"{self.file}: {place}: {message}")

    def refuse_unknown(self, known: Iterable[str], what: str = "key") -> None:
        """Refuse a key that nobody would read, and name the nearest that somebody would."""
        known = list(known)
        for key in self.values:
            if key not in known:
                raise self.mistake(key, f"unknown {what}{nearest(key, known)}")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text that is not empty."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value.strip():
            raise self.mistake(key, f"expected a text, {got(value)}")
        return value

    def whole(self, key: str, default: int | None = None, least: int = 0) -> int:
        """Return a whole number that is at least the given one."""
        value = self.values.get(key, default)
        if not is_whole(value) or value < least:
            raise self.mistake(key, f"expected a whole number of at least {least}, {got(value)}")
        if value > LARGEST:
            raise self.mistake(key, f"expected a whole number of at most {LARGEST}, {got(value)}")
        return value

    def numbers(self, key: str, expected: str, fits: Callable[[float], bool]) -> list[float]:
        """Return a list of numbers that fit; a single number stands for a list of one."""
        value = self.values.get(key)
        entries: list[Any] = value if isinstance(value, list) else [value]
        for entry in entries:
            if is_whole(entry) and abs(entry) > LARGEST:
                raise self.mistake(key, f"expected {expected}, {got(entry)}")
            if isinstance(entry, bool) or not isinstance(entry, int | float) or not fits(entry):
                raise self.mistake(key, f"expected {expected}, {got(entry)}")
        if not entries:
            raise self.mistake(key, f"expected {expected}, got an empty list")
        return [float(entry) for entry in entries]

    def sections(self, key: str) -> list[Section]:
        """Return the tables of an array of tables, at least one."""
        value = self.values.get(key)
        if not isinstance(value, list) or not value:
            raise self.mistake(key, f"expected at least one [[{key}]] table, {got(value)}")
        return [Section(self.file, f"{key}[{number}]", entry) for number, entry in enumerate(value)]


def is_whole(value: object) -> TypeGuard[int]:
    """Tell a whole number from everything else; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def show(value: object) -> str:
    """Return a value as the file would write it, shortened."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def got(value: object) -> str:
    """Return the end of a complaint: what stood there in place of what was expected."""
    return "but it is missing" if value is None else f"got {show(value)}"


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the end of a complaint about an unknown word: the nearest known one, or all of them."""
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known: {', '.join(known)}" if known else "; there are none here"


def load(path: str | os.PathLike[str], *, runs: int | None = None, seed: int | None = None) -> Experiment:
    """Read an experiment; `runs` and `seed` take the place of the file's own."""
    source = read(path)
    file = os.fspath(path)
    try:
        top = Section(file, "", tomllib.loads(source))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise UserError(f"{file}: brackets are nested too deeply") from error
    top.refuse_unknown(TOP_KEYS)
    labels = labels_of(top.sections("policies"))
    worlds = worlds_of(top, labels)
    return Experiment(
        file=file,
        source=source,
        title=top.text("title", Path(path).stem),
        runs=top.whole("runs", 100, least=1) if runs is None else runs,
        seed=top.whole("seed", 0) if seed is None else seed,
        checkpoints=checkpoints_of(top, worlds),
        worlds=worlds,
        tasks=tasks_of(top, labels, worlds),
    )


def read(path: str | os.PathLike[str]) -> str:
    """Return a file's text, or say in one line why there is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UserError(f"{os.fspath(path)}: no such file") from error
    except IsADirectoryError as error:
        raise UserError(f"{os.fspath(path)}: is a folder; expected a TOML file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{os.fspath(path)}: not valid TOML: byte {error.start} is not UTF-8 text") from error
    except OSError as error:
        raise UserError(f"{os.fspath(path)}: cannot be read: {error.strerror}") from error


def checkpoints_of(top: Section, worlds: Sequence[World]) -> int | list[int]:
    """Return how many checkpoints, or which."""
    value = top.values.get("checkpoints", 200)
    if not isinstance(value, list):
        return top.whole("checkpoints", 200, least=1)
    rising = all(is_whole(time) for time in value) and all(a < b for a, b in zip([0, *value], value, strict=False))
    if not value or not rising:
        raise top.mistake("checkpoints", f"expected a whole number, or increasing times from 1, {got(value)}")
    for world in worlds:
        if value[-1] > world.problem.horizon:
            expected = f"times up to the horizon {world.problem.horizon} of {show(world.name)}"
            raise top.mistake("checkpoints", f"expected {expected}, got {value[-1]}")
    return value


def worlds_of(top: Section, labels: dict[str, str]) -> tuple[World, ...]:
    """Return every problem under each of its corruptions."""
    worlds: list[World] = []
    for number, section in enumerate(top.sections("problems")):
        plain = drawn_of(section) if "generator" in section.values else given_of(section)
        name = section.text("name", f"problem {number + 1}")
        if any(world.name == name for world in worlds):
            raise section.mistake("name", f"expected a name of its own, {show(name)} is taken")
        corruptions = corruptions_of(top, section, plain.arms)
        published = published_of(section, labels, len(corruptions))
        for place, (epsilon, matrices) in enumerate(corruptions):
            reported = {policy: regrets[place] for policy, regrets in published.items()}
            problem = Problem(plain.means, plain.starts, plain.horizon, matrices)
            worlds.append(World(name, epsilon, problem, matrices, reported))
    return tuple(worlds)


def drawn_of(section: Section) -> Problem:
    """Return a problem drawn from a seed, yet without corruption; its parameters are those of the generator."""
    name = section.text("generator")
    if name not in GENERATORS:
        raise section.mistake("generator", f"unknown generator {show(name)}{nearest(name, list(GENERATORS))}")
    for key in ("means", "starts"):
        if key in section.values:
            raise section.mistake(key, f"expected either a generator or means, got both generator and {key}")
    known = inspect.signature(GENERATORS[name]).parameters
    parameters = [key for key in known if key != "corruption"]
    section.refuse_unknown(["generator", *SHARED_KEYS, *parameters], "parameter")
    for key in parameters:
        if known[key].default is inspect.Parameter.empty:
            section.whole(key, least=1)
    given = {key: value for key, value in section.values.items() if key in parameters}
    try:
        return GENERATORS[name](**given, corruption=IDENTITY)
    except ValueError as error:
        raise UserError(f"{section.file}: {section.place}: {error}") from error


def given_of(section: Section) -> Problem:
    """Return a problem whose means the file gives, yet without corruption."""
    section.refuse_unknown(PROBLEM_KEYS)
    means = means_of(section)
    starts = section.values.get("starts", [0])
    if not isinstance(starts, list) or not all(is_whole(start) for start in starts):
        raise section.mistake("starts", f"expected a list of whole numbers from 0, {got(starts)}")
    if len(starts) != len(means):
        raise section.mistake("starts", f"expected one for each row of means ({len(means)}), got {len(starts)}")
    horizon = section.whole("horizon", least=1)
    try:
        return Problem(means, starts, horizon, IDENTITY)
    except ValueError as error:
        raise UserError(f"{section.file}: {section.place}: {error}") from error


def means_of(section: Section) -> list[list[float]]:
    """Return the means, a row for each segment; a flat list is a problem that never changes."""
    rows = section.values.get("means")
    if not isinstance(rows, list) or not any(isinstance(row, list) for row in rows):
        rows = [rows]
    for row in rows:
        if len(rows) > 1 and not isinstance(row, list):
            raise section.mistake("means", f"expected a row of numbers for each segment, got {show(row)}")
    expected = "numbers in [0, 1]"
    tables = [Section(section.file, section.place, {"means": row}) for row in rows]
    means = [table.numbers("means", expected, lambda mean: 0 <= mean <= 1) for table in tables]
    if len({len(row) for row in means}) > 1:
        raise section.mistake("means", "expected as many numbers in each row, one for each arm")
    return means


def corruptions_of(top: Section, section: Section, arms: int) -> list[tuple[float | None, Matrices]]:
    """Return what the feedback goes through: randomised response at each epsilon, or the matrices given."""
    given = [key for key in ("p00", "p11") if key in section.values]
    if given and "epsilons" in section.values:
        raise section.mistake("epsilons", f"expected either epsilons or p00 and p11, got both epsilons and {given[0]}")
    if given:
        return [(None, matrices_of(section, arms))]
    source = section if "epsilons" in section.values else top
    if "epsilons" not in source.values:
        raise section.mistake("epsilons", "expected here or at the top of the file, or p00 and p11 here")
    epsilons = source.numbers("epsilons", "numbers above 0, or inf", lambda epsilon: epsilon > 0)
    if len(set(epsilons)) < len(epsilons):
        raise source.mistake("epsilons", "expected different numbers, got one of them twice")
    try:
        return [(epsilon, (RandomizedResponse.from_epsilon(epsilon),) * arms) for epsilon in epsilons]
    except ValueError as error:
        raise source.mistake("epsilons", str(error)) from error


def matrices_of(section: Section, arms: int) -> Matrices:
    """Return each arm's randomised response from p00 and p11: one number for all arms, or one for each."""
    columns = []
    for key in ("p00", "p11"):
        column = section.numbers(key, "probabilities in [0, 1]", lambda p: 0 <= p <= 1)
        if len(column) not in (1, arms):
            raise section.mistake(key, f"expected one number, or one for each of {arms} arms, got {len(column)}")
        columns.append(column * arms if len(column) == 1 else column)
    try:
        return tuple(RandomizedResponse(p00, p11) for p00, p11 in zip(*columns, strict=True))
    except ValueError as error:
        raise section.mistake("p00, p11", str(error)) from error


def published_of(section: Section, labels: dict[str, str], corruptions: int) -> dict[str, list[float]]:
    """Return the regrets that a publication reports: one for each corruption, by policy."""
    table = Section(section.file, f"{section.place}.published", section.values.get("published", {}))
    table.refuse_unknown({**labels, **dict.fromkeys(labels.values())}, "policy")
    reported = {}
    for policy in table.values:
        regrets = table.numbers(policy, "regrets of at least 0", lambda regret: regret >= 0)
        if len(regrets) != corruptions:
            raise table.mistake(policy, f"expected one regret for each epsilon ({corruptions}), got {len(regrets)}")
        reported[policy] = regrets
    return reported


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
    name = section.text("name")
    if name not in names():
        raise section.mistake("name", f"unknown policy {show(name)}{nearest(name, names())}")
    section.refuse_unknown(["name", "label", *REGISTRY[name].parameters], "parameter")
    given = [f"{key}={value}" for key, value in section.values.items() if key not in ("name", "label")]
    return section.text("label", f"{name} ({', '.join(given)})" if given else name)


def tasks_of(top: Section, labels: dict[str, str], worlds: Sequence[World]) -> tuple[Task, ...]:
    """Return every cell, world by world, each policy checked in each of them."""
    policies = list(zip(top.sections("policies"), labels, strict=True))
    return tuple(task_of(section, label, world) for world in worlds for section, label in policies)


def task_of(section: Section, label: str, world: World) -> Task:
    """Return a policy in one world, its window chosen by the rule that the file names."""
    name = section.values["name"]
    parameters = {key: value for key, value in section.values.items() if key not in ("name", "label")}
    rule = parameters.get("window")
    if isinstance(rule, str) and rule not in WINDOW_RULES:
        raise section.mistake("window", f"expected a whole number, {', '.join(WINDOW_RULES)}, got {show(rule)}")
    try:
        if isinstance(rule, str):
            c = parameters.get("c", REGISTRY[name].parameters.get("c", 3.0))
            parameters["window"] = WINDOW_RULES[rule](world.problem, c)
        make_policy(name, arms=world.problem.arms, corruption=world.problem.corruption, **parameters)
    except (ValueError, TypeError, OverflowError) as error:
        where = world.name if world.epsilon is None else f"{world.name}, epsilon {world.epsilon:g}"
        raise UserError(f"{section.file}: {section.place}: {error} (on {where})") from error
    return Task(world, name, label, parameters, rule if isinstance(rule, str) else None)
