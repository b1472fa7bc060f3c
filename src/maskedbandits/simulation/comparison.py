"""Comparison of policies on one problem: a table, paired differences, and a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util import frames
from maskedbandits._util.curves import Band, check_band
from maskedbandits._util.intervals import mean_half_width
from maskedbandits.contextual import Contextual
from maskedbandits.errors import UserError, WrongValueError, check_number
from maskedbandits.features import Featured
from maskedbandits.policies import Policy
from maskedbandits.problems import ContextualProblem, FeaturedProblem, Problem
from maskedbandits.simulation.results import (
    Simulation,
    Summary,
    check_axes,
    new_axes,
    regret_format,
    render_html,
    table_heads,
)
from maskedbandits.simulation.simulator import get_label, prepare_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from maskedbandits._util.progress import Progress


DIFFERENCE = "minus the first (95 % CI)"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Mapping[str, Simulation]):
    """Results of several policies on one problem, by name, in the order in which you gave them.

    Run i of all policies has the same seed. Differences are taken run by run.

    Attributes
    ----------
    results : dict of str to Simulation
        The results by the names of the policies.

    Examples
    --------
    >>> from maskedbandits import Problem, RandomizedResponse, compare
    >>> problem = Problem([0.9, 0.4], [0], 100, RandomizedResponse(0.9, 0.9))
    >>> compared = compare(problem, ["oracle", "uniform"], runs=5)
    >>> list(compared), compared["oracle"].summary().mean
    (['oracle', 'uniform'], 0.0)

    """

    results: dict[str, Simulation]

    def __getitem__(self, name: str) -> Simulation:
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def summaries(self, level: float = 0.95) -> list[Summary]:
        """Return the summary of each policy.

        Parameters
        ----------
        level : float, default 0.95
            Level of the confidence intervals.

        Returns
        -------
        list of Summary
            One for each policy.

        """
        return [result.summary(level) for result in self.results.values()]

    def differences(self, level: float = 0.95) -> list[tuple[float, float, float]]:
        """Return how much more each policy loses than the first, run by run.

        Parameters
        ----------
        level : float, default 0.95
            Level of the confidence intervals.

        Returns
        -------
        list of tuple
            The mean difference of the regret at the last checkpoint, and the ends of its interval. The first has
            zeros.

        Raises
        ------
        UserError
            If the level is not between 0 and 1.

        Examples
        --------
        >>> from maskedbandits import Problem, RandomizedResponse, compare
        >>> problem = Problem([0.9, 0.4], [0], 100, RandomizedResponse(0.9, 0.9))
        >>> differences = compare(problem, ["oracle", "uniform"], runs=5).differences()
        >>> differences[0], differences[1][0] > 0
        ((0.0, 0.0, 0.0), True)

        """
        level = check_number("level", level, 0.0, 1.0, above=True, below=True)
        first, *_ = (result.regret[:, -1] for result in self.results.values())
        rows = []
        for result in self.results.values():
            paired = result.regret[:, -1] - first
            mean, half = float(paired.mean()), float(mean_half_width(paired, level))
            rows.append((mean, mean - half, mean + half))
        rows[0] = (0.0, 0.0, 0.0)
        return rows

    def __repr__(self) -> str:
        """Return the table as text."""
        summaries = self.summaries()
        show = regret_format(summaries)
        rows = [[*table_heads(0.95), DIFFERENCE]]
        rows += [[*one.cells(show), change] for one, change in zip(summaries, self._format_differences(), strict=True)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
        return "\n".join([summaries[0].size, *lines])

    def _repr_html_(self) -> str:
        return render_html(self.summaries(), (DIFFERENCE, self._format_differences()))

    def _format_differences(self) -> list[str]:
        """Return the differences to the first policy as text."""
        show = regret_format(self.summaries())
        rows = [f"{show(mean)} ({show(low)} to {show(high)})" for mean, low, high in self.differences()]
        return ["", *rows[1:]]

    def frame(self, library: str | None = None) -> Any:
        """Return the regret of all policies as one data frame with a row for each policy, run and checkpoint.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            The library of the frame. By default the first that is installed.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            The frame, with the columns of `Simulation.frame`.

        Raises
        ------
        UserError
            If the library is unknown or not installed.

        """
        tables = [result.columns() for result in self.results.values()]
        names = list(dict.fromkeys(name for table in tables for name in table))
        joined: dict[str, NDArray[Any]] = {}
        for name in names:
            parts = [table.get(name, np.full(table["run"].size, np.nan)) for table in tables]
            joined[name] = np.concatenate(parts)
        return frames.build_frame(joined, library)

    def to_xarray(self) -> Any:
        """Return the arrays of all policies as a labelled dataset of xarray.

        Returns
        -------
        xarray.Dataset
            The dataset of `Simulation.to_xarray` with one more dimension, ``policy``.

        Raises
        ------
        UserError
            If xarray is not installed.

        """
        xarray = frames.import_xarray()
        datasets = [result.to_xarray().drop_attrs() for result in self.results.values()]
        policies = xarray.DataArray(list(self.results), dims="policy", name="policy")
        return xarray.concat(datasets, dim=policies)

    def plot(self, ax: Axes | None = None, band: Band | None = "ci", level: float = 0.95, *, log: bool = False) -> Axes:
        """Plot the mean cumulative regret of all policies against time.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw. By default on a new figure.
        band : {"ci", "quantile", "std"} or None, default "ci"
            What to shade around each mean, as in `Simulation.plot`.
        level : float, default 0.95
            Level of the intervals, or the central share of the runs.
        log : bool, default False
            Whether time has a logarithmic scale.

        Returns
        -------
        matplotlib.axes.Axes
            The axes. Curves differ in dashes and markers, too, so they survive a greyscale print.

        Raises
        ------
        UserError
            If matplotlib is not installed, or a value is out of range.

        """
        level = check_band(band, level)
        axes = new_axes() if ax is None else check_axes(ax)
        for result in self.results.values():
            result.plot(axes, band, level, log=log)
        return axes


def compare(
    problem: Problem | ContextualProblem | FeaturedProblem,
    policies: Sequence[Any] | Mapping[str, Any],
    runs: int = 100,
    seed: int = 0,
    checkpoints: Any = 100,
    *,
    paired: bool = False,
    progress: Progress | bool | None = None,
    **options: Any,
) -> Comparison:
    """Play several policies on one problem, with the same seeds.

    Parameters
    ----------
    problem : Problem, ContextualProblem or FeaturedProblem
        The problem to play.
    policies : sequence or mapping
        Policies as `simulate` takes them: names, policies, or functions. A mapping gives them names of your own. A
        value may be a pair of a name and a dict of parameters, such as ``("sw-klucb-cf", {"window": "paper"})``.
    runs : int, default 100
        Number of runs of each policy.
    seed : int, default 0
        Seed of all runs.
    checkpoints : int or array_like, default 100
        Steps at which regret is recorded, or the number of evenly spaced ones.
    paired : bool, default False
        Whether the n-th pull of an arm has the same random numbers for all policies. Differences then vary less; the
        regret of each policy keeps its distribution.
    progress : callable or bool, optional
        As for `simulate`, over all policies together.
    **options
        Other arguments of `simulate`: ``delay``, ``lost``, ``expire_after``, ``first_run``, ``threads``, ``trace``.

    Returns
    -------
    Comparison
        The results by name. Print it for a table; ``.plot()`` draws one figure, ``.frame()`` returns one frame.

    Raises
    ------
    UserError
        If a policy does not fit the problem, or a value is out of range. Nothing is played then.

    Examples
    --------
    >>> from maskedbandits import Problem, RandomizedResponse, compare
    >>> problem = Problem([0.9, 0.4], [0], 100, RandomizedResponse(0.9, 0.9))
    >>> compared = compare(problem, {"best arm": "oracle", "random arm": "uniform"}, runs=3)
    >>> compared["best arm"].summary()
    best arm: regret 0.0 (95 % CI 0.0 to 0.0), median 0.0, 95th percentile 0.0

    """
    named = _name_policies(policies)
    for key in options:
        if key not in ("delay", "lost", "expire_after", "first_run", "threads", "trace"):
            raise UserError(f"compare has no argument {key!r}: give parameters with their policy, as ('name', {{...}})")
    ready = {}
    for name, (policy, parameters) in named.items():
        ready[name] = prepare_runs(
            problem, policy, runs, seed, checkpoints, label=name, paired=paired, parameters=parameters, **options
        )
    results: dict[str, Simulation] = {}
    for index, (name, play) in enumerate(ready.items()):
        results[name] = play(partial(progress_share, progress, index, len(ready)) if callable(progress) else progress)
    return Comparison(results)


def progress_share(progress: Progress, index: int, count: int, done: int, total: int) -> None:
    """Report the progress of one policy of several."""
    progress(index * total + done, count * total)


def _name_policies(policies: Sequence[Any] | Mapping[str, Any]) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return each policy and its parameters by a name of its own."""
    if isinstance(policies, str | Policy | Contextual | Featured) or not isinstance(policies, Sequence | Mapping):
        raise WrongValueError("policies", policies, "a list of policies, or a dict that names them")
    if not policies:
        raise UserError("policies is empty: give at least one policy")
    if isinstance(policies, Mapping):
        return {str(name): _read_policy(policy) for name, policy in policies.items()}
    named: dict[str, tuple[Any, dict[str, Any]]] = {}
    for each in policies:
        policy, parameters = _read_policy(each)
        name = _describe(policy, parameters)
        if name in named:
            raise UserError(f"two policies are called {name!r}: give a dict with a name of its own for each")
        named[name] = policy, parameters
    return named


def _read_policy(policy: Any) -> tuple[Any, dict[str, Any]]:
    """Return a policy and its parameters, which may come as a pair."""
    if isinstance(policy, tuple) and len(policy) == 2 and isinstance(policy[0], str) and isinstance(policy[1], Mapping):
        return policy[0], dict(policy[1])
    return policy, {}


def _describe(policy: Any, parameters: Mapping[str, Any]) -> str:
    """Return the name of a policy in the table."""
    name = get_label(policy)
    given = ", ".join(f"{key}={value}" for key, value in parameters.items())
    return f"{name} ({given})" if given else name
