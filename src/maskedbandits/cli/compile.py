"""`maskedbandits compile`: machine code made ahead of time, for container images and for whoever cannot wait."""

from __future__ import annotations

import time

import click

from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.verb import Verb, as_json


@click.command(
    "compile",
    cls=Verb,
    examples=[
        "maskedbandits compile auto",
        "maskedbandits compile auto sw-klucb-cf --json",
    ],
)
@click.argument("names", metavar="[POLICY]...", nargs=-1)
@as_json
def compile_policies(names: tuple[str, ...], json_wanted: bool) -> None:
    """Compile policies for this machine, so that no first call has to wait; without a POLICY, all of them.

    The machine code lies in a folder that is named at the end; MASKEDBANDITS_CACHE names another place. It is of use on
    machines with the same processor, to the same version of this package, of Python and of numba.
    """
    from maskedbandits import cache, policies
    from maskedbandits.policies.entries import compile_all

    kinds = {kind.layout.name: kind for kind in map(policies.kind_of, names or policies.names())}
    done = []
    for place, kind in enumerate(kinds.values(), 1):
        started = time.process_time()
        compile_all(kind.layout, kind.name)
        seconds = round(time.process_time() - started, 1)
        done.append({"policy": kind.name, "cpu_seconds": seconds})
        if not json_wanted:
            echo(f"{place}/{len(kinds)} {kind.name}: {seconds} s of CPU")
    folder = cache.folder()
    if json_wanted:
        echo_json({"folder": None if folder is None else str(folder), "compiled": done})
    else:
        echo(f"Machine code: {folder or 'kept nowhere, since no folder can be written to'}")
