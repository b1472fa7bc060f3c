"""Results of simulations: regret and pulls run by run, their summary, tables and plots."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util import extras, frames
from maskedbandits._util.curves import Band, Look, check_band, compute_band, get_look, place_markers
from maskedbandits._util.intervals import mean_half_width
from maskedbandits._util.progress import format_speed
from maskedbandits.errors import UserError, WrongValueError, abbreviate, check_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE = "regret-curve"  # the id of curves, to count those that a figure has
LEGEND_HANDLE = 3.2  # ems, long enough to show the dashes


class RegretFormat:
    """Format regrets with the same number of digits: one after the point if all are below 1,000, otherwise none."""

    def __init__(self, values: Iterable[float]) -> None:
        largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
        self._digits = 1 if largest < 1000 else 0

    def __call__(self, value: float) -> str:
        """Return a regret as text; NaN is a dash."""
        return "–" if math.isnan(value) else f"{value:,.{self._digits}f}"


@dataclass(frozen=True, eq=False)
class Summary:
    """The regret at the last checkpoint over all runs, and the pulls of each arm.

    Attributes
    ----------
    policy : str
        Name of the policy.
    runs : int
        Number of runs.
    horizon : int
        Number of steps of a run.
    step : int
        Step of the regret: the last checkpoint, which is the horizon unless you chose checkpoints that end before it.
    mean : float
        Mean cumulative regret.
    interval : tuple of float
        Confidence interval of the mean (Student's t); NaN with a single run.
    level : float
        Level of the interval.
    median : float
        Median cumulative regret.
    percentile_95 : float
        95th percentile of the cumulative regret.
    pulls : ndarray, shape (K,)
        Mean pulls of each arm in a run; (G, K) for a problem with groups.

    Examples
    --------
    >>> from maskedbandits import Problem, RandomizedResponse, simulate
    >>> problem = Problem([0.9, 0.4], [0], 100, RandomizedResponse(0.9, 0.9))
    >>> summary = simulate(problem, "oracle", runs=3).summary()
    >>> summary.mean, summary.interval, summary.pulls.tolist()
    (0.0, (0.0, 0.0), [100.0, 0.0])

    """

    policy: str
    runs: int
    horizon: int
    step: int
    mean: float
    interval: tuple[float, float]
    level: float
    median: float
    percentile_95: float
    pulls: NDArray[np.float64]

    def __repr__(self) -> str:
        show = RegretFormat(self.numbers)
        low, high = map(show, self.interval)
        where = "" if self.step == self.horizon else f"at step {self.step:,} "
        return (
            f"{self.policy}: regret {where}{show(self.mean)} ({self.level * 100:g} % CI {low} to {high}), "
            f"median {show(self.median)}, 95th percentile {show(self.percentile_95)}"
        )

    @property
    def size(self) -> str:
        """The runs and steps in words, and the step of the regret if that is not the last."""
        end = "" if self.step == self.horizon else f", regret at step {self.step:,}"
        return f"{self.runs:,} {'run' if self.runs == 1 else 'runs'} of {self.horizon:,} steps{end}"

    @property
    def numbers(self) -> tuple[float, ...]:
        """All regrets of the summary."""
        return self.mean, *self.interval, self.median, self.percentile_95

    def cells(self, show: RegretFormat) -> list[str]:
        """Return the cells of a table: the name, mean, interval, median and 95th percentile."""
        low, high = map(show, self.interval)
        return [self.policy, show(self.mean), f"{low} to {high}", show(self.median), show(self.percentile_95)]


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """Results of a simulation, run by run.

    For a problem with groups, the last axis K of pulls becomes two axes, (G, K).

    Attributes
    ----------
    times : ndarray, shape (C,)
        Steps played at each checkpoint; for a log, rows read.
    regret : ndarray, shape (runs, C)
        Cumulative pseudo-regret at each checkpoint.
    pulls : ndarray, shape (runs, K)
        Pulls of each arm.
    suboptimal_pulls : ndarray, shape (runs, K)
        Pulls of each arm while another was better.
    pulls_over_time : ndarray, shape (C, K)
        Pulls up to each checkpoint, summed over all runs.
    seconds : float
        Wall-clock time of all runs.
    kernel_seconds : float
        CPU time of the steps themselves, summed over threads.
    group_regret : ndarray, shape (runs, C, G), or None
        Cumulative pseudo-regret of each group; None for a problem without groups.
    policy : str
        Name of the policy.
    run_pulls : ndarray, shape (runs, C, K), or None
        Pulls of each run up to each checkpoint; None without ``trace=True``.
    switches : ndarray, shape (runs,), or None
        Pulls of each run that were not of the arm before; None without ``trace=True``.

    Examples
    --------
    >>> from maskedbandits import Problem, RandomizedResponse, simulate
    >>> problem = Problem([0.9, 0.4], [0], 100, RandomizedResponse(0.9, 0.9))
    >>> class LastArm:
    ...     def choose(self):
    ...         return 1
    ...
    ...     def observe(self, arm, feedback):
    ...         pass
    >>> result = simulate(problem, lambda generator: LastArm(), runs=3, checkpoints=4)
    >>> result.times.tolist(), result.regret.shape
    ([25, 50, 75, 100], (3, 4))

    """

    times: NDArray[np.int64]
    regret: NDArray[np.float64]
    pulls: NDArray[np.int64]
    suboptimal_pulls: NDArray[np.int64]
    pulls_over_time: NDArray[np.int64]
    seconds: float
    kernel_seconds: float = 0.0
    group_regret: NDArray[np.float64] | None = None
    policy: str = ""
    run_pulls: NDArray[np.int64] | None = None
    switches: NDArray[np.int64] | None = None

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.regret)

    @property
    def horizon(self) -> int:
        """Number of steps of a run; for a log, rows read until the last checkpoint."""
        plays = self.pulls.reshape(len(self.pulls), -1).sum(axis=1).max()  # a log plays some of its rows
        return max(int(self.times[-1]), int(plays))

    def __repr__(self) -> str:
        shape = " groups x ".join(str(size) for size in self.pulls.shape[1:])
        speed = format_speed(self.runs * self.horizon / max(self.seconds, 1e-9))
        return "\n".join(
            [
                f"<Simulation: {self.runs:,} {'run' if self.runs == 1 else 'runs'} of {self.horizon:,} steps, "
                f"{shape} {'arm' if self.pulls.shape[-1] == 1 else 'arms'}",
                f" {self.summary()!r}",
                f" {self.seconds:.3g} s, {speed} steps/s; see .summary(), .frame(), .plot()>",
            ]
        )

    def _repr_html_(self) -> str:
        return render_html([self.summary()])

    def summary(self, level: float = 0.95) -> Summary:
        """Summarise the regret at the last checkpoint, which is the horizon unless you chose others.

        Parameters
        ----------
        level : float, default 0.95
            Level of the confidence interval of the mean.

        Returns
        -------
        Summary
            Mean, interval, median and 95th percentile of the regret, and the mean pulls of each arm.

        Raises
        ------
        UserError
            If the level is not between 0 and 1.

        Examples
        --------
        >>> from maskedbandits import Problem, RandomizedResponse, simulate
        >>> problem = Problem([0.9, 0.4], [0], 100, RandomizedResponse(0.9, 0.9))
        >>> simulate(problem, "oracle", runs=3).summary()
        oracle: regret 0.0 (95 % CI 0.0 to 0.0), median 0.0, 95th percentile 0.0

        """
        level = check_number("level", level, 0.0, 1.0, above=True, below=True)
        last = self.regret[:, -1]
        mean, half = float(last.mean()), float(mean_half_width(last, level))
        return Summary(
            policy=self.policy,
            runs=self.runs,
            horizon=self.horizon,
            step=int(self.times[-1]),
            mean=mean,
            interval=(mean - half, mean + half),
            level=level,
            median=float(np.median(last)),
            percentile_95=float(np.quantile(last, 0.95)),
            pulls=self.pulls.mean(axis=0),
        )

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return a row for each run and checkpoint, as the columns of `frame`.

        Returns
        -------
        dict
            The columns by name.

        """
        runs, checkpoints = self.regret.shape
        table: dict[str, NDArray[Any]] = {
            "policy": np.full(runs * checkpoints, self.policy, dtype=np.object_),
            "run": np.repeat(np.arange(runs), checkpoints),
            "checkpoint": np.tile(self.times, runs),
            "regret": self.regret.ravel(),
        }
        for group in range(0 if self.group_regret is None else self.group_regret.shape[2]):
            assert self.group_regret is not None  # noqa: S101 -- or it has no groups
            table[f"regret_group_{group}"] = self.group_regret[:, :, group].ravel()
        return table

    def frame(self, library: str | None = None) -> Any:
        """Return the regret as a data frame with a row for each run and checkpoint.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            The library of the frame. By default the first that is installed.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            The columns ``policy``, ``run``, ``checkpoint`` and ``regret``, and ``regret_group_0`` and so on for a
            problem with groups.

        Raises
        ------
        UserError
            If the library is unknown or not installed.

        Examples
        --------
        >>> from maskedbandits import Problem, RandomizedResponse, simulate
        >>> problem = Problem([0.9, 0.4], [0], 100, RandomizedResponse(0.9, 0.9))
        >>> simulate(problem, "oracle", runs=2, checkpoints=[50, 100]).frame("pandas").shape
        (4, 4)

        """
        return frames.build_frame(self.columns(), library)

    def to_xarray(self) -> Any:
        """Return all arrays as a labelled dataset of xarray.

        Returns
        -------
        xarray.Dataset
            The dimensions are ``run``, ``time``, ``arm``, and for a problem with groups ``group``. It has the variables
            ``regret``, ``pulls``, ``suboptimal_pulls`` and ``pulls_over_time``, and of the others those that are there.

        Raises
        ------
        UserError
            If xarray is not installed.

        Examples
        --------
        >>> from maskedbandits import Problem, RandomizedResponse, simulate
        >>> problem = Problem([0.9, 0.4], [0], 100, RandomizedResponse(0.9, 0.9))
        >>> dataset = simulate(problem, "oracle", runs=2, checkpoints=[50, 100]).to_xarray()
        >>> float(dataset.pulls.sel(run=0, arm=0))
        100.0

        """
        xarray = frames.import_xarray()
        people = ["arm"] if self.pulls.ndim == 2 else ["group", "arm"]
        variables = {
            "regret": ["run", "time"],
            "pulls": ["run", *people],
            "suboptimal_pulls": ["run", *people],
            "pulls_over_time": ["time", *people],
            "group_regret": ["run", "time", "group"],
            "run_pulls": ["run", "time", *people],
            "switches": ["run"],
        }
        found = {
            name: (axes, getattr(self, name)) for name, axes in variables.items() if getattr(self, name) is not None
        }
        sizes = zip(people, self.pulls.shape[1:], strict=True)
        numbers = {"run": np.arange(self.runs), **{axis: np.arange(size) for axis, size in sizes}}
        return xarray.Dataset(found, {"time": self.times, **numbers}, {"policy": self.policy, "seconds": self.seconds})

    def plot(
        self,
        ax: Axes | None = None,
        band: Band | None = "ci",
        level: float = 0.95,
        *,
        log: bool = False,
        label: str | None = None,
        **line: Any,
    ) -> Axes:
        """Plot the mean cumulative regret against time.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw. By default on a new figure.
        band : {"ci", "quantile", "std"} or None, default "ci"
            What to shade: the confidence interval of the mean, the central share ``level`` of the runs, or one
            standard deviation on either side.
        level : float, default 0.95
            Level of the interval, or the central share of the runs.
        log : bool, default False
            Whether time has a logarithmic scale.
        label : str, optional
            Name in the legend. By default the name of the policy.
        **line
            Options of matplotlib's ``plot``, such as ``color``, ``linestyle`` or ``marker``. By default curves on the
            same axes differ in all three, so they survive a greyscale print.

        Returns
        -------
        matplotlib.axes.Axes
            The axes, for changes of your own. ``result.plot().figure.savefig("regret.pdf")`` saves the figure.

        Raises
        ------
        UserError
            If matplotlib is not installed, or a value is out of range.

        Examples
        --------
        >>> from maskedbandits import Problem, RandomizedResponse, simulate
        >>> problem = Problem([0.9, 0.4], [0], 100, RandomizedResponse(0.9, 0.9))
        >>> simulate(problem, "oracle", runs=3).plot().get_ylabel()
        'cumulative regret'

        """
        level = check_band(band, level)
        low, mean, high = compute_band(self.regret, band, level)
        index = 0 if ax is None else sum(1 for one in check_axes(ax).lines if one.get_gid() == CURVE)
        options = complete_line(get_look(index), place_markers(index), line)
        axes = new_axes() if ax is None else ax
        [drawn] = axes.plot(self.times, mean, label=self.policy if label is None else label, **options)
        drawn.set_gid(CURVE)
        if band is not None:
            axes.fill_between(self.times, low, high, color=drawn.get_color(), alpha=0.2, linewidth=0)
        axes.set(xlabel="step", ylabel="cumulative regret")
        if log:
            axes.set_xscale("log")
        axes.legend(frameon=False, handlelength=LEGEND_HANDLE)
        return axes


def complete_line(look: Look, markevery: tuple[float, float], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a curve: the given ones, and the look where they leave it open."""
    extras.require("a plot", ["matplotlib"])
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    chosen = {"color": look.colour, "linestyle": look.linestyle, "marker": look.marker, "markevery": markevery}
    try:
        options = normalize_kwargs(dict(given), Line2D)
        Line2D([], [], **options)  # refuses options that it does not know
    except (AttributeError, TypeError, ValueError) as error:
        raise UserError(f"{', '.join(given)}: give options of matplotlib's plot: {error}") from error
    return {**chosen, "markersize": 5, **options}


def check_axes(ax: object) -> Axes:
    """Return the axes to draw on, or raise an error for anything else."""
    extras.require("a plot", ["matplotlib"])
    from matplotlib.axes import Axes

    if isinstance(ax, Axes):
        return ax
    remedy = f", or write band={abbreviate(ax)}" if isinstance(ax, str) else ""
    raise WrongValueError("ax", ax, f"one Axes of matplotlib to draw on{remedy}")


def new_axes() -> Axes:
    """Return the axes of a new figure; a notebook shows figures of pyplot."""
    extras.require("a plot", ["matplotlib"])
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def render_html(summaries: Sequence[Summary], extra: tuple[str, Sequence[str]] | None = None) -> str:
    """Return a table of summaries for a notebook, with an extra column."""
    first = summaries[0]
    heads = table_heads(first.level) + ([extra[0]] if extra else [])
    rows = [one.cells(regret_format(summaries)) for one in summaries]
    if extra:
        rows = [[*row, cell] for row, cell in zip(rows, extra[1], strict=True)]
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    caption = f"<caption>{first.size}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def table_heads(level: float) -> list[str]:
    """Return the heads of the columns of `Summary.cells`."""
    return ["policy", "mean regret", f"{level * 100:g} % CI", "median", "95th percentile"]


def regret_format(summaries: Sequence[Summary]) -> RegretFormat:
    """Return the format of all regrets in a table."""
    return RegretFormat(number for one in summaries for number in one.numbers)
