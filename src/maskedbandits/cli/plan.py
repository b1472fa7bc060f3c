"""`maskedbandits plan`: which epsilon to choose, simulated before anything begins."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from maskedbandits._util import extras
from maskedbandits.cli.audit import Slow
from maskedbandits.cli.output import WIDTH, echo, echo_json
from maskedbandits.cli.report import drawing
from maskedbandits.cli.run import prepared
from maskedbandits.cli.verb import Failure, Verb, as_json
from maskedbandits.errors import UserError

if TYPE_CHECKING:
    from maskedbandits.planner import Plan


class Asked(NamedTuple):
    """What a person has to say: in words, and what is proposed to who does not know."""

    words: str
    proposed: float


ASKED = {
    "arms": Asked("How many options there are to choose from", 5),
    "horizon": Asked("The audience: how many people will be shown something", 200_000),
    "changes": Asked("How often another option becomes the best; 0 for never", 4),
    "gap": Asked("By how much the best option is ahead, such as 0.1", 0.1),
    "base_rate": Asked("How often all others succeed, such as 0.3", 0.3),
}


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits plan --arms 5 --horizon 200000 --changes 4 --gap 0.1 --base-rate 0.3",
        "maskedbandits plan --arms 2 --horizon 50000 --changes 0 --gap 0.05 --base-rate 0.1 --epsilon 1 --epsilon 3",
        "maskedbandits plan --interactive",
    ],
)
@click.option("--arms", type=int, help=f"{ASKED['arms'].words}.")
@click.option("--horizon", type=int, help=f"{ASKED['horizon'].words}.")
@click.option("--changes", type=int, help=f"{ASKED['changes'].words}.")
@click.option("--gap", type=float, help=f"{ASKED['gap'].words}.")
@click.option("--base-rate", type=float, help=f"{ASKED['base_rate'].words}.")
@click.option("--interactive", is_flag=True, help="Ask for what of these is not given.")
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
    interactive: bool,
    epsilon: tuple[float, ...],
    policy: str,
    tolerance: float,
    worlds: int | None,
    seed: int,
    out: Path,
    json_wanted: bool,
    **given: float | None,
) -> None:
    """Simulate a choice before it begins, to choose its epsilon.

    Prints for each epsilon how many successes it costs, against the best choice and against no privacy; how soon a
    change is followed; from which audience on it pays; what a report says about a person; and which epsilon to take.
    Draws a figure of it.
    """
    known = known_of(given, interactive)
    from maskedbandits import planner
    from maskedbandits.planner.inputs import EPSILONS

    drawable = not extras.missing()
    if drawable:
        prepared(out)
    watch = Slow()
    try:
        made = planner.plan(
            **known,
            epsilons=epsilon or EPSILONS,
            policy=policy,
            tolerance=tolerance,
            worlds=worlds,
            seed=seed,
            progress=watch,
        )
    finally:
        watch.end()
    show(made, out if drawable else None, json_wanted)


def known_of(given: dict[str, float | None], interactive: bool) -> dict[str, Any]:
    """Return what a person has said; the rest is asked for, if that is wanted."""
    options = {name: f"--{name.replace('_', '-')}" for name in ASKED}
    missing = [options[name] for name in ASKED if given[name] is None]
    if missing and not interactive:
        raise click.UsageError(f"Missing option '{missing[0]}'; --interactive asks for what is not given.")
    if missing and not at_terminal():
        raise UserError(f"--interactive asks at a terminal, and there is none: give {', '.join(missing)}")
    known: dict[str, Any] = {}
    for name in ASKED:
        value = given[name]
        known[name] = answer(name, known) if value is None else value
    if missing:
        said = " ".join(f"{option} {known[name]}" for name, option in options.items())
        click.echo(f"Without questions: maskedbandits plan {said}\n", err=True)
    return known


def at_terminal() -> bool:
    """Tell whether somebody is there to answer."""
    return sys.stdin.isatty()


def answer(name: str, known: dict[str, Any]) -> Any:
    """Ask for a number until it can be used; the question goes to standard error, where no program reads on."""
    limits: dict[str, click.IntRange | click.FloatRange] = {
        "arms": click.IntRange(2),
        "horizon": click.IntRange(known.get("arms")),
        "changes": click.IntRange(0, known.get("horizon", 1) - 1),
        "gap": click.FloatRange(0.0001, 1.0),
        "base_rate": click.FloatRange(0.0, round(1.0 - known.get("gap", 0.0), 10)),
    }
    least, most = limits[name].min, limits[name].max
    proposed = max(ASKED[name].proposed, least or 0)
    proposed = proposed if most is None else min(proposed, most)
    try:
        return click.prompt(ASKED[name].words, default=proposed, type=limits[name], err=True)
    except click.Abort:
        raise KeyboardInterrupt from None


def show(made: Plan, folder: Path | None, json_wanted: bool) -> None:
    """Print the plan and draw its figure; whatever keeps it from being drawn keeps nobody from the numbers."""
    from maskedbandits.planner import text

    if not json_wanted:
        width = shutil.get_terminal_size((WIDTH, 24)).columns
        for line in text.lines(made, width, getattr(sys.stdout, "encoding", None) or "utf-8"):
            echo(line)
        echo()
    try:
        figures = [] if folder is None else drawn(made, folder)
    except Failure:
        if json_wanted:
            echo_json({**text.as_json(made), "figures": []})
        raise
    if json_wanted:
        echo_json({**text.as_json(made), "figures": figures})
    elif folder is None:
        echo(f"No figure: {' and '.join(extras.missing())} missing: pip install 'maskedbandits[experiments]'")
    else:
        echo(f"Figure: {' and '.join(figures)}")


def drawn(made: Plan, folder: Path) -> list[str]:
    """Draw the figure, and return where it is."""
    from maskedbandits.report.plots import plan as picture

    with drawing("the same command draws it again"):
        return [str(path) for path in picture.write(made, folder)]
