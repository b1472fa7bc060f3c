"""`maskedbandits bound`: windows and bounds, before anything is run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maskedbandits._util import extras, safe_text
from maskedbandits.cli.output import console, echo, echo_json
from maskedbandits.cli.verb import Verb, as_json
from maskedbandits.errors import UserError

if TYPE_CHECKING:
    from maskedbandits.problems import Problem


class Numbers(click.ParamType[list[float]]):
    """Numbers separated by commas, such as 0.9,0.4."""

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
@click.option("--horizon", type=click.IntRange(1, 2**53), help="T: how many steps.")
@click.option(
    "--changes", type=click.IntRange(1, 2**53), help="L: stationary segments; a world that never changes has 1."
)
@click.option(
    "--means",
    type=Numbers(float),
    multiple=True,
    help="Mean rewards of the arms, such as 0.9,0.4; once for each segment.",
)
@click.option("--starts", type=Numbers(int), help="Where segments start, such as 0,5000.  [default: equal lengths]")
@click.option("--epsilon", type=float, multiple=True, help="Privacy of a report, or inf; may be given several times.")
@click.option("--window", type=click.IntRange(1, 2**53), help="A window of your own, beside the others.")
@as_json
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
    """Print windows for SW-KLUCB-CF and bounds on its suboptimal pulls.

    Of --horizon and --changes the windows alone; of --means and --epsilon, or of the problems of a TOML FILE, the
    bounds too.
    """
    extras.need("bound")
    if file is not None:
        if horizon or changes or means or starts or epsilon:
            raise click.UsageError("give a FILE, or --horizon and the others, not both")
        show_bounds(settings_of_file(file), window, json_wanted)
    elif horizon is None:
        raise click.UsageError("give --horizon and --changes, or --horizon, --means and --epsilon, or a FILE")
    elif means:
        if changes not in (None, len(means)):
            raise click.UsageError(
                f"--changes {changes} but --means {len(means)} times: give --means once for each segment"
            )
        if not epsilon:
            raise click.UsageError("give --epsilon with --means, such as --epsilon 1 or --epsilon inf")
        show_bounds(settings_of_options(horizon, means, starts, epsilon), window, json_wanted)
    elif changes is None or starts or epsilon or window:
        raise click.UsageError("without --means there are windows alone: give --horizon and --changes")
    else:
        show_windows(horizon, changes, json_wanted)


Setting = tuple[str, float | None, "Problem"]  # a problem's name, the epsilon, and the problem seen through it


def settings_of_file(file: Path) -> list[Setting]:
    """Return the problems of an experiment, at each of their epsilons."""
    from maskedbandits import experiments
    from maskedbandits.problems import Log

    worlds = experiments.load(file).conditions
    for world in worlds:
        if world.alike is not world.problem:
            raise UserError(f"{file}: {safe_text.one_line(world.name)} has groups, and bounds are for problems without")
        if isinstance(world.problem, Log):
            raise UserError(
                f"{file}: {safe_text.one_line(world.name)} is a log, of which a policy plays some rows alone, and "
                "bounds are for problems that are played in full"
            )
    return [(world.name, world.epsilon, world.alike) for world in worlds]


def settings_of_options(
    horizon: int, means: tuple[list[float], ...], starts: list[int] | None, epsilons: tuple[float, ...]
) -> list[Setting]:
    """Return the problem that the options describe, at each epsilon."""
    from maskedbandits.corruption import RandomizedResponse
    from maskedbandits.problems import Problem

    if starts is None:
        starts = [place * horizon // len(means) for place in range(len(means))]
    try:
        masks = [(epsilon, RandomizedResponse.from_epsilon(epsilon)) for epsilon in epsilons]
        return [("problem", epsilon, Problem(list(means), starts, horizon, mask)) for epsilon, mask in masks]
    except ValueError as error:
        raise UserError(str(error)) from error


def show_windows(horizon: int, changes: int, json_wanted: bool) -> None:
    """Print the windows that need no problem."""
    from maskedbandits.report.plots import bounds

    try:
        windows = bounds.windows_of(horizon, changes)
    except ValueError as error:
        raise UserError(str(error)) from error
    if json_wanted:
        echo_json({"horizon": horizon, "changes": changes, "windows": windows})
    else:
        console().print(bounds.windows_table(windows))


def show_bounds(settings: list[Setting], window: int | None, json_wanted: bool) -> None:
    """Print windows and bounds of each problem."""
    from maskedbandits.experiments.canonical_json import plain
    from maskedbandits.experiments.results import Label
    from maskedbandits.report.plots import bounds

    documents, out = [], console()
    for name, epsilon, problem in settings:
        try:
            found = bounds.bounds_of(problem, window)
        except ValueError as error:
            raise UserError(str(error)) from error
        if json_wanted:
            documents.append({"problem": name, "epsilon": plain(epsilon), **found})
        else:
            title = f"{name}, {Label('', name, '', epsilon).setting}"
            out.print(bounds.bounds_table(title, found, out.encoding), "", sep="\n")
    if json_wanted:
        echo_json(documents)
    else:
        echo("Bounds are on the pulls of suboptimal arms, all arms together.")
        echo("The published bound can be exceeded; the corrected one is proved in docs/theory.md.")
