"""Whether reports stand in the log after all, when the answer to their COMMIT was lost; and whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maskedbandits.service.storage.database import MARKS, Statements, marks
from maskedbandits.service.storage.models import DUPLICATE, LATE, UNKNOWN, NewReport

Key = tuple[int, bytes]  # experiment, decision
Found = dict[Key, tuple[int, NewReport]]  # its number in the log, and what stands there


def answers(
    do: Statements, forgotten: Mapping[int, int], reports: Sequence[NewReport], before: Mapping[int, int]
) -> list[int] | None:
    """Return what an append of all these reports at once has answered, or None if it has not come about.

    The experiments, with what each has forgotten, are locked; ``before`` has a number of each log that was there before
    the append was begun. An append is done whole or not at all: if one of the reports is missing that it would have
    written, it was not done, and whatever is there is somebody else's.
    """
    found: Found = {}
    for experiment in forgotten:
        decisions = list(dict.fromkeys(each.decision for each in reports if each.experiment == experiment))
        for start in range(0, len(decisions), MARKS - 1):
            some = decisions[start : start + MARKS - 1]
            for row in do.rows(f"{_FOUND} ({marks(some)})", (experiment, *some)):
                found[experiment, row[6]] = row[0], NewReport(experiment, *row[1:])
    taken = [each for each in reports if each.expires > forgotten.get(each.experiment, each.expires)]
    if not found or any((each.experiment, each.decision) not in found for each in taken):
        return None
    ours = _ours(reports, found, before)
    return [_answer(place, each, ours, found, forgotten) for place, each in enumerate(reports)]


def _ours(reports: Sequence[NewReport], found: Found, before: Mapping[int, int]) -> set[int]:
    """Return the places of those reports that were written together: word for word, and in their order without a gap.

    They were the newest when they were written, so they end with the highest number. The same report that somebody
    else has sent at the same moment, so that it was not known before, and that stands just before them or alone, cannot
    be told from one of them: both are told that it was accepted then, and it is counted once all the same.
    """
    firsts: dict[Key, int] = {}
    for place, report in enumerate(reports):
        firsts.setdefault((report.experiment, report.decision), place)
    newest: dict[int, int] = {}  # the number of the next one, by experiment, from the last to the first
    for (experiment, _), (number, _) in found.items():
        newest[experiment] = max(newest.get(experiment, 0), number)
    ours = set()
    for key, place in reversed(firsts.items()):
        number, written = found.get(key, (0, None))
        if number == newest.get(key[0]) and number > before.get(key[0], 0) and written == reports[place]:
            ours.add(place)
            newest[key[0]] -= 1
    return ours


def _answer(place: int, report: NewReport, ours: set[int], found: Found, forgotten: Mapping[int, int]) -> int:
    key = report.experiment, report.decision
    if key in found:
        return found[key][0] if place in ours else DUPLICATE
    return LATE if report.experiment in forgotten else UNKNOWN


_FOUND = (
    "SELECT seq, arm, bit, epsilon, probability, flags, decision, expires, hour, config, question FROM event "
    "WHERE experiment = ? AND decision IN"
)
