"""Adapters: policies of river and MABWiser as functions that ``simulate`` accepts.

Neither library is imported: an adapter uses the methods of the object that it is given.
"""

from __future__ import annotations

import inspect
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from maskedbandits.errors import UserError, abbreviate
from maskedbandits.simulation.external import describe_failure

SEEDS = 1 << 32  # the seeds that every generator of numpy accepts, RandomState included


def from_river(policy: Any) -> RiverFactory:
    """Return a function that builds fresh copies of a policy of river, for ``simulate``.

    Each run plays a copy without anything learned. It is seeded from the run's generator if the policy has a parameter
    ``seed``; the seed of the policy itself is not used. A policy that draws random numbers in another way does not
    repeat its runs.

    Parameters
    ----------
    policy : river.bandit.base.Policy
        The policy to copy; it stays as it is.

    Returns
    -------
    RiverFactory
        The function.

    Raises
    ------
    UserError
        If this is not a policy of river, expects a context, or cannot be copied.

    Examples
    --------
    >>> import maskedbandits as mb
    >>> from river import bandit
    >>> problem = mb.Problem([0.2, 0.8], [0], 500, mb.RandomizedResponse(0.9, 0.9))
    >>> result = mb.simulate(problem, mb.from_river(bandit.EpsilonGreedy(0.1)), runs=3)
    >>> result.pulls.sum(axis=1).tolist()
    [500, 500, 500]

    """
    _refuse_class("from_river", policy, "EpsilonGreedy(0.1)")
    _check_methods("from_river", policy, ("pull", "update", "clone"), "a policy of river.bandit")
    name = type(policy).__name__
    if "context" in inspect.signature(policy.pull).parameters:
        raise UserError(f"from_river: {name} expects a context, and problems have none: give a policy without")
    is_seeded = "seed" in inspect.signature(type(policy)).parameters
    try:
        # The seed replaces random numbers in the copy, so that equal policies have equal fingerprints.
        prototype = policy.clone({"seed": 0} if is_seeded else {})
    except Exception as error:
        raise describe_failure(f"from_river: {name}.clone()", error) from error
    return RiverFactory(prototype, is_seeded)


def from_mabwiser(mab: Any) -> MABWiserFactory:
    """Return a function that builds fresh copies of a bandit of MABWiser, for ``simulate``.

    Each run plays a copy that was never fitted, seeded from the run's generator; the seed of ``mab`` is not used. The
    first of its arms is arm 0 of the problem. MABWiser predicts only after a fit, so a run pulls in turn the arms that
    have no feedback yet.

    Parameters
    ----------
    mab : mabwiser.mab.MAB
        The bandit to copy; it stays as it is.

    Returns
    -------
    MABWiserFactory
        The function.

    Raises
    ------
    UserError
        If this is not a bandit of MABWiser, expects contexts, or cannot be copied.

    Examples
    --------
    >>> import maskedbandits as mb
    >>> from mabwiser.mab import MAB, LearningPolicy
    >>> problem = mb.Problem([0.2, 0.8], [0], 500, mb.RandomizedResponse(0.9, 0.9))
    >>> ucb = MAB(["plain", "bold"], LearningPolicy.UCB1(alpha=1))
    >>> result = mb.simulate(problem, mb.from_mabwiser(ucb), runs=3)
    >>> result.pulls.sum(axis=1).tolist()
    [500, 500, 500]

    """
    _refuse_class("from_mabwiser", mab, "MAB([0, 1], LearningPolicy.UCB1())")
    _check_methods("from_mabwiser", mab, ("partial_fit", "predict"), "a MAB of mabwiser.mab")
    if getattr(mab, "is_contextual", False):
        raise UserError("from_mabwiser: this MAB expects contexts, and problems have none: give one without")
    try:
        options = {"n_jobs": mab.n_jobs, "backend": mab.backend}
        factory = MABWiserFactory(type(mab), tuple(mab.arms), mab.learning_policy, options)
        factory.build_mab(seed=0)
    except Exception as error:
        raise describe_failure(f"from_mabwiser: the copy of a {type(mab).__name__}", error) from error
    return factory


def _refuse_class(adapter: str, given: object, example: str) -> None:
    """Refuse a class, which has the right methods and no parameters."""
    if isinstance(given, type):
        raise UserError(f"{adapter} was given the class {given.__name__}: give an object, such as {example}")


def _check_methods(adapter: str, given: object, methods: tuple[str, ...], wanted: str) -> None:
    """Refuse an object without these methods."""
    for method in methods:
        if not callable(getattr(given, method, None)):
            raise UserError(f"{adapter} was given {abbreviate(given)}, which has no {method}(): give {wanted}")


@dataclass(frozen=True, repr=False)
class RiverFactory:
    """Builds fresh copies of a policy of river."""

    prototype: Any
    is_seeded: bool

    @property
    def __name__(self) -> str:
        return type(self.prototype).__name__

    def __repr__(self) -> str:
        return f"from_river({self.__name__})"

    def __call__(self, generator: np.random.Generator, arms: int) -> RiverPolicy:
        """Build a copy for a run."""
        changed = {"seed": int(generator.integers(SEEDS))} if self.is_seeded else {}
        return RiverPolicy(self.prototype.clone(changed), arms)


class RiverPolicy:
    """A policy of river with the interface that ``simulate`` plays."""

    def __init__(self, policy: Any, arms: int) -> None:
        self.policy, self.arms = policy, list(range(arms))

    def choose(self) -> int:
        """Return the arm to pull next."""
        arm: int = self.policy.pull(self.arms)
        return arm

    def observe(self, arm: int, feedback: float) -> None:
        """Take in the feedback of a pull."""
        self.policy.update(arm, feedback)


@dataclass(frozen=True, repr=False)
class MABWiserFactory:
    """Builds fresh copies of a bandit of MABWiser."""

    kind: type[Any]
    names: tuple[Any, ...]
    learning_policy: Any
    options: dict[str, Any]

    @property
    def __name__(self) -> str:
        return type(self.learning_policy).__name__

    def __repr__(self) -> str:
        return f"from_mabwiser({self.__name__})"

    def build_mab(self, seed: int) -> Any:
        """Build a MAB that was never fitted."""
        return self.kind(list(self.names), self.learning_policy, seed=seed, **self.options)

    def __call__(self, generator: np.random.Generator, arms: int) -> MABWiserPolicy:
        """Build a copy for a run."""
        if len(self.names) != arms:
            raise UserError(f"the MAB has {len(self.names)} arms, the problem {arms}: make one to fit")
        return MABWiserPolicy(self.build_mab(int(generator.integers(SEEDS))), self.names)


class MABWiserPolicy:
    """A bandit of MABWiser with the interface that ``simulate`` plays."""

    def __init__(self, mab: Any, names: tuple[Any, ...]) -> None:
        self.mab, self.names = mab, names
        self.indices = {name: arm for arm, name in enumerate(names)}
        self.unseen = deque(range(len(names)))  # arms without feedback

    def choose(self) -> int:
        """Return the arm to pull next."""
        if not self.unseen:
            return self.indices[self.mab.predict()]
        self.unseen.rotate(-1)  # another one is next, because this feedback may be late or lost
        return self.unseen[-1]

    def observe(self, arm: int, feedback: float) -> None:
        """Take in the feedback of a pull."""
        if arm in self.unseen:
            self.unseen.remove(arm)
        self.mab.partial_fit([self.names[arm]], [feedback])
