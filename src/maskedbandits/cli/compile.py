"""`maskedbandits compile`: machine code made ahead of time, for container images."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.verb import Verb, json_option
from maskedbandits.errors import UserError

if TYPE_CHECKING:
    from maskedbandits.policies import Kind


@click.command(
    "compile",
    cls=Verb,
    examples=[
        "maskedbandits compile auto",
        "maskedbandits compile auto --groups",
        "maskedbandits compile auto logistic-ts-cf --json",
    ],
)
@click.argument("names", metavar="[POLICY]...", nargs=-1)
@click.option("--groups", is_flag=True, help="Also compile choices for private groups (make_contextual).")
@json_option
def compile_policies(names: tuple[str, ...], groups: bool, json_wanted: bool) -> None:
    """Compile policies ahead of time for this machine.

    Without a POLICY, all are compiled, policies over features included. The last line names the folder of the machine
    code; set MASKEDBANDITS_CACHE to use another one. The code works on machines with the same processor, and with the
    same versions of this package, Python and numba.
    """
    from maskedbandits._numba import cache

    jobs, compiled = list(list_jobs(names, groups)), []
    for number, (name, compile_one) in enumerate(jobs, 1):
        started = time.process_time()
        compile_one()
        seconds = round(time.process_time() - started, 1)
        compiled.append({"policy": name, "cpu_seconds": seconds})
        if not json_wanted:
            echo(f"{number}/{len(jobs)} {name}: {seconds} s of CPU")
    folder = cache.folder()
    if json_wanted:
        echo_json({"folder": None if folder is None else str(folder), "compiled": compiled})
    else:
        echo(f"Machine code: {folder or 'not stored, because no folder is writable'}")


def list_jobs(names: Sequence[str], groups: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the names of policies and functions that compile them; policies with the same kernel are one job."""
    from maskedbandits import features, policies

    known = [*policies.names(), *features.NAMES]
    for name in names:
        if name not in known:
            raise UserError(f"no policy is called {name!r}{policies.suggest_policy(name, known)}")
    plain = [name for name in names or policies.names() if name not in features.NAMES]
    for kind in {kind.layout.storage.name: kind for kind in map(policies.kind_of, plain)}.values():
        yield kind.name, partial(compile_plain, kind, groups)
    for name in features.NAMES:
        if not names or name in names:
            yield name, partial(compile_over_features, name)


def compile_plain(kind: Kind, groups: bool) -> None:
    """Compile a policy, with ``groups`` also for choices by group."""
    from maskedbandits.contextual.factory import compile_groups
    from maskedbandits.policies.runtime import compile_all

    compile_all(kind.layout, kind.name)
    if groups:
        compile_groups(kind)


def compile_over_features(name: str) -> None:
    """Compile a policy over features, by a live step and a simulation."""
    from maskedbandits import FeaturedProblem, RandomizedResponse, make_featured, simulate

    mask = RandomizedResponse(0.75, 0.75)
    policy = make_featured(name, arms=2, features=2, corruption=mask, seed=0, gamma=1.0)
    x = [1.0, 0.0]
    policy.observe(x, policy.choose(x), 1.0)
    policy.estimates(x)
    simulate(FeaturedProblem([[[0.0, 0.0], [0.0, 0.0]]], [0], 2, mask), policy, runs=1, progress=False)
