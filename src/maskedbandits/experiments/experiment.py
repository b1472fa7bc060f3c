"""Experiments from Python: the engine, the cache and the numbers of ``maskedbandits run``."""

from __future__ import annotations

import os
import shlex
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from maskedbandits._util.files import write_whole
from maskedbandits._util.progress import Progress, show_progress
from maskedbandits.errors import UserError, WrongValueError, check_int, check_line
from maskedbandits.experiments import backends, config, own_files, results, runner
from maskedbandits.experiments.config import ExperimentConfig
from maskedbandits.experiments.document import build_document, format_document, format_entries
from maskedbandits.experiments.results import Cell, Label, Results
from maskedbandits.problems import ContextualProblem, Problem

PYTHON = "Experiment"  # in place of the name of a file
BACKENDS = ("threads", "processes", "ray")
MAX_WORKERS = 1 << 16
STORED_FILE = "experiment.toml"  # the text of an experiment made in Python, in its results folder


class Experiment:
    """Problems, epsilons and policies, of which every combination is a cell that is played ``runs`` times.

    An experiment from Python gives the numbers of the same experiment in a file (``maskedbandits run``).

    Parameters
    ----------
    problems : Problem, ContextualProblem, dict, or several in a list or dict
        What to play. A dict of the keys of a ``[[problems]]`` table does as well, such as ``{"generator": "sinusoid",
        "arms": 5, "horizon": 1000}``. A dict of problems names them.
    policies : str, tuple, dict, or several in a list or dict
        Names, or pairs of a name and parameters such as ``("sw-klucb-cf", {"window": "paper"})``, or dicts of the keys
        of a ``[[policies]]`` table. A dict of policies labels them. Your own policy is a name that you have registered
        (``register_policy``), or ``"module:name"``.
    epsilons : float or sequence of float, optional
        An epsilon for each condition of a problem, in place of its own corruption; infinity is no privacy. By default
        each ``Problem`` keeps its own.
    runs : int, default 100
        Runs of each cell.
    seed : int, default 0
        The seed that all seeds are derived from.
    checkpoints : int or sequence of int, default 200
        How many checkpoints, evenly spaced, or their times.
    title : str, default "experiment"
        The heading of the report.

    Attributes
    ----------
    title : str
        The heading of the report.
    source : str
        The experiment as the text of a TOML file.
    config : ExperimentConfig
        The checked experiment: its conditions and cells.

    Raises
    ------
    UserError
        If a value is out of range, or a policy does not fit a problem. Nothing is played or compiled then.

    Examples
    --------
    >>> import maskedbandits as mb
    >>> problem = mb.Problem([0.9, 0.4], [0], 100, mb.RandomizedResponse(0.9, 0.9))
    >>> experiment = mb.Experiment({"easy": problem}, ["oracle", "uniform"], runs=3)
    >>> experiment
    <Experiment 'experiment': 1 problem x 2 policies, 2 cells of 3 runs>
    >>> results = experiment.run()
    >>> results.summary()["easy", None, "oracle"].mean
    0.0

    """

    def __init__(
        self,
        problems: Problem | ContextualProblem | Mapping[str, Any] | Sequence[Any],
        policies: str | Mapping[str, Any] | Sequence[Any],
        *,
        epsilons: float | Sequence[float] | None = None,
        runs: int = 100,
        seed: int = 0,
        checkpoints: int | Sequence[int] = 200,
        title: str = "experiment",
    ) -> None:
        top = {"title": check_line("title", title), "runs": runs, "seed": seed, "checkpoints": checkpoints}
        source = format_document(build_document(problems, policies, epsilons, **top))
        self.config = config.parse(PYTHON, source, title=title, base=Path.cwd())
        self._given: dict[str, int] = {}  # values in place of the file's

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, runs: int | None = None, seed: int | None = None) -> Self:
        """Read an experiment file.

        Parameters
        ----------
        path : str or path
            The TOML file.
        runs, seed : int, optional
            Values in place of the file's.

        Returns
        -------
        Experiment
            The experiment, checked.

        Raises
        ------
        UserError
            If the file cannot be read, or a value in it cannot be used.

        """
        experiment = cls.__new__(cls)
        experiment.config = config.load(path, runs=runs, seed=seed)
        experiment._given = {key: value for key, value in (("runs", runs), ("seed", seed)) if value is not None}
        return experiment

    def __repr__(self) -> str:
        problems = len({each.name for each in self.config.conditions})
        epsilons = len({each.epsilon for each in self.config.conditions} - {None})
        policies = len({task.label for task in self.config.tasks})
        sizes = [(problems, "problem", "problems"), (epsilons, "epsilon", "epsilons"), (policies, "policy", "policies")]
        shape = " x ".join(f"{count} {one if count == 1 else many}" for count, one, many in sizes if count)
        cells, runs = len(self.config.tasks), self.config.runs
        size = f"{cells:,} {'cell' if cells == 1 else 'cells'} of {runs:,} {'run' if runs == 1 else 'runs'}"
        return f"<Experiment {self.title!r}: {shape}, {size}>"

    @property
    def title(self) -> str:
        """The heading of the report."""
        return self.config.title

    @property
    def source(self) -> str:
        """The experiment as the text of a TOML file, with the runs and the seed that were given to `load`."""
        if not self._given:
            return self.config.source
        return format_document(tomllib.loads(self.config.source) | self._given)

    def save_toml(self, path: str | os.PathLike[str]) -> None:
        """Write the experiment as a file for ``maskedbandits run``.

        Parameters
        ----------
        path : str or path
            The TOML file. If your CSV files or modules are in another folder, the file names that folder in full. So it
            runs from anywhere, until they are moved.

        Raises
        ------
        UserError
            If the file cannot be written.

        """
        try:
            write_whole(Path(path), lambda stream: stream.write(self._format_for(Path(path)).encode()))
        except OSError as error:
            why = str(error.strerror).partition(";")[0]
            raise UserError(f"{path}: cannot be written: {why}: give a file in an existing folder") from None

    def _format_for(self, file: Path) -> str:
        """Return the text of a file that finds the experiment's own CSV files and modules from its place."""
        now = self.config
        document = tomllib.loads(self.source)
        complete = own_files.complete_document(document, now.tasks, now.folders, file.absolute().parent)
        added = {key: value for key, value in complete.items() if key not in document}
        if {**document, **added} == complete:  # the text stays as it was written, comments included
            return "".join(f"{line}\n" for line in format_entries(added)) + self.source
        return format_document(complete)

    def run(
        self,
        out: str | os.PathLike[str] | None = None,
        runs: int | None = None,
        *,
        seed: int | None = None,
        backend: str = "threads",
        workers: int | None = None,
        fresh: bool = False,
        progress: Progress | bool | None = None,
    ) -> Results:
        """Play all cells, and return their results.

        Parameters
        ----------
        out : str or path, optional
            Folder for the results, such as ``results/paper``. Its finished cells and runs are reused, also those of
            ``maskedbandits run``, and ``maskedbandits report`` draws it. By default nothing is written.
        runs, seed : int, optional
            Values in place of the experiment's.
        backend : {"threads", "processes", "ray"}, default "threads"
            Where to play. The numbers do not depend on it.
        workers : int, optional
            Number of threads or processes, by default one for each core. The numbers do not depend on it.
        fresh : bool, default False
            Play finished cells again.
        progress : callable or bool, optional
            Called with the steps done and the total. True draws a bar, False does not. By default a bar is drawn in a
            terminal and a line in a notebook.

        Returns
        -------
        Results
            The results of all cells. After an interrupt, the same call with ``out`` continues.

        Raises
        ------
        UserError
            If a value is out of range, or a policy fails.

        Examples
        --------
        >>> import maskedbandits as mb
        >>> problem = mb.Problem([0.9, 0.4], [0], 100, mb.RandomizedResponse(0.9, 0.9))
        >>> results = mb.Experiment(problem, "oracle", epsilons=[1, 2], runs=2).run()
        >>> [cell.label.setting for cell in results.cells]
        ['ε = 1', 'ε = 2']

        """
        chosen = check_backend(backend, workers)
        given = {**self._given, **{key: value for key, value in (("runs", runs), ("seed", seed)) if value is not None}}
        played = self.config if given == self._given else self._replace(given)
        with tempfile.TemporaryDirectory(prefix="maskedbandits-") as scratch, show_progress(progress) as show:
            folder = Path(scratch) if out is None else Path(out)
            return runner.run(
                played,
                folder,
                StepsWatcher(show),
                command=self._store_command(out, given),
                fresh=fresh,
                backend=chosen,
            )

    def _replace(self, given: Mapping[str, int]) -> ExperimentConfig:
        """Return the checked experiment with other runs or another seed."""
        now = self.config
        sizes = {"runs": now.runs, "seed": now.seed, **given}
        return config.parse(now.file, now.source, title=now.title, base=now.base, **sizes)

    def _store_command(self, out: str | os.PathLike[str] | None, given: Mapping[str, int]) -> str:
        """Return the command that makes the same results; store an experiment made in Python for it."""
        file, folder = Path(self.config.file), None if out is None else Path(out)
        if self.config.file == PYTHON:
            file = (folder or Path()) / STORED_FILE
            if folder is not None:
                self._store(file)
        return format_command(file, folder, given.get("runs"), given.get("seed"))

    def _store(self, file: Path) -> None:
        """Store the experiment in its results folder; another experiment there is not overwritten."""
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            text = self._format_for(file)
            other = file.read_text(encoding="utf-8") if file.exists() else text
        except (OSError, UnicodeDecodeError):
            raise UserError(f"{file.parent}: cannot hold results: give another folder") from None
        if other != text and not (file.parent / "results.json").exists():
            raise UserError(f"{file}: another experiment, and no results of this one: give another folder")
        self.save_toml(file)


class StepsWatcher:
    """Passes the numbers of steps to a function."""

    def __init__(self, show: Progress) -> None:
        self.show = show

    def start(self, cells: int, reused: int) -> None:
        """Take the number of cells, and of those that are finished already."""

    def begin(self, number: int, label: Label) -> None:
        """Take the first cell of a load."""

    def steps(self, done: int, total: int) -> None:
        """Pass on the number of steps done, and of all."""
        self.show(done, total)

    def end(self, number: int, cell: Cell) -> None:
        """Take a finished cell."""


def check_backend(name: str, workers: int | None) -> backends.Backend:
    """Return the backend with this name, after a check of both values."""
    if name not in BACKENDS:
        raise WrongValueError("backend", name, f"one of {', '.join(BACKENDS)}")
    if workers is not None:
        workers = check_int("workers", workers, 1, MAX_WORKERS)
    if name == "threads":
        return backends.open_backend(name, threads=workers)
    return backends.open_backend(name, workers=workers)


def load_results(folder: str | os.PathLike[str]) -> Results:
    """Load the results of an experiment.

    Parameters
    ----------
    folder : str or path
        The folder that ``maskedbandits run`` or `Experiment.run` has made.

    Returns
    -------
    Results
        The finished cells.

    Raises
    ------
    UserError
        If there are no results in the folder, or a file is damaged.

    Examples
    --------
    >>> import tempfile
    >>> import maskedbandits as mb
    >>> problem = mb.Problem([0.9, 0.4], [0], 100, mb.RandomizedResponse(0.9, 0.9))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = mb.Experiment({"easy": problem}, ["oracle", "uniform"], runs=3).run(folder)
    ...     again = mb.load_results(folder)
    >>> list(again.summary()) == list(results.summary())
    True

    """
    return results.load(folder)


def format_command(file: Path, out: Path | None, runs: int | None, seed: int | None) -> str:
    """Return the command that makes the same results again."""
    parts = ["maskedbandits", "run", path_to_text(file)]
    for option, value in (("--out", out), ("--runs", runs), ("--seed", seed)):
        if value is not None:
            parts += [option, path_to_text(value) if isinstance(value, Path) else str(value)]
    return shlex.join(parts)


def path_to_text(path: Path) -> str:
    """Return a path as text; bytes that the locale could not decode are decoded as UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")
