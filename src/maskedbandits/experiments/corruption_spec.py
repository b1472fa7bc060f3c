"""What an experiment's problems are seen through: randomised response, or noise; and how their rewards are drawn.

epsilons = [1, inf]                       # randomised response at each epsilon
p00 = 0.9                                 # or its matrix itself
p11 = [0.9, 0.8]
noise = "laplace"                         # in place of randomised response, at each epsilon
noise = "gaussian"
delta = 1e-5                              # which Gaussian noise needs
noise = { laplace = 2.0 }                 # or its scale itself
noise = { gaussian = 1.5 }                # or its sigma
rewards = { beta = 3 }                    # in place of bits: Beta(3)
rewards = { gaussian = 0.1 }              # or Gaussian(0.1)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from maskedbandits.corruption import GaussianNoise, LaplaceNoise, Noise, RandomizedResponse
from maskedbandits.errors import nearest
from maskedbandits.experiments.toml_table import Section, got, show
from maskedbandits.problems import ContextualProblem, Problem
from maskedbandits.problems.rewards import Bernoulli, Beta, Gaussian, Rewards

KEYS = ("noise", "delta", "rewards")  # of problems that were not recorded
NOISES: dict[str, Callable[[float], Noise]] = {"laplace": LaplaceNoise, "gaussian": GaussianNoise}
REWARDS: dict[str, Callable[[float], Rewards]] = {"beta": Beta, "gaussian": Gaussian}
BITS = "bernoulli"
NOTHING = GaussianNoise(0.0)  # added: what no privacy is among noises

Masks = tuple[RandomizedResponse | Noise, ...]
Made = TypeVar("Made")


def masks_of(top: Section, section: Section, arms: int) -> list[tuple[float | None, Masks]]:
    """Return what the feedback goes through, arm by arm: a mask at each epsilon, or the one given."""
    sized = isinstance(section.values.get("noise"), dict)
    own = [key for key in ("p00", "p11", "noise") if key in section.values and (key != "noise" or sized)]
    if own and "epsilons" in section.values:
        raise section.mistake("epsilons", f"expected either epsilons or a mask itself, got both epsilons and {own[0]}")
    if "noise" in section.values and own and own != ["noise"]:
        raise section.mistake("noise", f"expected either noise or p00 and p11, got both noise and {own[0]}")
    if "delta" in section.values and section.values.get("noise") != "gaussian":
        raise section.mistake("delta", 'is for noise = "gaussian" at an epsilon, which this is not')
    if "noise" in own:
        return [(None, (chosen(section, "noise", NOISES),) * arms)]
    if own:
        return [(None, matrices_of(section, arms))]
    return [(epsilon, (mask,) * arms) for epsilon, mask in at_epsilons(top, section)]


def at_epsilons(top: Section, section: Section) -> list[tuple[float, RandomizedResponse | Noise]]:
    """Return a mask for each epsilon."""
    source = section if "epsilons" in section.values else top
    if "epsilons" not in source.values:
        raise section.mistake("epsilons", "expected here or at the top of the file, or p00 and p11 or noise here")
    epsilons = source.numbers("epsilons", "numbers above 0, or inf", least=0, above=True, infinite=True)
    if len(set(epsilons)) < len(epsilons):
        raise source.mistake("epsilons", "expected different numbers, got one of them twice")
    calibrated = calibrated_of(section)
    try:
        return [(epsilon, calibrated(epsilon)) for epsilon in epsilons]
    except ValueError as error:
        raise source.mistake("epsilons", str(error)) from error


def calibrated_of(section: Section) -> Callable[[float], RandomizedResponse | Noise]:
    """Return what makes a mask of an epsilon."""
    if "noise" not in section.values:
        return RandomizedResponse.from_epsilon
    kind = section.text("noise")
    if kind not in NOISES:
        raise section.mistake("noise", f"unknown noise {show(kind)}{nearest(kind, NOISES)}")
    if isinstance(rewards_of(section), Gaussian):
        raise section.mistake("noise", "expected its size, as in { gaussian = 1.5 }: such rewards have no epsilon")
    if kind == "laplace":
        return lambda epsilon: NOTHING if math.isinf(epsilon) else LaplaceNoise.from_epsilon(epsilon)
    [delta] = section.numbers("delta", "a number above 0 and below 1", least=0, most=1, above=True, below=True)
    return lambda epsilon: NOTHING if math.isinf(epsilon) else GaussianNoise.from_epsilon(epsilon, delta)


def matrices_of(section: Section, arms: int) -> Masks:
    """Return each arm's randomised response from p00 and p11: one number for all arms, or one for each."""
    columns = []
    for key in ("p00", "p11"):
        column = section.numbers(key, "probabilities in [0, 1]", least=0, most=1)
        if len(column) not in (1, arms):
            raise section.mistake(key, f"expected one number, or one for each of {arms} arms, got {len(column)}")
        columns.append(column * arms if len(column) == 1 else column)
    try:
        return tuple(RandomizedResponse(p00, p11) for p00, p11 in zip(*columns, strict=True))
    except ValueError as error:
        raise section.mistake("p00, p11", str(error)) from error


def rewards_of(section: Section) -> Rewards:
    """Return how rewards are drawn."""
    if section.values.get("rewards", BITS) == BITS:
        return Bernoulli()
    return chosen(section, "rewards", REWARDS)


def chosen(section: Section, key: str, known: dict[str, Callable[[float], Made]]) -> Made:
    """Return what a table of one entry stands for: a kind, and the number that it takes."""
    value = section.values[key]
    kinds = " or ".join(f"{{ {kind} = ... }}" for kind in known)
    if not isinstance(value, dict) or len(value) != 1:
        raise section.mistake(key, f"expected {kinds}, {got(value)}")
    [(kind, size)] = value.items()
    if kind not in known:
        raise section.mistake(f"{key}.{kind}", f"unknown{nearest(kind, known)}")
    try:
        return known[kind](size)
    except ValueError as error:
        raise section.mistake(f"{key}.{kind}", str(error)) from error


def asked_of(problem: Problem | ContextualProblem, each: Masks) -> dict[str, Any]:
    """Return what cells ask of the masks and of the rewards behind them, where these make a difference: under noise."""
    asked: dict[str, Any] = {name: [getattr(mask, name, 1.0) for mask in each] for name in ("p00", "p11")}
    if isinstance(problem, Problem) and problem.is_noisy:
        asked["noise"] = [noise_in_values(mask) for mask in each]
        asked["rewards"] = law_in_values(problem.law)
    return asked


def noise_in_values(mask: RandomizedResponse | Noise) -> list[Any]:
    """Return a noise as its kind and its size."""
    if isinstance(mask, LaplaceNoise):
        return ["laplace", mask.scale]
    return ["gaussian", mask.sigma if isinstance(mask, GaussianNoise) else 0.0]


def law_in_values(law: Rewards) -> list[Any]:
    """Return how rewards are drawn as a kind and its number."""
    if isinstance(law, Beta):
        return ["beta", law.concentration]
    return ["gaussian", law.sigma] if isinstance(law, Gaussian) else [BITS, 0.0]


def noise_in_words(asked: dict[str, Any]) -> str:
    """Return what a question says of noise, in a few words; nothing where there is none."""
    if "noise" not in asked:
        return ""
    sizes: Sequence[Sequence[Any]] = asked["noise"]
    kinds = sorted({str(kind).capitalize() for kind, size in sizes if size > 0.0})
    kind, number = asked["rewards"]
    rewards = "" if kind == BITS else f", {str(kind).capitalize()}({number:g}) rewards"
    return (f", {' and '.join(kinds)} noise" if kinds else ", no noise") + rewards
