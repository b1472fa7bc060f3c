"""`maskedbandits plan`: simulations that help to choose epsilon."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from maskedbandits._util import extras
from maskedbandits.cli.output import (
    DEFAULT_WIDTH,
    SlowProgress,
    echo,
    echo_json,
    make_folder,
    translate_drawing_errors,
)
from maskedbandits.cli.verb import Failure, Number, Verb, WholeNumber, json_option
from maskedbandits.errors import UserError

if TYPE_CHECKING:
    from maskedbandits.planner import Plan


class Prompt(NamedTuple):
    """A question for an input: its text, and the proposed value."""

    text: str
    proposed: float


PROMPTS = {
    "arms": Prompt("Number of options to choose from", 5),
    "horizon": Prompt("Audience: number of people who will see an option", 200_000),
    "changes": Prompt("How often another option becomes the best; 0 for never", 4),
    "gap": Prompt("Lead of the best option, such as 0.1", 0.1),
    "base_rate": Prompt("Success rate of the other options, such as 0.3", 0.3),
}


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits plan --arms 5 --horizon 200000 --changes 4 --gap 0.1 --base-rate 0.3",
        "maskedbandits plan --arms 2 --horizon 50000 --changes 0 --gap 0.05 --base-rate 0.1 --epsilon 1 --epsilon 3",
        "maskedbandits plan --interactive",
    ],
)
@click.option("--arms", type=int, help=f"{PROMPTS['arms'].text}.")
@click.option("--horizon", type=int, help=f"{PROMPTS['horizon'].text}.")
@click.option("--changes", type=int, help=f"{PROMPTS['changes'].text}.")
@click.option("--gap", type=float, help=f"{PROMPTS['gap'].text}.")
@click.option("--base-rate", type=float, help=f"{PROMPTS['base_rate'].text}.")
@click.option("--interactive", is_flag=True, help="Ask for the missing ones of these.")
@click.option(
    "--epsilon",
    type=float,
    multiple=True,
    show_default="0.5, 1, 2, 4",
    help="Epsilon of a report. May be repeated. No privacy is always added.",
)
@click.option("--policy", default="auto", show_default=True, help="Policy that chooses.")
@click.option(
    "--tolerance",
    type=float,
    default=0.1,
    show_default=True,
    help="Share of the gain from learning that privacy may cost.",
)
@click.option("--worlds", type=int, show_default="as many as some seconds allow", help="Worlds to simulate.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the worlds.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("results/plan"),
    show_default=True,
    help="Folder for the figure.",
)
@json_option
def plan(
    interactive: bool,
    epsilon: tuple[float, ...],
    policy: str,
    tolerance: float,
    worlds: int | None,
    seed: int,
    out: Path,
    json_wanted: bool,
    **inputs: float | None,
) -> None:
    """Recommend an epsilon for your audience, from simulations.

    Prints the recommended epsilon first. Then, for each epsilon: the successes lost to privacy, how soon a change is
    followed, the audience from which it pays, and how much a report reveals. Draws a figure.
    """
    known = complete_inputs(inputs, interactive)
    from maskedbandits import planner
    from maskedbandits.planner.inputs import EPSILONS

    can_draw = not extras.list_missing()
    if can_draw:
        make_folder(out)
    progress = SlowProgress()
    try:
        result = planner.plan(
            **known,
            epsilons=epsilon or EPSILONS,
            policy=policy,
            tolerance=tolerance,
            worlds=worlds,
            seed=seed,
            progress=progress,
        )
    finally:
        progress.end()
    show(result, out if can_draw else None, json_wanted)


def complete_inputs(given: dict[str, float | None], interactive: bool) -> dict[str, Any]:
    """Return the inputs; missing ones are asked for in interactive mode."""
    options = {name: f"--{name.replace('_', '-')}" for name in PROMPTS}
    missing = [options[name] for name in PROMPTS if given[name] is None]
    if missing and not interactive:
        raise click.UsageError(f"Missing option '{missing[0]}'; --interactive asks for missing options.")
    if missing and not has_terminal():
        raise UserError(f"--interactive requires a terminal: give {', '.join(missing)}")
    known: dict[str, Any] = {}
    for name in PROMPTS:
        value = given[name]
        known[name] = ask(name, known) if value is None else value
    if missing:
        arguments = " ".join(f"{option} {known[name]}" for name, option in options.items())
        click.echo(f"To repeat this without questions: maskedbandits plan {arguments}\n", err=True)
    return known


def has_terminal() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin.isatty()


def ask(name: str, known: dict[str, Any]) -> Any:
    """Ask for a number until it is valid, on standard error to leave standard output to the plan."""
    limits: dict[str, WholeNumber | Number] = {
        "arms": WholeNumber(2),
        "horizon": WholeNumber(known.get("arms")),
        "changes": WholeNumber(0, known.get("horizon", 1) - 1),
        "gap": Number(0.0001, 1.0),
        "base_rate": Number(0.0, round(1.0 - known.get("gap", 0.0), 10)),
    }
    least, most = limits[name].min, limits[name].max
    proposed = max(PROMPTS[name].proposed, least or 0)
    proposed = proposed if most is None else min(proposed, most)
    try:
        return click.prompt(PROMPTS[name].text, default=proposed, type=limits[name], err=True)
    except click.Abort:
        raise KeyboardInterrupt from None


def show(result: Plan, folder: Path | None, json_wanted: bool) -> None:
    """Print the plan and draw its figure; the numbers come first, because drawing may fail."""
    from maskedbandits.planner import text

    if not json_wanted:
        width = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
        for line in text.to_lines(result, width, getattr(sys.stdout, "encoding", None) or "utf-8"):
            echo(line)
        echo()
    try:
        figures = [] if folder is None else draw_figure(result, folder)
    except Failure:
        if json_wanted:
            echo_json({**text.to_json(result), "figures": []})
        raise
    if json_wanted:
        echo_json({**text.to_json(result), "figures": figures})
    elif folder is None:
        echo(f"No figure: {' and '.join(extras.list_missing())} missing: pip install 'maskedbandits[experiments]'")
    else:
        echo(f"Figure: {' and '.join(figures)}")


def draw_figure(result: Plan, folder: Path) -> list[str]:
    """Draw the figure, and return its files."""
    from maskedbandits.report.plots import plan as plan_figure

    with translate_drawing_errors("the same command draws it again"):
        return [str(path) for path in plan_figure.write_figure(result, folder)]
