"""`maskedbandits plan`: which epsilon to choose, simulated before anything begins."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from maskedbandits import extras
from maskedbandits.cli.audit import Slow
from maskedbandits.cli.output import WIDTH, echo, echo_json
from maskedbandits.cli.report import drawing
from maskedbandits.cli.run import prepared
from maskedbandits.cli.verb import Failure, Verb, as_json

if TYPE_CHECKING:
    from maskedbandits.planner import Plan


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits plan --arms 5 --horizon 200000 --changes 4 --gap 0.1 --base-rate 0.3",
        "maskedbandits plan --arms 2 --horizon 50000 --changes 0 --gap 0.05 --base-rate 0.1 --epsilon 1 --epsilon 3",
    ],
)
@click.option("--arms", type=int, required=True, help="How many options there are to choose from.")
@click.option("--horizon", type=int, required=True, help="The audience: how many people will be shown something.")
@click.option("--changes", type=int, required=True, help="How often another option becomes the best; 0 for never.")
@click.option("--gap", type=float, required=True, help="By how much the best option is ahead, such as 0.1.")
@click.option("--base-rate", type=float, required=True, help="How often all others succeed, such as 0.3.")
@click.option(
    "--epsilon",
    type=float,
    multiple=True,
    help="Privacy of a report; may be given several times. No privacy is always added.  [default: 0.5, 1, 2, 4]",
)
@click.option("--policy", default="auto", show_default=True, help="The policy that chooses.")
@click.option(
    "--tolerance",
    type=float,
    default=0.1,
    show_default=True,
    help="The share of what learning gains that privacy may cost, for the advice.",
)
@click.option("--worlds", type=int, help="How many worlds to simulate.  [default: what takes some seconds]")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed that worlds are drawn from.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("results/plan"),
    show_default=True,
    help="Folder for the figure.",
)
@as_json
def plan(
    arms: int,
    horizon: int,
    changes: int,
    gap: float,
    base_rate: float,
    epsilon: tuple[float, ...],
    policy: str,
    tolerance: float,
    worlds: int | None,
    seed: int,
    out: Path,
    json_wanted: bool,
) -> None:
    """Simulate a choice before it begins, to choose its epsilon.

    Prints for each epsilon how many successes it costs, against the best choice and against no privacy; how soon a
    change is followed; from which audience on it pays; what a report says about a person; and which epsilon to take.
    Draws a figure of it.
    """
    from maskedbandits import planner
    from maskedbandits.planner.question import EPSILONS

    drawable = not extras.missing()
    if drawable:
        prepared(out)
    watch = Slow()
    try:
        made = planner.plan(
            arms,
            horizon,
            changes,
            gap,
            base_rate,
            epsilon or EPSILONS,
            policy,
            tolerance=tolerance,
            worlds=worlds,
            seed=seed,
            progress=watch,
        )
    finally:
        watch.end()
    show(made, out if drawable else None, json_wanted)


def show(made: Plan, folder: Path | None, json_wanted: bool) -> None:
    """Print the plan and draw its figure; whatever keeps it from being drawn keeps nobody from the numbers."""
    from maskedbandits.planner import words

    if not json_wanted:
        width = shutil.get_terminal_size((WIDTH, 24)).columns
        for line in words.lines(made, width, getattr(sys.stdout, "encoding", None) or "utf-8"):
            echo(line)
        echo()
    try:
        figures = [] if folder is None else drawn(made, folder)
    except Failure:
        if json_wanted:
            echo_json({**words.as_json(made), "figures": []})
        raise
    if json_wanted:
        echo_json({**words.as_json(made), "figures": figures})
    elif folder is None:
        echo(f"No figure: {' and '.join(extras.missing())} missing: pip install 'maskedbandits[experiments]'")
    else:
        echo(f"Figure: {' and '.join(figures)}")


def drawn(made: Plan, folder: Path) -> list[str]:
    """Draw the figure, and return where it is."""
    from maskedbandits.report import plan as picture

    with drawing("the same command draws it again"):
        return [str(path) for path in picture.write(made, folder)]
