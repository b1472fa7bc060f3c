"""The policy over features that a user holds."""

from __future__ import annotations

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
from maskedbandits.errors import UserError, abbreviate, check_int, suggest_nearest
from maskedbandits.features import linear, logistic
from maskedbandits.features.kernels import choose_live, estimates_live, observe_live
from maskedbandits.math import rng
from maskedbandits.policies import validation
from maskedbandits.policies.runtime import hold_during_forks

MODULES: dict[str, ModuleType] = {"logistic-ts-cf": logistic, "d-linucb-cf": linear}
NAMES = tuple(MODULES)
MAX_MATRIX_NUMBERS = 1 << 24  # in the matrices of all arms
MAX_FEATURE = 100.0  # much larger features would leave only rounding errors of the others


def make_featured(
    name: str,
    *,
    arms: int,
    features: int,
    corruption: RandomizedResponse,
    seed: int | None = None,
    **parameters: Any,
) -> Featured:
    """Return a new policy over features.

    Features are public numbers that come with each decision, such as the time of day. Let one of them be a constant 1.

    Parameters
    ----------
    name : {"logistic-ts-cf", "d-linucb-cf"}
        Name of the policy.
    arms : int
        Number of arms.
    features : int
        Number of features.
    corruption : RandomizedResponse
        The mask of rewards.
    seed : int, optional
        The seed of random numbers. By default they come from the operating system.
    **parameters
        Parameters of the policy, such as ``gamma``.

    Returns
    -------
    Featured
        The policy.

    Raises
    ------
    UserError
        If the name is unknown, a parameter is missing, or a value is out of range.

    Examples
    --------
    >>> policy = make_featured("logistic-ts-cf", arms=3, features=2, corruption=RandomizedResponse.from_epsilon(1))
    >>> policy.observe([1.0, 0.5], 2, 1)
    >>> policy.estimates([1.0, 0.5]).shape
    (3,)

    """
    if not isinstance(name, str) or name not in MODULES:
        raise UserError(f"no policy over features is called {name!r}{suggest_nearest(name, MODULES)}")
    many, d = check_int("arms", arms), check_int("features", features)
    if many * d * d > MAX_MATRIX_NUMBERS:
        raise UserError(f"arms = {many} with features = {d} require too much memory: give fewer")
    if not isinstance(corruption, RandomizedResponse):
        raise UserError(f"corruption = {abbreviate(corruption)}: give a RandomizedResponse")
    complete = complete_parameters(name, parameters)
    words = rng.seed_words(None if seed is None else check_int("seed", seed, 0))
    return Featured(name, corruption, complete, build_state(name, many, d, corruption, complete), words)


def complete_parameters(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Check the given parameters, and fill in the defaults of the others."""
    known: dict[str, Param] = MODULES[name].PARAMETERS
    for key in given:
        if key not in known:
            raise UserError(f"{name} has no parameter {key!r}{suggest_nearest(key, known)}")
    values = {}
    for key, what in known.items():
        values[key] = given.get(key, what.default)
        if values[key] is REQUIRED:
            raise UserError(f"{name} requires the parameter {key!r}: {what.hint}")
        values[key] = what.check(key, values[key])
    return values


def build_state(name: str, arms: int, features: int, corruption: RandomizedResponse, parameters: dict[str, Any]) -> Any:
    """Return the initial state of a policy."""
    return MODULES[name].build_state(arms, features, corruption.p00, corruption.p11, parameters)


class Featured:
    """Choose an arm by public features, and learn from masked rewards.

    Create one with `make_featured`. Threads may share a policy.

    Examples
    --------
    >>> policy = make_featured("logistic-ts-cf", arms=3, features=2, corruption=RandomizedResponse.from_epsilon(1))
    >>> arm = policy.choose([1.0, 0.5])
    >>> policy.observe([1.0, 0.5], arm, 1)

    """

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
        settings = "".join(f", {key}={value:g}" for key, value in self.parameters.items())
        masked = f"p00={self.corruption.p00:g}, p11={self.corruption.p11:g}"
        return f"<{self.name}, arms={self.arms}, features={self.features}, {masked}{settings}>"

    def choose(self, features: ArrayLike) -> int:
        """Return the arm to pull for these features.

        Parameters
        ----------
        features : array_like of float
            The features of the decision, of shape (d,).

        Returns
        -------
        int
            The arm.

        """
        x = self._check_features(features)
        with self._lock:
            return int(choose_live(self._state, x))

    def observe(self, features: ArrayLike, arm: int, feedback: float) -> None:
        """Update the policy with the masked feedback for an arm.

        Parameters
        ----------
        features : array_like of float
            The features for which the arm was chosen, of shape (d,).
        arm : int
            The arm that was pulled.
        feedback : float
            The masked feedback, a number in [0, 1].

        Raises
        ------
        UserError
            If the features, the arm or the feedback are out of range.

        """
        x = self._check_features(features)
        index, value = validation.plain_numbers(arm, feedback)
        if not 0 <= index < self.arms:
            raise validation.no_such_arm(index, self.arms)
        if not 0.0 <= value <= 1.0:
            raise validation.no_feedback(value, 1.0)
        with self._lock:
            observe_live(self._state, x, index, value)

    def estimates(self, features: ArrayLike) -> Floats:
        """Return the estimated mean reward of every arm for these features.

        Parameters
        ----------
        features : array_like of float
            The features, of shape (d,).

        Returns
        -------
        ndarray
            An array of shape (K,), with NaN for an arm without observations.

        """
        x, out = self._check_features(features), np.zeros(self.arms)
        with self._lock:
            estimates_live(self._state, x, out)
        return out

    def _check_features(self, features: ArrayLike) -> Floats:
        """Return features as an array."""
        return _validation.check_vector("features", features, self.features, MAX_FEATURE)

    def for_simulation(self) -> Any:
        """Return the initial state of a policy of this kind. Internal: the simulator plays it."""
        return build_state(self.name, self.arms, self.features, self.corruption, dict(self.parameters))

    def __copy__(self) -> Featured:
        with self._lock:
            state = type(self._state)(*(copy.copy(each) for each in self._state))
        return Featured(self.name, self.corruption, dict(self.parameters), state, state.rng.copy())

    def __deepcopy__(self, memo: Any) -> Featured:
        return self.__copy__()

    def __reduce__(self) -> Any:
        from maskedbandits.features import serialization

        return serialization.loads, (serialization.dumps(self),)

    def save(self, path: str | Path) -> None:
        """Write the policy to a file, for `load_featured`.

        Parameters
        ----------
        path : str or Path
            The file. It appears whole or not at all.

        """
        from maskedbandits.features import serialization

        serialization.save(self, path)
