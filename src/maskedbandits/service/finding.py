"""Finding an experiment by its name, for whoever asks after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maskedbandits.service.asgi import Refused, later

if TYPE_CHECKING:
    from maskedbandits.service.hall import Hall
    from maskedbandits.service.live import Live

ASIDE = "this experiment cannot be followed now: the log of the service says why, and it is tried again"


async def found(hall: Hall, name: str) -> Live:
    """Return an experiment by its name; one that is not known may just have been made in another process."""
    live = hall.experiment(name)
    if live is None and hall.is_aside(name):
        raise later(503, ASIDE)
    if live is None:
        await hall.catch_up()
        live = hall.experiment(name)
    if live is None and hall.is_aside(name):
        raise later(503, ASIDE)
    if live is None:
        raise Refused(404, "no experiment has this name: GET /v1/experiments lists them all")
    return live
