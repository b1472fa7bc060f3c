"""Results of an experiment: finished cells, saved one by one and loaded again exactly.

A results folder holds

    results.json        the manifest: the TOML, the command, and the label of every cell
    cells/<key>.npz     one finished cell: its arrays and its specification
    parts/              finished runs of unfinished cells (``stored_runs.py``)

The key of a cell is a digest of its specification: everything that determines its numbers, and nothing else. So an
interrupted experiment continues where it stopped, and a cell with another specification is never mistaken for it.
Files are written atomically, and none needs pickle.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits._util.files import MAX_DESCRIPTION_BYTES, MAX_HEADER_BYTES, archive, refuse_more, unpacked_sizes
from maskedbandits._util.files import write_whole as write_whole
from maskedbandits._util.intervals import mean_half_width
from maskedbandits.errors import DAMAGED, UserError, abbreviate, check_number, suggest_nearest
from maskedbandits.experiments import validation
from maskedbandits.experiments.canonical_json import encode_canonical, to_plain
from maskedbandits.problems.problem import compute_variation, is_drift
from maskedbandits.simulation.results import Simulation, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from maskedbandits._util.curves import Band

FORMAT = 1
MANIFEST_FILE = "results.json"
MIN_COMPRESSED_BYTES = 1 << 18  # smaller cells are not worth packing
ARRAYS, OPTIONAL_ARRAYS = validation.ARRAYS, validation.OPTIONAL_ARRAYS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class CellName(NamedTuple):
    """The name of a cell in results: problem, epsilon (None for a mask of the problem's own) and policy."""

    problem: str
    epsilon: float | None
    policy: str


@dataclass(frozen=True)
class Label:
    """The names of a cell, which do not change its numbers.

    Parameters
    ----------
    key
        The cache key of the cell, which is the name of its file.
    problem, policy
        The names in tables and figures.
    epsilon
        The epsilon of the corruption; None if the problem has a mask of its own.
    window
        The rule that chose the window, if one did.
    published
        The regret in a publication, if the file names it.

    """

    key: str
    problem: str
    policy: str
    epsilon: float | None
    window: str | None = None
    published: float | None = None

    @property
    def name(self) -> CellName:
        """Return the name of the cell in results."""
        return CellName(self.problem, self.epsilon, self.policy)

    @property
    def setting(self) -> str:
        """The corruption, as in the title of a figure."""
        if self.epsilon is None:
            return "own mask"
        return "ε = ∞" if math.isinf(self.epsilon) else f"ε = {self.epsilon:g}"


@dataclass(frozen=True, eq=False)
class CellOutcome:
    """The numbers of one cell, and its specification.

    Parameters
    ----------
    spec
        All that determines the numbers, in plain values.
    times
        (C,) the checkpoints.
    regret
        (runs, C) cumulative pseudo-regret.
    pulls, suboptimal_pulls
        (runs, K) pulls of each arm, and those while another arm was better; (runs, G, K) with groups.
    seconds
        Wall time.
    pulls_over_time
        (C, K) cumulative pulls of all runs together; None in folders of earlier versions.
    kernel_seconds
        CPU time of the steps themselves; None in folders of earlier versions.
    group_regret
        (runs, C, G) regret of each group, on a problem with groups.

    """

    spec: dict[str, Any]
    times: Ints
    regret: Floats
    pulls: Ints
    suboptimal_pulls: Ints
    seconds: float
    pulls_over_time: Ints | None = None
    kernel_seconds: float | None = None
    group_regret: Floats | None = None

    @classmethod
    def join(cls, spec: dict[str, Any], parts: Sequence[Simulation]) -> CellOutcome:
        """Return the outcome of a cell from simulations of its runs, in their order."""
        by_group = [part.group_regret for part in parts if part.group_regret is not None]
        return cls(
            spec,
            parts[0].times,
            regret=np.concatenate([part.regret for part in parts]),
            pulls=np.concatenate([part.pulls for part in parts]),
            suboptimal_pulls=np.concatenate([part.suboptimal_pulls for part in parts]),
            seconds=sum(part.seconds for part in parts),
            pulls_over_time=np.sum([part.pulls_over_time for part in parts], axis=0),
            kernel_seconds=sum(part.kernel_seconds for part in parts),
            group_regret=np.concatenate(by_group) if by_group else None,
        )

    def simulation(self, policy: str) -> Simulation:
        """Return the numbers as a simulation, whose policy has this name in tables and plots."""
        shape = (self.times.size, *self.pulls.shape[1:])
        return Simulation(
            self.times,
            self.regret,
            self.pulls,
            self.suboptimal_pulls,
            np.zeros(shape, dtype=np.int64) if self.pulls_over_time is None else self.pulls_over_time,
            self.seconds,
            self.kernel_seconds or 0.0,
            self.group_regret,
            policy,
        )


@dataclass(frozen=True, eq=False)
class Cell:
    """One finished cell: a policy on a problem under one corruption."""

    label: Label
    outcome: CellOutcome

    @property
    def runs(self) -> int:
        """The number of runs."""
        return int(self.outcome.regret.shape[0])

    @property
    def horizon(self) -> int:
        """The number of steps of a run; on a log, of rows."""
        return int(self.outcome.spec["horizon"])

    @property
    def unit(self) -> str:
        """The unit of the horizon: steps, or rows of a log."""
        return "rows" if self.outcome.spec.get("record", [""])[0] == "log" else "steps"

    @property
    def changes(self) -> list[int]:
        """The times at which the means change."""
        return [int(start) for start in self.outcome.spec["starts"][1:]]

    @lockfree_cached_property
    def means(self) -> Floats:
        """The mean rewards, (segments, arms), or (segments, groups, arms)."""
        return np.array(self.outcome.spec["means"], dtype=np.float64)

    @property
    def flat_means(self) -> Floats:
        """The mean rewards, with all groups and arms of a segment in one row."""
        return self.means.reshape(len(self.means), -1)

    @property
    def arms(self) -> int:
        """The number of arms."""
        return int(self.means.shape[-1])

    @property
    def shares(self) -> list[float] | None:
        """The shares of the groups; None without groups."""
        shares: list[float] | None = self.outcome.spec.get("shares")
        return shares

    @property
    def chooses_by_group(self) -> bool:
        """Whether the policy chooses for each group; others play one arm for all people."""
        return self.shares is not None and bool(self.outcome.spec["parameters"]["context"])

    @lockfree_cached_property
    def final_group_regret(self) -> tuple[Floats, Floats]:
        """(G,) mean regret of each group at the horizon, and half the width of its 95 % interval."""
        last = np.asarray(self.outcome.group_regret)[:, -1]
        return np.asarray(last.mean(axis=0)), mean_half_width(last)

    @lockfree_cached_property
    def drifts(self) -> bool:
        """Whether the means drift rather than jump (``Problem.drifts``)."""
        return is_drift(self.flat_means)

    @property
    def variation(self) -> float:
        """The total variation of the means (``Problem.variation``)."""
        return compute_variation(self.flat_means)

    @property
    def window(self) -> int | str | None:
        """The window of the policy, if it has one; the word inf for an infinite one."""
        window: int | str | None = self.outcome.spec["parameters"].get("window")
        return window

    @lockfree_cached_property
    def mean(self) -> Floats:
        """Mean regret at each checkpoint."""
        return np.asarray(self.outcome.regret.mean(axis=0), dtype=np.float64)

    @lockfree_cached_property
    def half_width(self) -> Floats:
        """Half the width of the 95 % interval of the mean regret (Student's t); NaN with a single run."""
        return mean_half_width(self.outcome.regret)

    @property
    def suboptimal_share(self) -> float:
        """The share of pulls of another arm than the best; on a log, among the rows that were played."""
        return float(self.outcome.suboptimal_pulls.sum() / max(self.outcome.pulls.sum(), 1))

    @property
    def steps_per_second(self) -> float:
        """Simulated steps per second of wall time."""
        return self.runs * self.horizon / max(self.outcome.seconds, 1e-9)


@dataclass(frozen=True)
class Manifest:
    """The description of an experiment: enough to name every cell and to run it again.

    Parameters
    ----------
    title
        The heading of the report.
    version
        The version of maskedbandits.
    command
        The command that makes the same results.
    file, source
        The name of the experiment file, and its text.
    labels
        The label of every cell.
    provenance
        Versions, machine and commit; empty in folders of earlier versions.
    arms
        The names of arms by problem, where they have any.

    """

    title: str
    version: str
    command: str
    file: str
    source: str
    labels: tuple[Label, ...]
    provenance: dict[str, str] = field(default_factory=dict)
    arms: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Results:
    """The finished cells of an experiment.

    Attributes
    ----------
    manifest : Manifest
        The description of the experiment.
    cells : tuple of Cell
        The finished cells, in the order of the manifest's labels.

    Examples
    --------
    >>> import maskedbandits as mb
    >>> problem = mb.Problem([0.9, 0.4], [0], 100, mb.RandomizedResponse(0.9, 0.9))
    >>> results = mb.Experiment({"easy": problem}, {"best": "oracle", "random": "uniform"}, runs=2).run()
    >>> results.simulations["easy", None, "best"].regret.shape
    (2, 100)

    """

    manifest: Manifest
    cells: tuple[Cell, ...]

    @property
    def complete(self) -> bool:
        """Whether every cell is finished."""
        return len(self.cells) == len(self.manifest.labels)

    def __repr__(self) -> str:
        """Return the table as text."""
        from maskedbandits.experiments import results_table

        return results_table.format_results(self)

    def _repr_html_(self) -> str:
        from maskedbandits.experiments import results_table

        return results_table.render_results(self)

    @property
    def simulations(self) -> dict[CellName, Simulation]:
        """The numbers of each cell as a `Simulation`, by problem, epsilon and policy."""
        return {cell.label.name: cell.outcome.simulation(cell.label.policy) for cell in self.cells}

    def select(self, problem: str | None = None, epsilon: float | None = None, policy: str | None = None) -> Results:
        """Return some of the cells.

        Parameters
        ----------
        problem, policy : str, optional
            The name of a problem, and of a policy, as in the table.
        epsilon : float, optional
            An epsilon.

        Returns
        -------
        Results
            The cells to which all that is given applies.

        Raises
        ------
        UserError
            If there are none.

        Examples
        --------
        >>> import maskedbandits as mb
        >>> problem = mb.Problem([0.9, 0.4], [0], 100, mb.RandomizedResponse(0.9, 0.9))
        >>> results = mb.Experiment(problem, ["oracle", "uniform"], epsilons=[1, 2], runs=2).run()
        >>> len(results.select(epsilon=1, policy="oracle").cells)
        1

        """
        labels = self.manifest.labels
        for key, value in (("problem", problem), ("epsilon", epsilon), ("policy", policy)):
            if value is not None:
                known = dict.fromkeys(getattr(label.name, key) for label in labels)
                labels = tuple(label for label in labels if getattr(label.name, key) == value)
                if not labels:
                    raise UserError(f"no cell has {key} {value!r}{suggest_nearest(value, map(str, known))}")
        return Results(
            replace(self.manifest, labels=labels), tuple(cell for cell in self.cells if cell.label in labels)
        )

    def summary(self, level: float = 0.95) -> dict[CellName, Summary]:
        """Summarise the regret of each cell at the horizon.

        Parameters
        ----------
        level : float, default 0.95
            Level of the confidence intervals.

        Returns
        -------
        dict of CellName to Summary
            Mean, interval, median, 95th percentile and pulls, by problem, epsilon and policy.

        Raises
        ------
        UserError
            If the level is not between 0 and 1.

        """
        return {name: simulation.summary(level) for name, simulation in self.simulations.items()}

    def plot(self, band: Band | None = "ci", level: float = 0.95, *, log: bool = False) -> Figure:
        """Plot the mean cumulative regret of all policies, with a panel for each problem and epsilon.

        Parameters
        ----------
        band : {"ci", "quantile", "std"} or None, default "ci"
            What to shade around each mean, as in `Simulation.plot`.
        level : float, default 0.95
            Level of the intervals, or the central share of the runs.
        log : bool, default False
            Whether time has a logarithmic scale.

        Returns
        -------
        matplotlib.figure.Figure
            The figure. ``results.plot().savefig("regret.pdf")`` saves it.

        Raises
        ------
        UserError
            If matplotlib is not installed, a value is out of range, or there are more than 30 panels.

        Examples
        --------
        >>> import maskedbandits as mb
        >>> problem = mb.Problem([0.9, 0.4], [0], 100, mb.RandomizedResponse(0.9, 0.9))
        >>> results = mb.Experiment({"easy": problem}, "oracle", epsilons=[1, 2], runs=2).run()
        >>> [axes.get_title() for axes in results.plot().axes]
        ['easy, ε = 1', 'easy, ε = 2']

        """
        from maskedbandits.experiments import results_table

        return results_table.plot_results(self, band, level, log=log)

    def frame(self, library: str | None = None) -> Any:
        """Return one long table, a row for each run and checkpoint, as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            The library of the frame. By default the first that is installed.

        Returns
        -------
        DataFrame
            The columns are described in ``maskedbandits.experiments.dataframe``.

        Raises
        ------
        UserError
            If the library is unknown or not installed.

        """
        from maskedbandits.experiments import dataframe

        return dataframe.build_frame(self.cells, library)


def save_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest; the folder is made if it does not exist."""
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    facts = {"format": FORMAT, **to_plain(asdict(manifest))}
    text = json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(folder / MANIFEST_FILE, lambda stream: stream.write(text.encode()))


def save_outcome(folder: Path, key: str, outcome: CellOutcome, spec: str | None = None, place: str = "cells") -> None:
    """Write a finished cell, or some runs of one to another place.

    ``spec`` is the canonical JSON of its specification, if the caller has it.

    A power cut may damage the file: then the cell is played again. Waiting for the disk takes longer than playing a
    short cell. So does packing a small file, and regrets hardly get smaller.
    """
    spec = encode_canonical(outcome.spec) if spec is None else spec
    times = encode_canonical({"seconds": outcome.seconds, "kernel_seconds": outcome.kernel_seconds})
    facts = f'{{"format":{FORMAT},"question":{spec},{times[1:]}'
    arrays = {
        name: getattr(outcome, name) for name in (*ARRAYS, *OPTIONAL_ARRAYS) if getattr(outcome, name) is not None
    }
    stored = {"facts": np.array(facts), **arrays}
    path = folder / place / f"{key}.npz"
    if sum(array.nbytes for array in stored.values()) < MIN_COMPRESSED_BYTES:
        write_whole(path, lambda stream: stream.write(archive(stored)), lasting=False)
    else:
        write_whole(path, lambda stream: np.savez_compressed(stream, **stored), lasting=False)


def load_outcome(folder: Path, key: str, place: str = "cells") -> CellOutcome | None:
    """Return a finished cell, or None if there is none; raise an error for a damaged file."""
    path = folder / place / f"{key}.npz"
    try:
        # Opened here because numpy leaves a damaged file open.
        with path.open("rb") as stream:
            return _read_outcome(path, stream)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


def _read_outcome(path: Path, stream: IO[bytes]) -> CellOutcome:
    """Read and check a finished cell."""
    try:
        sizes = unpacked_sizes(stream)
        with np.load(stream, allow_pickle=False) as stored:
            refuse_more(sizes, ["facts"], MAX_DESCRIPTION_BYTES)
            facts = json.loads(str(stored["facts"]))
            _refuse_other_format(path, facts["format"])
            wanted = [*ARRAYS, *(name for name in OPTIONAL_ARRAYS if name in sizes)]
            refuse_more(sizes, wanted, validation.count_bytes(facts["question"]) + MAX_HEADER_BYTES)
            arrays = {name: stored[name] for name in wanted}
        seconds, spent = facts["seconds"], facts.get("kernel_seconds")
        validation.check_outcome(facts["question"], seconds, arrays)
        spent = None if spent is None else check_number("kernel_seconds", spent, 0.0)
        return CellOutcome(facts["question"], seconds=float(seconds), kernel_seconds=spent, **arrays)
    except ResultsFormatError:
        raise
    except DAMAGED as error:
        why = validation.describe_damage(error)
        raise UserError(f"{path}: damaged results file{why}; delete it and run again to replace it") from error


def _load_manifest(folder: Path) -> Manifest:
    """Read the manifest of a results folder."""
    path = folder / MANIFEST_FILE
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"{folder}: no results here; expected a folder that `maskedbandits run` has made") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        facts = json.loads(text.decode("utf-8"))
        _refuse_other_format(path, facts.pop("format"))
        validation.check_manifest(facts)
        labels = tuple(_parse_label(entry) for entry in facts.pop("labels"))
        return Manifest(labels=labels, **facts)
    except ResultsFormatError:
        raise
    except DAMAGED as error:
        why = validation.describe_damage(error)
        raise UserError(f"{path}: damaged results file{why}; run the experiment again to replace it") from error


class ResultsFormatError(UserError):
    """A file in the format of another version."""


def _refuse_other_format(path: Path, found: object) -> None:
    if found != FORMAT:
        raise ResultsFormatError(f"{path}: format {abbreviate(found)}, this version reads format {FORMAT}")


def _parse_label(entry: dict[str, Any]) -> Label:
    """Return a label from its JSON form."""
    epsilon = entry.pop("epsilon")
    return Label(epsilon=None if epsilon is None else float(epsilon), **entry)


def load(folder: str | os.PathLike[str]) -> Results:
    """Load a results folder.

    Parameters
    ----------
    folder
        The folder that ``maskedbandits run`` has made.

    Returns
    -------
    Results
        The manifest and the finished cells.

    Raises
    ------
    UserError
        If there are no results in the folder, or a file is damaged.

    """
    folder = Path(folder)
    manifest = _load_manifest(folder)
    cells = []
    for label in manifest.labels:
        outcome = load_outcome(folder, label.key)
        if outcome is not None:
            cells.append(Cell(label, outcome))
            _check_arm_names(folder / MANIFEST_FILE, manifest, cells[-1])
    return Results(manifest, tuple(cells))


def _check_arm_names(path: Path, manifest: Manifest, cell: Cell) -> None:
    """Raise an error if a cell has another number of arms than names."""
    names, arms = manifest.arms.get(cell.label.problem), cell.arms
    if names is not None and len(names) != arms:
        raise UserError(f"{path}: damaged results file: {len(names)} names for {arms} arms; run the experiment again")
