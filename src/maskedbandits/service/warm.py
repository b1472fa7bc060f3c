"""Machine code before anybody is let in: what is not kept yet is compiled in a child process, then loaded here.

To compile takes seconds of a whole core. In a thread of the process that answers, others would wait for it; in a child
they do not. Workers that start together take turns, and whoever comes later finds the work done.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

DEFAULT = "auto"  # what an experiment has that does not say otherwise: it may be created any moment


def policies_of(storage: str) -> list[str]:
    """Return the names of all policies that a store's experiments use, and of the one that new ones have."""
    from maskedbandits.service.stores import open_store
    from maskedbandits.service.terms import Terms

    with open_store(storage) as store:
        used = {Terms.read(row.config).policy for row in store.experiments() if row.status != "archived"}
    return sorted(used | {DEFAULT})


def needed(policies: Iterable[str]) -> list[str]:
    """Return the names of all machine code that live policies need, whichever of their variants play."""
    from maskedbandits.policies import kind_of
    from maskedbandits.policies.entries import parts

    kinds = [each for name in policies for each in (kind_of(name), *kind_of(name).variants.values())]
    layouts = {kind.layout.name: kind.layout for kind in kinds}
    return [name + part for name, layout in layouts.items() for part in ("", *parts(layout))]


def missing(names: Iterable[str]) -> list[str]:
    """Return which of them are not kept yet."""
    from maskedbandits import cache
    from maskedbandits.compiled import INTERPRETED

    return [] if INTERPRETED else [name for name in names if not cache.is_marked(name)]


async def compile_beside(names: Iterable[str]) -> None:
    """Let a child fill the cache, and wait for it; if nobody waits any more, it is ended."""
    from maskedbandits import cache

    place = cache.folder()
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, *names),
        env={**os.environ} | ({} if place is None else {cache.VARIABLE: str(place.parent)}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # an interrupt is meant for whoever answers
    )
    try:
        await child.wait()
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()


def load(names: Iterable[str]) -> None:
    """Load machine code; what no child could keep is compiled here."""
    from maskedbandits.compiled import INTERPRETED
    from maskedbandits.policies.entries import fill_cache

    for name in () if INTERPRETED else names:
        fill_cache(name)


@contextlib.contextmanager
def _alone(folder: Path | None) -> Iterator[None]:
    """Wait until no other process compiles into this folder."""
    if folder is None or sys.platform == "win32":
        yield
        return
    import fcntl

    with (folder / "warm.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # let go of when the file is closed, however the process ends
        yield


def main(names: list[str]) -> None:
    """Compile what is not kept yet; what a child runs."""
    from maskedbandits import cache
    from maskedbandits.policies.entries import fill_cache

    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)  # those who answer come first
    with _alone(cache.folder()):
        for name in names:
            if not cache.is_marked(name):
                fill_cache(name)


if __name__ == "__main__":
    main(sys.argv[1:])
