"""Finding an experiment by its name, for whoever asks after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maskedbandits.service.http import Refused, later

if TYPE_CHECKING:
    from maskedbandits.service.experiment import Live
    from maskedbandits.service.registry import ExperimentRegistry

BEHIND = "the logs could not be read to their end just now, so that this experiment may be unknown here: ask again"
ASIDE = "this experiment cannot be followed now: the log of the service says why, and it is tried again"


async def found(registry: ExperimentRegistry, name: str) -> Live:
    """Return an experiment by its name; one that is not known may just have been made in another process."""
    live = registry.experiment(name)
    if live is None and registry.is_aside(name):
        raise later(503, ASIDE)
    caught_up = live is not None or await registry.catch_up()
    if live is None:
        live = registry.experiment(name)
    if live is None and registry.is_aside(name):
        raise later(503, ASIDE)
    if live is None and not caught_up:
        raise later(503, BEHIND)
    if live is None:
        raise Refused(404, "no experiment has this name: GET /v1/experiments lists them all")
    return live
