"""What the names of policies stand for: points on the axes memory x index, and what makes them forget at once."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from maskedbandits.core import change, index, memory, own, restart
from maskedbandits.core.state import FOREVER

REQUIRED = ...


@dataclass(frozen=True)
class Recipe:
    """A point on the axes, or what stands on its own; a parameter has a default, or ``...`` where it must be given."""

    summary: str
    reference: str
    memory: int
    index: int
    detector: int = change.NOTHING
    parameters: Mapping[str, Any] = field(default_factory=dict)
    sees_corruption: bool = True
    sees_rewards: bool = False  # it is shown rewards as they are, and masks them itself
    own: int = own.NONE

    @property
    def random(self) -> bool:
        """Tell whether it draws lots, to choose or to mask."""
        return self.index == index.THOMPSON or self.own not in (own.NONE, own.ORACLE)


@dataclass(frozen=True)
class _Axis:
    """A value of one axis: how it is named and described, and the parameters that it brings."""

    code: int
    words: str
    reference: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    detector: int = change.NOTHING


INDICES = {
    "klucb": _Axis(index.KL, "KL index", "Gajane 2023; Cappé et al. 2013", {"c": 3.0}),
    "ucb": _Axis(index.UCB, "UCB index", "Gajane et al. 2018; Garivier & Moulines 2011", {"c": 0.0, "xi": 2.0}),
    "klucb-plus": _Axis(index.KL_PLUS, "KL-UCB++ index", "Ménard & Garivier 2017", {"horizon": REQUIRED}),
    "ts": _Axis(index.THOMPSON, "Thompson sampling", "Gajane et al. 2018; Kaufmann et al. 2012"),
}

_WATCH = {"exploration": 0.3, "prior_changes": 0.01, "local": False, "horizon": None}

MEMORIES = {
    "": _Axis(memory.ALL, "everything", "", {"restarts": None}),
    "sw-": _Axis(memory.SLIDING, "sliding window", "", {"window": REQUIRED, "restarts": None}),
    "d-": _Axis(memory.DISCOUNTED, "discount", "Kocsis & Szepesvári 2006", {"gamma": REQUIRED, "restarts": None}),
    "oracle-": _Axis(memory.ALL, "since the last change, told by an oracle", "", {"restarts": REQUIRED}),
    "glr-": _Axis(
        memory.ALL,
        "since a restart by the exact likelihood-ratio test",
        "Besson et al. 2022",
        {"delta": 1.0, "follow_up": 3.0, **_WATCH},
        change.GLR,
    ),
    "cusum-": _Axis(
        memory.ALL,
        "since a restart by CUSUM",
        "Liu et al. 2018",
        {"drift": 0.05, "threshold": 10.0, "samples": 100, **_WATCH},
        change.CUSUM,
    ),
    "ph-": _Axis(
        memory.ALL,
        "since a restart by Page-Hinkley",
        "Hartland et al. 2007",
        {"drift": 0.05, "threshold": 10.0, **_WATCH},
        change.PAGE_HINKLEY,
    ),
    "m-": _Axis(
        memory.ALL,
        "since a restart by two windows",
        "Cao et al. 2019",
        {"width": 200, "threshold": 30.0, **_WATCH},
        change.TWO_WINDOWS,
    ),
}


def _alone(
    kind: int,
    summary: str,
    reference: str,
    parameters: Mapping[str, Any],
    *,
    debiases: bool = False,
    rewards: bool = False,
) -> Recipe:
    return Recipe(summary, reference, memory.ALL, index.OWN, change.NOTHING, parameters, debiases, rewards, kind)


ALONE = {
    "auto": Recipe(
        "Thompson sampling that learns how often the world changes: needs to know nothing",
        "Mellor & Shapiro 2013; Wilson et al. 2010",
        memory.ALL,
        index.OWN,
        own=own.SWITCHING,
    ),
    "uniform": _alone(own.UNIFORM, "draws every arm alike", "", {}),
    "oracle": _alone(own.ORACLE, "plays the best arm, which it is told", "", {"restarts": REQUIRED, "best": REQUIRED}),
    "exp3s": _alone(
        own.EXP3,
        "exponential weights that can rise again, for adversaries",
        "Auer et al. 2002",
        {"horizon": REQUIRED, "changes": 1},
        debiases=True,
    ),
    "rexp3": _alone(
        own.EXP3,
        "exponential weights, restarted as a variation budget asks",
        "Besbes et al. 2014",
        {"horizon": REQUIRED, "variation": REQUIRED},
        debiases=True,
    ),
    "adswitch": _alone(
        own.ADSWITCH,
        "evicts arms, checks them at random, restarts on a change",
        "Auer et al. 2019",
        {"horizon": REQUIRED, "strictness": 16.0, "finest": 16.0},
        debiases=True,
    ),
    "ldp-ucb-l": _alone(
        own.LAPLACE,
        "shown rewards, adds Laplace noise to each: local privacy",
        "Ren et al. 2020",
        {"epsilon": REQUIRED},
        rewards=True,
    ),
    "dp-ucb": _alone(
        own.CENTRAL,
        "shown rewards, makes noisy sums public: central privacy",
        "Mishra & Thakurta 2015; Tossou & Dimitrakakis 2016",
        {"epsilon": REQUIRED},
        rewards=True,
    ),
}


def _registry() -> dict[str, Recipe]:
    recipes = {
        f"{before}{name}-cf": Recipe(
            f"{remembered.words} x {scored.words}",
            "; ".join(filter(None, (remembered.reference, scored.reference))),
            remembered.code,
            scored.code,
            remembered.detector,
            {**remembered.parameters, **scored.parameters, "contamination": 0.0},
        )
        for before, remembered in MEMORIES.items()
        for name, scored in INDICES.items()
        if not (name == "klucb-plus" and remembered.detector)  # it needs the horizon, they are there to do without
    }
    plain = recipes["klucb-cf"]
    recipes["klucb"] = Recipe(
        "klucb-cf that takes feedback at face value",
        "Cappé et al. 2013",
        plain.memory,
        plain.index,
        parameters=plain.parameters,
        sees_corruption=False,
    )
    recipes["ldp-ucb-b"] = Recipe(
        "randomised response x UCB: ucb-cf as it is by default",
        "Ren et al. 2020",
        recipes["ucb-cf"].memory,
        recipes["ucb-cf"].index,
        parameters={"c": 0.0, "xi": 2.0, "contamination": 0.0},
    )
    return recipes | ALONE


REGISTRY: dict[str, Recipe] = _registry()


def names() -> list[str]:
    """Return all policy names."""
    return sorted(REGISTRY)


def recipe(name: str) -> Recipe:
    """Return what a name stands for."""
    if name not in REGISTRY:
        raise ValueError(f"no policy is called {name!r}{nearest(name, REGISTRY)}")
    return REGISTRY[name]


def nearest(word: str, known: Mapping[str, Any]) -> str:
    """Return the end of an error line: the nearest known word, or all of them."""
    import difflib

    close = difflib.get_close_matches(str(word), known, n=1)
    return f": did you mean {close[0]!r}?" if close else f": known are {', '.join(sorted(known)) or 'none'}"


def complete(name: str, given: Mapping[str, Any], arms: int) -> dict[str, Any]:
    """Return all parameters of a policy, checked: those given and the defaults of the others."""
    known = recipe(name).parameters
    for key in given:
        if key not in known:
            raise ValueError(f"{name} has no parameter {key!r}{nearest(key, known)}")
    values = {**known, **{key: getattr(value, "tolist", lambda value=value: value)() for key, value in given.items()}}
    if values.get("restarts") == "doubling" and "horizon" in known:
        if "horizon" in given:
            raise ValueError("restarts = 'doubling' is for an unknown horizon: leave out horizon or restarts")
        values["horizon"] = restart.FIRST_PHASE  # and of later phases theirs
    for key, value in values.items():
        if value is REQUIRED or (value is None and known[key] is REQUIRED):
            raise ValueError(f"{name} needs the parameter {key!r}{_HINTS.get(key, '')}")
        values[key] = _CHECKS[key](key, value)
    if values.get("window", math.inf) < arms:
        raise ValueError(
            f"window {values['window']} is smaller than the number of arms {arms}: some arm would always be out of "
            f"sight, and be pulled for that alone; give {arms} or more"
        )
    if "best" in values:
        _refuse_odd_oracle(values, arms)
    return values


def _refuse_odd_oracle(values: Mapping[str, Any], arms: int) -> None:
    """Refuse best arms that do not fit the arms or the segments."""
    starts, best = values["restarts"], values["best"]
    if not isinstance(starts, list) or not starts or starts[0] != 0:
        raise ValueError(f"restarts = {starts!r}: give the times at which segments begin, the first of them 0")
    if len(best) != len(starts):
        raise ValueError(f"best has {len(best)} arms for {len(starts)} segments: give one for each of the restarts")
    if max(best) >= arms:
        raise ValueError(f"best = {best!r}: arms are numbered 0 to {arms - 1}")


_HINTS = {
    "window": '; theory.corrected_window(problem) gives one, and in an experiment\'s file window = "corrected"',
    "gamma": ": the discount of a step, such as 0.999",
    "restarts": ": the times of the changes, such as [0, 5000]",
    "horizon": ": how many steps will be played",
    "best": ": the best arm of every segment, such as [0, 2]",
    "variation": ": by how much the means move in all, such as problem.variation",
    "epsilon": ": the privacy loss of a reward, such as 1.0",
}


def whole(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number that is not too small."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise ValueError(f"{name} = {value!r}: give a whole number, {least} or more")
    return number


def _window(name: str, value: Any) -> float:
    if isinstance(value, float) and value == math.inf:
        return math.inf
    number = whole(name, value)
    if number > 1 << 32:
        raise ValueError(f"{name} {number} is more than can be kept in memory: for no limit give math.inf")
    return number


def _number(least: float, most: float, *, open_ends: bool = False) -> Callable[[str, Any], float]:
    def check(name: str, value: Any) -> float:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most
        if not fits or math.isinf(value) or (open_ends and value in (least, most)):
            between = f"{least:g} or more" if most == math.inf else f"from {least:g} to {most:g}"
            raise ValueError(f"{name} = {value!r}: give a number, {between}{', ends excluded' * open_ends}")
        return float(value)

    return check


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} = {value!r}: give True or False")
    return value


def _horizon(name: str, value: Any) -> int | None:
    return None if value is None else whole(name, value)


def _restarts(name: str, value: Any) -> list[int] | str | None:
    if value is None or value == "doubling":
        return value if value is None else str(value)
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(f"{name} = {value!r}: give times such as [0, 5000], 'doubling' or None")
    times = [min(whole(f"{name}[{place}]", time, 0), FOREVER) for place, time in enumerate(value)]
    if any(later <= earlier for earlier, later in pairwise(times)):
        raise ValueError(f"{name} = {value!r}: give increasing times")
    return times


def _best(name: str, value: Any) -> list[int]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(f"{name} = {value!r}: give the best arm of every segment, such as [0, 2]")
    return [whole(f"{name}[{place}]", arm, 0) for place, arm in enumerate(value)]


def _epsilon(name: str, value: Any) -> float:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0.0
    if not fits:
        raise ValueError(f"{name} = {value!r}: give a number above 0, or math.inf for no noise")
    return float(value)


def _contamination(name: str, value: Any) -> float:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and 0.0 <= value < 1.0
    if not fits:
        raise ValueError(f"{name} = {value!r}: give the share of reports that may be lies, from 0 to below 1")
    return float(value)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "window": _window,
    "gamma": _number(0.0, 1.0, open_ends=True),
    "c": _number(0.0, math.inf),
    "xi": _number(0.0, math.inf),
    "horizon": _horizon,
    "restarts": _restarts,
    "best": _best,
    "changes": whole,
    "variation": _number(0.0, math.inf),
    "epsilon": _epsilon,
    "strictness": _number(0.0, math.inf),
    "finest": _number(2.0, math.inf),  # less, and an arm with a large gap would never be checked
    "contamination": _contamination,
    "delta": _number(1e-300, 1.0),
    "exploration": _number(0.0, math.inf),
    "follow_up": _number(0.0, math.inf),
    "prior_changes": _number(0.0, math.inf),
    "local": _flag,
    "drift": _number(0.0, 1.0),
    "threshold": _number(0.0, math.inf),
    "samples": whole,
    "width": whole,
}


def steps_remembered(parameters: Mapping[str, Any]) -> int:
    """Return the window as the compiled code has it."""
    window = parameters.get("window", math.inf)
    return FOREVER if window == math.inf else int(window)


def restart_kind(parameters: Mapping[str, Any]) -> int:
    """Return what the compiled code calls the restarts asked for."""
    restarts = parameters.get("restarts")
    if restarts is None:
        return restart.NEVER
    return restart.DOUBLING if restarts == "doubling" else restart.PLANNED
