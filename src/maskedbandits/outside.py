"""Policies from outside the package: any object with ``choose()`` and ``observe(arm, feedback)``, in plain Python.

A function makes one for every run: it is given a generator of random numbers and, if it asks for them by name,
``arms``, ``corruption`` and ``horizon``. What is counted, and against what, is the same as for policies of ours.
"""

import hashlib
import importlib
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError, shown
from maskedbandits.problems import Log, Problem

TOLD = ("arms", "corruption", "horizon")  # to whom asks for them by name
OFTEN = 1 << 10  # steps between two looks at how far it is

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Chooser(Protocol):
    """What can be played."""

    def choose(self) -> int:
        """Return the arm to pull next."""

    def observe(self, arm: int, feedback: float) -> object:
        """Take in the feedback of a pull."""


Factory = Callable[..., Chooser]


def is_factory(policy: object) -> bool:
    """Tell whether something makes policies, rather than being one."""
    return callable(policy) and not isinstance(policy, str)


def made(factory: Factory, problem: Problem, generator: np.random.Generator) -> Chooser:
    """Return a fresh policy."""
    function = factory.found() if isinstance(factory, Named) else factory
    given = factory.parameters if isinstance(factory, Named) else {}
    told = {name: getattr(problem, name) for name in TOLD if name in asked_by(function)}
    _check_call(function, generator, {**given, **told})
    policy = factory(generator, **told)
    for name in ("choose", "observe"):
        if not callable(getattr(policy, name, None)):
            raise UserError(f"{_name(factory)} made {shown(policy)}, which has no {name}(): give it choose and observe")
    return policy


def _check_call(function: Factory, generator: np.random.Generator, given: dict[str, Any]) -> None:
    """Refuse a function that cannot be called with what it is given; where Python cannot tell, it is called."""
    try:
        inspect.signature(function).bind(generator, **given)
    except TypeError as error:
        raise UserError(f"{_name(function)} cannot be called with a generator of random numbers: {error}") from error
    except ValueError:
        return


def asked_by(factory: Factory) -> set[str]:
    """Return the parameters that a function has by name, beside the first; none where Python cannot tell."""
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):
        return set()
    return {each.name for each in parameters[1:] if each.kind is not each.VAR_KEYWORD}


def find(name: str, folder: Path) -> Factory:
    """Return the function that ``package.module:factory`` names; the module is in the folder, or is installed."""
    module, _, attribute = name.partition(":")
    sys.path.insert(0, str(folder))
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"{name}: cannot be imported: {error}; put {module}.py beside the file, or install it"
        ) from error
    finally:
        sys.path.remove(str(folder))
    factory = getattr(found, attribute, None)
    if not callable(factory):
        raise UserError(f"{name}: {module} has no function {shown(attribute)}")
    return cast("Factory", factory)


@dataclass(frozen=True)
class Named:
    """What ``package.module:factory`` names, with parameters: another process that is sent it finds it for itself."""

    name: str
    folder: Path
    parameters: dict[str, Any]

    @property
    def __name__(self) -> str:
        return self.name

    def found(self) -> Factory:
        """Return the function itself."""
        return find(self.name, self.folder)

    def __call__(self, generator: np.random.Generator, **told: Any) -> Chooser:
        """Make a policy."""
        return self.found()(generator, **self.parameters, **told)


def source_of(factory: Factory) -> str:
    """Return a digest of the file that a function stands in: if it changes, so may the numbers."""
    file = inspect.getsourcefile(inspect.unwrap(factory))
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:24] if file else ""


def _name(factory: Factory) -> str:
    return str(getattr(factory, "__name__", type(factory).__name__))


class Play:
    """Runs of a policy from outside on a problem."""

    def __init__(self, factory: Factory, problem: Problem, times: Ints) -> None:
        self.factory, self.problem, self.times = factory, problem, times
        self.rows = problem.rows(masked=True)
        self.starts = self.rows.starts.tolist()
        self.chosen = problem.chosen if isinstance(problem, Log) else None

    def run(
        self,
        seeds: np.random.SeedSequence,
        delay: Callable[[np.random.Generator], int],
        tell: Callable[[int], None],
        counted: tuple[Floats, Ints, Ints, Ints],
    ) -> None:
        """Play one run, write down what is counted, and tell now and then how many steps are done."""
        for_policy, for_world = (np.random.default_rng(each) for each in seeds.spawn(2))
        policy = made(self.factory, self.problem, for_policy)
        regret, pulls, suboptimal, over_time = counted
        under_way: dict[int, list[tuple[int, float]]] = defaultdict(list)
        following, total, row = 0, 0.0, 0
        for step in range(self.problem.horizon):
            for arm, feedback in under_way.pop(step, ()):
                policy.observe(arm, feedback)
            row += step == self.starts[row + 1]
            arm = self._checked(policy.choose())
            if self.chosen is None or arm == self.chosen[step]:
                place = arm if self.chosen is None else 0
                feedback = self.problem.feedback(for_world, arm, float(self.rows.seen[row, place]))
                under_way[step + 1 + delay(for_world)].append((arm, feedback))
                pulls[arm] += 1
                suboptimal[arm] += self.rows.worse[row, place]
                total += self.rows.lost[row, place]
            if following < self.times.size and step + 1 == self.times[following]:
                regret[following] = total
                over_time[following] += pulls
                following += 1
            if step % OFTEN == 0:
                tell(step)
        tell(self.problem.horizon)

    def _checked(self, arm: Any) -> int:
        if isinstance(arm, bool) or not isinstance(arm, int | np.integer) or not 0 <= arm < self.problem.arms:
            expected = f"a whole number from 0 to {self.problem.arms - 1}"
            raise UserError(f"{_name(self.factory)}: choose() returned {shown(arm)}: expected {expected}")
        return int(arm)
