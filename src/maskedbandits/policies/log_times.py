"""Times on a log: users give rows, and a policy counts the rows that it plays.

It plays about one row in ``pace``: one in K where a log chose uniformly among K arms. So the declaration of a parameter
that is a time says which kind of time it is:

    POSITION   a row, such as one of ``restarts``: exact, because the loop that replays the log knows the row
    DURATION   a number of rows, such as ``window`` or ``horizon``: divided by the pace, and at least 1
    DECAY      the weight that a row leaves, such as ``gamma``: to the power of the pace

Everything else is in plays: counts of observations, such as ``samples``, and schedules of a policy, such as restarts
that double.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from maskedbandits._numba.state import DECAY, DURATION, POSITION, REQUIRED
from maskedbandits.errors import UserError, abbreviate
from maskedbandits.policies.registry import Kind
from maskedbandits.policies.validation import MAX_TIME
from maskedbandits.problems.problem import count_plays


def _out_of_reach(times: Any, pace: float) -> Any:
    """Return as many times that no play reaches, because the loop says when; keep 0, and keep a schedule."""
    if isinstance(times, str):
        return times
    return [MAX_TIME - len(times) + index if time > 0 else 0 for index, time in enumerate(times)]


def _to_plays(rows: float, pace: float) -> float:
    """Return a number of plays for a number of rows."""
    return rows if math.isinf(rows) else count_plays(rows, pace)


RULES: dict[str, Callable[[Any, float], Any]] = {
    POSITION: _out_of_reach,
    DURATION: _to_plays,
    DECAY: lambda weight, pace: weight**pace,
}


def _is_known(value: Any) -> bool:
    """Return whether a parameter has a value."""
    return value is not None and value is not REQUIRED


def in_plays(kind: Kind, given: Mapping[str, Any], arms: int, pace: float) -> dict[str, Any]:
    """Convert the times among parameters from rows to plays; refuse times that are invalid then."""
    kind.complete(given, arms)
    values = {key: given.get(key, what.default) for key, what in kind.parameters.items() if what.time}
    times = {key: kind.parameters[key].check(key, value) for key, value in values.items() if _is_known(value)}
    played = {key: RULES[kind.parameters[key].time](value, pace) for key, value in times.items()}
    try:
        kind.complete({**given, **played}, arms)
    except UserError as error:
        converted = [key for key in played if kind.parameters[key].time != POSITION]
        found = ", ".join(
            f"{key} = {abbreviate(times[key])} in rows is {abbreviate(played[key])} in plays" for key in converted
        )
        raise UserError(f"{error} (about one row of the log in {pace:g} is played: {found})") from error
    return {**given, **played}


def rows_of(kind: Kind, given: Mapping[str, Any]) -> list[int]:
    """Return the rows at which a policy begins a segment, except the first."""
    found: list[int] = []
    for key, what in kind.parameters.items():
        times = given.get(key, what.default)
        if what.time == POSITION and _is_known(times) and not isinstance(times, str):
            found += [time for time in what.check(key, times) if time > 0]
    if found and not hasattr(kind.code["code"], "begin_segment"):
        raise UserError(f"{kind.name} has no begin_segment, and cannot follow the rows of a log: docs/write_policy.md")
    return sorted(found)
