"""`maskedbandits bound`: windows and bounds, before anything is run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maskedbandits._util import extras, safe_text
from maskedbandits.cli.output import echo, echo_json, open_console
from maskedbandits.cli.verb import Verb, WholeNumber, json_option
from maskedbandits.errors import UserError

if TYPE_CHECKING:
    from maskedbandits.problems import Problem


class Numbers(click.ParamType[list[float]]):
    """A list of numbers separated by commas, such as 0.9,0.4."""

    name = "NUMBERS"

    def __init__(self, kind: type[int] | type[float]) -> None:
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[float]:
        """Return the numbers."""
        try:
            return [self.kind(part) for part in value.split(",")]
        except ValueError:
            expected = "whole numbers" if self.kind is int else "numbers"
            self.fail(f"expected {expected} separated by commas, got {value!r}", param, ctx)


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits bound --horizon 100000 --changes 4",
        "maskedbandits bound --horizon 100000 --means 0.9,0.4 --means 0.4,0.9 --epsilon 0.5",
        "maskedbandits bound experiments/paper.toml",
    ],
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--horizon", type=WholeNumber(1, 2**53), help="T, the number of steps.")
@click.option(
    "--changes", type=WholeNumber(1, 2**53), help="L, the number of stationary segments; 1 if nothing changes."
)
@click.option(
    "--means",
    type=Numbers(float),
    multiple=True,
    help="Mean rewards of the arms, such as 0.9,0.4. Repeat for each segment.",
)
@click.option(
    "--starts", type=Numbers(int), show_default="equal lengths", help="First steps of the segments, such as 0,5000."
)
@click.option("--epsilon", type=float, multiple=True, help="Epsilon of a report, or inf. May be repeated.")
@click.option("--window", type=WholeNumber(1, 2**53), help="Your own window, compared with the others.")
@json_option
def bound(
    file: Path | None,
    horizon: int | None,
    changes: int | None,
    means: tuple[list[float], ...],
    starts: list[int] | None,
    epsilon: tuple[float, ...],
    window: int | None,
    json_wanted: bool,
) -> None:
    """Print windows and regret bounds for SW-KLUCB-CF.

    --horizon and --changes give the windows. --means and --epsilon, or a TOML FILE of problems, also give bounds on
    the suboptimal pulls.
    """
    extras.require("bound")
    if file is not None:
        if horizon or changes or means or starts or epsilon:
            raise click.UsageError("give a FILE, or --horizon and the others, not both")
        show_bounds(read_settings(file), window, json_wanted)
    elif horizon is None:
        raise click.UsageError("give --horizon and --changes, or --horizon, --means and --epsilon, or a FILE")
    elif means:
        if changes not in (None, len(means)):
            raise click.UsageError(
                f"--changes {changes} but --means {len(means)} times: give --means once for each segment"
            )
        if not epsilon:
            raise click.UsageError("give --epsilon with --means, such as --epsilon 1 or --epsilon inf")
        show_bounds(build_settings(horizon, means, starts, epsilon), window, json_wanted)
    elif changes is None or starts or epsilon or window:
        raise click.UsageError("--horizon and --changes are required without --means")
    else:
        show_windows(horizon, changes, json_wanted)


Setting = tuple[str, float | None, "Problem"]  # the name of a problem, its epsilon, and the masked problem


def read_settings(file: Path) -> list[Setting]:
    """Return the problems of an experiment, at each of their epsilons."""
    from maskedbandits import experiments
    from maskedbandits.problems import Log

    conditions = experiments.load(file).conditions
    for condition in conditions:
        if condition.averaged_problem is not condition.problem:
            raise UserError(
                f"{file}: {safe_text.one_line(condition.name)} has groups, and bounds are for problems without groups"
            )
        if isinstance(condition.problem, Log):
            raise UserError(
                f"{file}: {safe_text.one_line(condition.name)} is a log, and bounds are for problems whose steps are "
                "all played"
            )
    return [(condition.name, condition.epsilon, condition.averaged_problem) for condition in conditions]


def build_settings(
    horizon: int, means: tuple[list[float], ...], starts: list[int] | None, epsilons: tuple[float, ...]
) -> list[Setting]:
    """Return the problem that the options describe, at each epsilon."""
    from maskedbandits.corruption import RandomizedResponse
    from maskedbandits.problems import Problem

    if starts is None:
        starts = [index * horizon // len(means) for index in range(len(means))]
    try:
        masks = [(epsilon, RandomizedResponse.from_epsilon(epsilon)) for epsilon in epsilons]
        return [("problem", epsilon, Problem(list(means), starts, horizon, mask)) for epsilon, mask in masks]
    except ValueError as error:
        raise UserError(str(error)) from error


def show_windows(horizon: int, changes: int, json_wanted: bool) -> None:
    """Print the windows that depend only on the horizon and the changes."""
    from maskedbandits.report import tables

    try:
        windows = tables.list_windows(horizon, changes)
    except ValueError as error:
        raise UserError(str(error)) from error
    if json_wanted:
        echo_json({"horizon": horizon, "changes": changes, "windows": windows})
    else:
        open_console().print(tables.build_windows_table(windows))


def show_bounds(settings: list[Setting], window: int | None, json_wanted: bool) -> None:
    """Print windows and bounds of each problem."""
    from maskedbandits.experiments.canonical_json import to_plain
    from maskedbandits.experiments.results import Label
    from maskedbandits.report import tables

    documents, out = [], open_console()
    for name, epsilon, problem in settings:
        try:
            bounds = tables.compute_bounds(problem, window)
        except ValueError as error:
            raise UserError(str(error)) from error
        if json_wanted:
            documents.append({"problem": name, "epsilon": to_plain(epsilon), **bounds})
        else:
            title = f"{name}, {Label('', name, '', epsilon).setting}"
            out.print(tables.build_bounds_table(title, bounds, out.encoding), "", sep="\n")
    if json_wanted:
        echo_json(documents)
    else:
        echo("Bounds are on the pulls of suboptimal arms, all arms together.")
        echo("The published bound can be exceeded; the corrected one is proved in docs/theory.md.")
