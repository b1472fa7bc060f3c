"""A policy over features at work: what a user holds."""

import copy
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maskedbandits import _validation
from maskedbandits._numba.state import REQUIRED, Floats, Param, Words
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import UserError, check_int, nearest, shown
from maskedbandits.features import linear, logistic
from maskedbandits.features.kernels import choose_live, estimates_live, observe_live
from maskedbandits.math import rng
from maskedbandits.policies import validation
from maskedbandits.policies.runtime import hold_during_forks

MODULES: dict[str, ModuleType] = {"logistic-ts-cf": logistic, "d-linucb-cf": linear}
NAMES = tuple(MODULES)
MOST_NUMBERS = 1 << 24  # of a matrix for every arm
LARGEST = 100.0  # a feature: far larger ones than others would leave nothing but rounding of these


def make_featured(
    name: str,
    *,
    arms: int,
    features: int,
    corruption: RandomizedResponse,
    seed: int | None = None,
    **parameters: Any,
) -> "Featured":
    """Return a policy over features that has seen nothing: ``logistic-ts-cf`` or ``d-linucb-cf``.

    Features are so many numbers that everybody may see, such as the time of day; let one of them be a constant 1. The
    corruption is what masks rewards. With a seed, one that draws lots draws the same ones each time.

    >>> policy = make_featured("logistic-ts-cf", arms=3, features=2, corruption=RandomizedResponse.from_epsilon(1))
    >>> policy.observe([1.0, 0.5], 2, 1)
    >>> policy.estimates([1.0, 0.5]).shape
    (3,)
    """
    if not isinstance(name, str) or name not in MODULES:
        raise UserError(f"no policy over features is called {name!r}{nearest(name, MODULES)}")
    many, d = check_int("arms", arms), check_int("features", features)
    if many * d * d > MOST_NUMBERS:
        raise UserError(f"arms = {many} with features = {d} take a matrix each, more than can be played: give fewer")
    if not isinstance(corruption, RandomizedResponse):
        raise UserError(f"corruption = {shown(corruption)}: give a RandomizedResponse")
    complete = completed(name, parameters)
    words = rng.seeded(None if seed is None else check_int("seed", seed, 0))
    return Featured(name, corruption, complete, fresh(name, many, d, corruption, complete), words)


def completed(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters of a policy, checked: those given and the defaults of the others."""
    known: dict[str, Param] = MODULES[name].PARAMETERS
    for key in given:
        if key not in known:
            raise UserError(f"{name} has no parameter {key!r}{nearest(key, known)}")
    values = {}
    for key, what in known.items():
        values[key] = given.get(key, what.default)
        if values[key] is REQUIRED:
            raise UserError(f"{name} needs the parameter {key!r}: {what.hint}")
        values[key] = what.check(key, values[key])
    return values


def fresh(name: str, arms: int, features: int, corruption: RandomizedResponse, parameters: dict[str, Any]) -> Any:
    """Return the state of a policy that has seen nothing."""
    return MODULES[name].made(arms, features, corruption.p00, corruption.p11, parameters)


class Featured:
    """Chooses by features, and learns from masked rewards; made by ``make_featured``. Threads may share one."""

    def __init__(
        self, name: str, corruption: RandomizedResponse, parameters: dict[str, Any], state: Any, words: Words
    ) -> None:
        self.name, self.corruption = name, corruption
        self.parameters: Mapping[str, Any] = MappingProxyType(parameters)
        self._state = state
        self._state.rng[:] = words
        self._lock = threading.Lock()
        hold_during_forks(self)

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return int(self._state.pulls.size)

    @property
    def features(self) -> int:
        """Number of features, d."""
        return int(self._state.scratch.size)

    def __repr__(self) -> str:
        told = "".join(f", {key}={value:g}" for key, value in self.parameters.items())
        masked = f"p00={self.corruption.p00:g}, p11={self.corruption.p11:g}"
        return f"<{self.name}, arms={self.arms}, features={self.features}, {masked}{told}>"

    def choose(self, features: ArrayLike) -> int:
        """Return the arm to pull for these features."""
        x = self._checked(features)
        with self._lock:
            return int(choose_live(self._state, x))

    def observe(self, features: ArrayLike, arm: int, feedback: float) -> None:
        """Take in the masked feedback, a number in [0, 1], that came back for an arm chosen for these features."""
        x = self._checked(features)
        place, value = validation.plain_numbers(arm, feedback)
        if not 0 <= place < self.arms:
            raise validation.no_such_arm(place, self.arms)
        if not 0.0 <= value <= 1.0:
            raise validation.no_feedback(value, 1.0)
        with self._lock:
            observe_live(self._state, x, place, value)

    def estimates(self, features: ArrayLike) -> Floats:
        """Return the estimated mean reward of every arm for these features; NaN of one that was never observed."""
        x, out = self._checked(features), np.zeros(self.arms)
        with self._lock:
            estimates_live(self._state, x, out)
        return out

    def _checked(self, features: ArrayLike) -> Floats:
        return _validation.vector("features", features, self.features, LARGEST)

    def for_simulation(self) -> Any:
        """Return the state of a fresh policy of this kind."""
        return fresh(self.name, self.arms, self.features, self.corruption, dict(self.parameters))

    def __copy__(self) -> "Featured":
        with self._lock:
            state = type(self._state)(*(copy.copy(each) for each in self._state))
        return Featured(self.name, self.corruption, dict(self.parameters), state, state.rng.copy())

    def __deepcopy__(self, memo: Any) -> "Featured":
        return self.__copy__()

    def __reduce__(self) -> Any:
        from maskedbandits.features import serialization

        return serialization.loads, (serialization.dumps(self),)

    def save(self, path: str | Path) -> None:
        """Write everything down, for ``load_featured``."""
        from maskedbandits.features import serialization

        serialization.save(self, path)
