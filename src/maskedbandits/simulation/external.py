"""Policies from outside the package: any object with ``choose()`` and ``observe(arm, feedback)``, in plain Python.

A function builds one for every run. It gets a generator of random numbers and, if it has parameters of these names,
``arms``, ``corruption`` and ``horizon``. The horizon is the expected number of observations: for a log, one in K rows.
Regret and pulls are counted as for built-in policies.
"""

import importlib
import inspect
import operator
import os
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import UserError, abbreviate
from maskedbandits.fingerprint import Origin, trace
from maskedbandits.problems import Log, Problem

KNOWN_PARAMETERS = ("arms", "corruption", "horizon")  # passed to functions that have parameters of these names
PROGRESS_STEPS = 1 << 10  # between two reports of progress

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ExternalPolicy(Protocol):
    """The interface of a policy from outside."""

    def choose(self) -> int:
        """Return the arm to pull next."""

    def observe(self, arm: int, feedback: float) -> object:
        """Take in the feedback of a pull."""


Factory = Callable[..., ExternalPolicy]


def is_factory(policy: object) -> bool:
    """Tell whether this builds policies, rather than being one."""
    return callable(policy) and not isinstance(policy, str)


def build_policy(factory: Factory, problem: Problem, generator: np.random.Generator) -> ExternalPolicy:
    """Build a policy for a run, and check that it can be played."""
    parameters = bind_parameters(factory, problem)
    try:
        policy = factory(generator, **parameters)
    except UserError as error:  # a line for the user, and no failure of outside code
        raise UserError(f"{get_name(factory)}: {error}") from error
    except Exception as error:
        raise describe_failure(get_name(factory), error) from error
    for name in ("choose", "observe"):
        if not callable(getattr(policy, name, None)):
            raise UserError(
                f"{get_name(factory)} made {abbreviate(policy)}, which has no {name}(): give it choose and observe"
            )
    return policy


def bind_parameters(factory: Factory, problem: Problem) -> dict[str, Any]:
    """Return the parameters of a problem for a function; refuse a function that cannot be called with them.

    A function without a signature is not checked.
    """
    function = factory.resolve() if isinstance(factory, NamedFactory) else factory
    given = factory.parameters if isinstance(factory, NamedFactory) else {}
    known = {"arms": problem.arms, "corruption": problem.corruption, "horizon": problem.expected_plays}
    parameters = {name: known[name] for name in KNOWN_PARAMETERS if name in list_parameters(function)}
    try:
        inspect.signature(function).bind(None, **given, **parameters)
    except TypeError as error:
        raise UserError(f"{get_name(factory)} cannot be called with a generator of random numbers: {error}") from error
    except ValueError:
        pass
    return parameters


def describe_failure(what: str, error: BaseException) -> UserError:
    """Return an error of outside code in one line: what failed, why, and in which line of which file."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    file = "" if isinstance(error, SyntaxError) else f" ({Path(where.filename).name}, line {where.lineno})"
    why = " ".join(str(error).split())
    return UserError(f"{what} failed: {type(error).__name__}{f': {why}' if why else ''}{file}")


def list_parameters(factory: Callable[..., object], first: int = 1) -> set[str]:
    """Return the names of a function's parameters after the ``first`` ones; none without a signature."""
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):
        return set()
    return {each.name for each in parameters[first:] if each.kind is not each.VAR_KEYWORD}


def import_factory(name: str, folders: Sequence[Path]) -> Factory:
    """Import the function ``package.module:factory``, from one of the folders or an installed package."""
    module, _, attribute = name.partition(":")
    if not attribute.isidentifier():
        raise UserError(f"{name}: is no name of a function: give package.module:function")
    factory = getattr(import_module(name, folders), attribute, None)
    if not callable(factory):
        raise UserError(f"{name}: {module} has no function {abbreviate(attribute)}")
    return cast("Factory", factory)


def import_module(name: str, folders: Sequence[Path]) -> ModuleType:
    """Import the module of ``package.module:name``, from one of the folders or an installed package."""
    module = name.partition(":")[0]
    if not all(part.isidentifier() for part in module.split(".")):
        raise UserError(f"{name}: is no name of a function: give package.module:function")
    sys.path[:0] = map(str, folders)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        where = f"put {module}.py beside the file, write its folder as `folder` at the top of the file, or install it"
        remedy = where if error.name == module else "install it"
        raise UserError(f"{name}: cannot be imported: {error}; {remedy}") from error
    except (Exception, SystemExit) as error:
        raise describe_failure(f"{name}: the import of {module}", error) from error
    finally:
        for folder in folders:
            sys.path.remove(str(folder))


@dataclass(frozen=True)
class NamedFactory:
    """The function ``package.module:factory`` with parameters; other processes import it themselves."""

    name: str
    folders: tuple[Path, ...]
    parameters: dict[str, Any]

    @property
    def __name__(self) -> str:
        return self.name

    def resolve(self) -> Factory:
        """Import the function."""
        return import_factory(self.name, self.folders)

    def origin(self) -> Origin:
        """Return the origin of its code: if that changes, the results may change."""
        factory = self.resolve()
        module, _, attribute = self.name.partition(":")
        origin = trace((sys.modules[module], [attribute]), (factory, None))
        check_modules(self.name, self.folders, origin)
        return origin

    def __call__(self, generator: np.random.Generator, **known: Any) -> ExternalPolicy:
        """Build a policy."""
        return self.resolve()(generator, **self.parameters, **known)


def check_modules(name: str, folders: Sequence[Path], origin: Origin) -> None:
    """Refuse modules that were imported from elsewhere if a folder has some of their names."""
    for module in sorted({each.partition(".")[0] for each in origin.modules}):
        loaded = getattr(sys.modules.get(module), "__file__", None)
        here = PathFinder.find_spec(module, [*map(str, folders)])
        if loaded and here is not None and here.origin and os.path.realpath(here.origin) != os.path.realpath(loaded):
            raise UserError(
                f"{name}: another {module} was imported before, from {loaded}: run the experiment in a new process"
            )


def get_name(factory: Factory) -> str:
    """Return the name of a function."""
    return str(getattr(factory, "__name__", type(factory).__name__))


class ExternalRuns:
    """Runs of a policy from outside on a problem."""

    def __init__(self, factory: Factory, problem: Problem, times: Ints) -> None:
        self.factory, self.problem, self.times = factory, problem, times
        self.population = problem.population
        self.rows = problem.rows(masked=self.population is None)
        self.starts = self.rows.starts.tolist()
        self.chosen = problem.chosen if isinstance(problem, Log) else None
        self.last: ExternalPolicy | None = None

    def run(
        self,
        seeds: np.random.SeedSequence,
        delay: Callable[[np.random.Generator], int | None],
        report: Callable[[int], None],
        results: tuple[Floats, Ints, Ints, Ints],
        world: Sequence[np.random.Generator] = (),
    ) -> int:
        """Play one run, write to ``results``, and report the number of steps now and then; return that of switches.

        ``world`` has the random numbers of each arm of a paired world; of a log, those of its rows.
        """
        for_policy, for_world = (np.random.default_rng(each) for each in seeds.spawn(2))
        generators = list(world) or [for_world]
        generators *= 1 if len(generators) == self.problem.arms else self.problem.arms
        policy = self._build_fresh(for_policy)
        regret, pulls, suboptimal, over_time = results
        under_way: dict[int, list[tuple[int, float, RandomizedResponse | None]]] = defaultdict(list)
        following, total, row, switches, last = 0, 0.0, 0, 0, None
        for step in range(self.problem.horizon):
            for sent in under_way.pop(step, ()):
                self._observe(policy, *sent)
            row += step == self.starts[row + 1]
            arm = self._choose(policy)
            if self.chosen is None or arm == self.chosen[step]:
                column = arm if self.chosen is None else 0
                feedback, mask = self._draw_feedback(generators[arm], arm, float(self.rows.seen[row, column]))
                late = delay(generators[arm])
                if late is not None:
                    under_way[step + 1 + late].append((arm, feedback, mask))
                switches += last not in (None, arm)
                last = arm
                pulls[arm] += 1
                suboptimal[arm] += self.rows.worse[row, column]
                total += self.rows.lost[row, column]
            elif world:
                self._draw_feedback(generators[arm], arm, 0.0)  # so that a row has the same reward for all policies
            if following < self.times.size and step + 1 == self.times[following]:
                regret[following] = total
                over_time[following] += pulls
                following += 1
            if step % PROGRESS_STEPS == 0:
                report(step)
        report(self.problem.horizon)
        return switches

    def _draw_feedback(
        self, world: np.random.Generator, arm: int, seen: float
    ) -> tuple[float, RandomizedResponse | None]:
        """Draw the feedback of a pull, and the mask of the person who sends it if people have their own."""
        if self.population is None:
            return self.problem.feedback(world, arm, seen), None
        mask = self.population.draw(world)
        return float(world.random() < mask(seen)), mask

    def _build_fresh(self, generator: np.random.Generator) -> ExternalPolicy:
        """Build a policy, and refuse one that was used before."""
        policy = build_policy(self.factory, self.problem, generator)
        if policy is self.last:
            raise UserError(f"{get_name(self.factory)} made the same object for two runs: make a fresh one for each")
        self.last = policy
        self.takes_masks = self.population is not None and "corruption" in list_parameters(policy.observe, first=0)
        return policy

    def _choose(self, policy: ExternalPolicy) -> int:
        """Return the arm that the policy chooses, checked."""
        try:
            arm = policy.choose()
        except Exception as error:
            raise describe_failure(f"{get_name(self.factory)}: choose()", error) from error
        try:
            index = -1 if isinstance(arm, bool) else operator.index(arm)
        except TypeError:
            index = -1
        if not 0 <= index < self.problem.arms:
            expected = f"a whole number from 0 to {self.problem.arms - 1}"
            raise UserError(f"{get_name(self.factory)}: choose() returned {abbreviate(arm)}: expected {expected}")
        return index

    def _observe(
        self, policy: ExternalPolicy, arm: int, feedback: float, mask: RandomizedResponse | None = None
    ) -> None:
        """Pass feedback to the policy, with the mask of the report if it takes one."""
        try:
            if mask is not None and self.takes_masks:
                cast("Any", policy).observe(arm, feedback, corruption=mask)
            else:
                policy.observe(arm, feedback)
        except Exception as error:
            raise describe_failure(f"{get_name(self.factory)}: observe({arm}, {feedback:g})", error) from error
