"""The corruption of a problem in an experiment file: randomised response or noise; and the law of its rewards.

epsilons = [1, inf]                       # randomised response at each epsilon
p00 = 0.9                                 # or its matrix
p11 = [0.9, 0.8]
population = { epsilons = [0.5, 4], shares = [0.8, 0.2] }   # people who choose their own; or p00 and p11
noise = "laplace"                         # in place of randomised response, at each epsilon
noise = "gaussian"
delta = 1e-5                              # required by Gaussian noise
noise = { laplace = 2.0 }                 # or its scale
noise = { gaussian = 1.5 }                # or its sigma
rewards = { beta = 3 }                    # in place of bits: Beta(3)
rewards = { gaussian = 0.1 }              # or Gaussian(0.1)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from maskedbandits.corruption import Population, RandomizedResponse
from maskedbandits.errors import suggest_nearest
from maskedbandits.experiments.toml_table import TomlTable, describe_actual, format_value
from maskedbandits.noise import GaussianNoise, LaplaceNoise, Noise
from maskedbandits.problems import ContextualProblem, Problem
from maskedbandits.problems.rewards import Bernoulli, Beta, Gaussian, Rewards

NOISES: dict[str, Callable[[float], Noise]] = {"laplace": LaplaceNoise, "gaussian": GaussianNoise}
REWARDS: dict[str, Callable[[float], Rewards]] = {"beta": Beta, "gaussian": Gaussian}
BITS = "bernoulli"
NO_NOISE = GaussianNoise(0.0)  # the noise at epsilon = inf

Masks = tuple[RandomizedResponse | Population | Noise, ...]
Option = TypeVar("Option")


def read_masks(top: TomlTable, table: TomlTable, arms: int) -> list[tuple[float | None, Masks]]:
    """Return the mask of each arm: at each epsilon, or the one in the file with None for its epsilon."""
    is_sized = isinstance(table.values.get("noise"), dict)
    kinds = ("population", "p00", "p11", "noise")
    own = [key for key in kinds if key in table.values and (key != "noise" or is_sized)]
    if own and "epsilons" in table.values:
        raise table.error("epsilons", f"expected either epsilons or a mask itself, got both epsilons and {own[0]}")
    if "population" in own and own != ["population"]:
        raise table.error("population", f"expected either a population or another mask, got both and {own[1]}")
    if "noise" in table.values and own and own != ["noise"]:
        raise table.error("noise", f"expected either noise or another mask, got both noise and {own[0]}")
    if "delta" in table.values and table.values.get("noise") != "gaussian":
        raise table.error("delta", 'is for noise = "gaussian" at an epsilon, which this is not')
    if "noise" in own:
        return [(None, (read_option(table, "noise", NOISES),) * arms)]
    if "population" in own:
        return [(None, (read_population(table),) * arms)]
    if own:
        return [(None, read_matrices(table, arms))]
    return [(epsilon, (mask,) * arms) for epsilon, mask in read_epsilons(top, table)]


def read_epsilons(top: TomlTable, table: TomlTable) -> list[tuple[float, RandomizedResponse | Noise]]:
    """Return the epsilons of a problem, each with its mask."""
    source = table if "epsilons" in table.values else top
    if "epsilons" not in source.values:
        raise table.error("epsilons", "expected here or at the top of the file, or p00 and p11 or noise here")
    epsilons = source.get_numbers("epsilons", "numbers above 0, or inf", least=0, above=True, infinite=True)
    if len(set(epsilons)) < len(epsilons):
        raise source.error("epsilons", "expected different numbers, got one of them twice")
    calibrate = choose_calibration(table)
    try:
        return [(epsilon, calibrate(epsilon)) for epsilon in epsilons]
    except ValueError as error:
        raise source.error("epsilons", str(error)) from error


def choose_calibration(table: TomlTable) -> Callable[[float], RandomizedResponse | Noise]:
    """Return a function that builds the mask of an epsilon."""
    if "noise" not in table.values:
        return RandomizedResponse.from_epsilon
    kind = table.get_text("noise")
    if kind not in NOISES:
        raise table.error("noise", f"unknown noise {format_value(kind)}{suggest_nearest(kind, NOISES)}")
    if isinstance(read_rewards(table), Gaussian):
        raise table.error("noise", "expected its size, as in { gaussian = 1.5 }: such rewards have no epsilon")
    if kind == "laplace":
        return lambda epsilon: NO_NOISE if math.isinf(epsilon) else LaplaceNoise.from_epsilon(epsilon)
    [delta] = table.get_numbers("delta", "a number above 0 and below 1", least=0, most=1, above=True, below=True)
    return lambda epsilon: NO_NOISE if math.isinf(epsilon) else GaussianNoise.from_epsilon(epsilon, delta)


def read_population(table: TomlTable) -> Population:
    """Return people who choose their own mask, by its epsilon or by its p00 and p11, and how many choose each."""
    people = TomlTable(table.file, f"{table.path}.population", table.values["population"])
    people.check_keys(("epsilons", "p00", "p11", "shares"))
    if ("epsilons" in people.values) == bool({"p00", "p11"} & people.values.keys()):
        raise table.error("population", "expected either epsilons, or p00 and p11, one for each choice")
    given = "shares" in people.values
    shares = people.get_numbers("shares", "shares above 0", least=0, above=True) if given else None
    if "epsilons" in people.values:
        epsilons = people.get_numbers("epsilons", "numbers above 0, or inf", least=0, above=True, infinite=True)
        columns = [epsilons]
    else:
        columns = [people.get_numbers(key, "probabilities in [0, 1]", least=0, most=1) for key in ("p00", "p11")]
    if len(columns[-1]) != len(columns[0]):
        raise people.error("p11", f"expected one for each p00 ({len(columns[0])}), got {len(columns[1])}")
    build: Callable[..., RandomizedResponse] = (
        RandomizedResponse.from_epsilon if len(columns) == 1 else RandomizedResponse
    )
    try:
        return Population([*map(build, *columns)], shares)
    except ValueError as error:
        raise table.error("population", str(error)) from error


def read_matrices(table: TomlTable, arms: int) -> Masks:
    """Return the randomised response of each arm from p00 and p11: one number for all arms, or one for each."""
    columns = []
    for key in ("p00", "p11"):
        column = table.get_numbers(key, "probabilities in [0, 1]", least=0, most=1)
        if len(column) not in (1, arms):
            raise table.error(key, f"expected one number, or one for each of {arms} arms, got {len(column)}")
        columns.append(column * arms if len(column) == 1 else column)
    try:
        return tuple(RandomizedResponse(p00, p11) for p00, p11 in zip(*columns, strict=True))
    except ValueError as error:
        raise table.error("p00, p11", str(error)) from error


def read_rewards(table: TomlTable) -> Rewards:
    """Return the law of a problem's rewards."""
    if table.values.get("rewards", BITS) == BITS:
        return Bernoulli()
    return read_option(table, "rewards", REWARDS)


def read_option(table: TomlTable, key: str, options: dict[str, Callable[[float], Option]]) -> Option:
    """Return the object that a table with one entry describes: its kind, and the number that the kind takes."""
    value = table.values[key]
    kinds = " or ".join(f"{{ {kind} = ... }}" for kind in options)
    if not isinstance(value, dict) or len(value) != 1:
        raise table.error(key, f"expected {kinds}, {describe_actual(value)}")
    [(kind, size)] = value.items()
    if kind not in options:
        raise table.error(f"{key}.{kind}", f"unknown{suggest_nearest(kind, options)}")
    try:
        return options[kind](size)
    except ValueError as error:
        raise table.error(f"{key}.{kind}", str(error)) from error


def list_facts(problem: Problem | ContextualProblem, masks: Masks) -> dict[str, Any]:
    """Return the masks for the cache key of a cell, and the law of the rewards where it matters: under noise."""
    known = [mask.average if isinstance(mask, Population) else mask for mask in masks]
    facts: dict[str, Any] = {name: [getattr(mask, name, 1.0) for mask in known] for name in ("p00", "p11")}
    if isinstance(masks[0], Population):
        facts["population"] = list_people(masks[0])
    if isinstance(problem, Problem) and problem.is_noisy:
        facts["noise"] = [encode_noise(mask) for mask in masks]
        facts["rewards"] = encode_law(problem.law)
    return facts


def list_people(population: Population) -> dict[str, Any]:
    """Return the masks that people choose, and their shares, as the file has them."""
    masks = {name: [getattr(mask, name) for mask in population.responses] for name in ("p00", "p11")}
    return {**masks, "shares": [*population.shares]}


def encode_noise(mask: RandomizedResponse | Population | Noise) -> list[Any]:
    """Return a noise as its kind and its size."""
    if isinstance(mask, LaplaceNoise):
        return ["laplace", mask.scale]
    return ["gaussian", mask.sigma if isinstance(mask, GaussianNoise) else 0.0]


def encode_law(law: Rewards) -> list[Any]:
    """Return the law of rewards as its kind and its parameter."""
    if isinstance(law, Beta):
        return ["beta", law.concentration]
    return ["gaussian", law.sigma] if isinstance(law, Gaussian) else [BITS, 0.0]


def describe_mask(facts: dict[str, Any]) -> str:
    """Return the noise or the population of a cell in a few words; an empty text for one mask of bits."""
    if "population" in facts:
        count = len(facts["population"]["shares"])
        return f", people choose {'their mask' if count == 1 else f'one of {count} masks'}"
    if "noise" not in facts:
        return ""
    sizes: Sequence[Sequence[Any]] = facts["noise"]
    kinds = sorted({str(kind).capitalize() for kind, size in sizes if size > 0.0})
    kind, number = facts["rewards"]
    rewards = "" if kind == BITS else f", {str(kind).capitalize()}({number:g}) rewards"
    return (f", {' and '.join(kinds)} noise" if kinds else ", no noise") + rewards
