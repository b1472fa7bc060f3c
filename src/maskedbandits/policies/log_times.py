"""Times on a log: people give rows, and a policy counts the rows that it plays.

It plays about one row in ``pace``: one in K where a log chose among K arms at random, all alike. So a parameter that is
a time says where it is declared which kind of time it is, and here is what a log makes of it:

    POSITION   a row, such as one of ``restarts``: exact, as the loop that replays the log knows it (``logging.py``)
    DURATION   a number of rows, such as ``window`` or ``horizon``: divided by the pace, and at least 1
    DECAY      the weight that a row leaves, such as ``gamma``: to the power of the pace

Everything else is in plays: counts of observations, such as ``samples``, and schedules that a policy makes for itself,
such as restarts that double.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from maskedbandits._numba.state import DECAY, DURATION, POSITION, REQUIRED
from maskedbandits.errors import UserError, shown
from maskedbandits.policies import pending
from maskedbandits.policies.registry import Kind
from maskedbandits.policies.validation import MOST
from maskedbandits.problems.problem import plays_in

CORRUPTIONS = ("flips", "first_node", "last_node", "node_means", "node_feedbacks", "lows", "rates")


def _never(times: Any, pace: float) -> Any:
    """Return as many times that no play reaches: the loop says when; 0 stays, and so does a schedule."""
    if isinstance(times, str):
        return times
    return [MOST - len(times) + place if time > 0 else 0 for place, time in enumerate(times)]


def _shorter(rows: float, pace: float) -> float:
    return rows if math.isinf(rows) else plays_in(rows, pace)


RULES: dict[str, Callable[[Any, float], Any]] = {
    POSITION: _never,
    DURATION: _shorter,
    DECAY: lambda weight, pace: weight**pace,
}


def _is_known(value: Any) -> bool:
    return value is not None and value is not REQUIRED


def in_plays(kind: Kind, given: Mapping[str, Any], arms: int, pace: float) -> dict[str, Any]:
    """Return parameters whose times are in rows with times in plays; refuse those that do not fit a play."""
    kind.complete(given, arms)
    values = {key: given.get(key, what.default) for key, what in kind.parameters.items() if what.time}
    times = {key: kind.parameters[key].check(key, value) for key, value in values.items() if _is_known(value)}
    played = {key: RULES[kind.parameters[key].time](value, pace) for key, value in times.items()}
    try:
        kind.complete({**given, **played}, arms)
    except UserError as error:
        converted = [key for key in played if kind.parameters[key].time != POSITION]
        found = ", ".join(f"{key} = {shown(times[key])} in rows is {shown(played[key])} in plays" for key in converted)
        raise UserError(f"{error} (about one row of the log in {pace:g} is played: {found})") from error
    return {**given, **played}


def rows_of(kind: Kind, given: Mapping[str, Any]) -> list[int]:
    """Return the rows at which a policy begins a segment, after the first."""
    found: list[int] = []
    for key, what in kind.parameters.items():
        times = given.get(key, what.default)
        if what.time == POSITION and _is_known(times) and not isinstance(times, str):
            found += [time for time in what.check(key, times) if time > 0]
    if found and not hasattr(kind.code["code"], "begin_segment"):
        raise UserError(f"{kind.name} has no begin_segment, and cannot follow the rows of a log: docs/extending.md")
    return sorted(found)


def remade(kind: Kind, parameters: Mapping[str, Any], state: Any) -> Any:
    """Return a state with other parameters, whose arms are masked as those of a state."""
    old = state.scalars[0]
    sizes: dict[str, int] = {key: int(old[key]) for key in ("arms", "nodes", "leaves") if key in kind.layout.sizes}
    sizes["ages"] = pending.age_groups(parameters["expire_after"])
    new = kind.layout.build({**sizes, **kind.sizes(parameters)}, parameters)
    for key in CORRUPTIONS:
        getattr(new, key)[:] = getattr(state, key)
    new.scalars[0].curved = old.curved
    pending.configure(new, parameters["expire_after"])
    kind.configure(new, parameters)
    return new
