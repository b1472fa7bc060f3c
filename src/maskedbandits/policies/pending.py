"""Pending reports: decisions whose reports have not arrived, how much they still count, and when to give up on them.

Reports arrive late, and some never do. A policy that waits for each of them starves an arm after one loss; one that
ignores them sends a whole burst of decisions to one arm. So every arm has, beside the exact number of its *pending*
reports, a number of *unanswered* decisions, which is what a choice looks at:

* a decision for the arm adds 1;
* a report of the arm that arrives takes away 1, and a share of those that are overdue. So an arm whose reports do
  arrive has at most as many unanswered decisions as are on their way, and losses fade;
* while the arm is not chosen they fade with time: to half after the delay and a *patience*, which is a share of the
  policy's memory. After a patience, or as long as until its last decision, at most one counts. So an arm is chosen
  again however many of its reports are lost, even if all reports are lost for a while.

The *delay* of reports is estimated from decisions for an arm without other pending reports, or with lost ones only. It
follows the longest recent delay, in decisions. The share of *prompt* reports is estimated with it. If few reports are
prompt, decisions more recent than the delay are not overdue.

With ``expire_after`` a policy gives up on a report after so many further decisions. Reports name no decision, so an
arriving report counts as the oldest pending one of its arm. Decisions are counted in up to AGES age groups, so that the
memory does not grow with ``expire_after``. A policy gives up after at least that many decisions, and at most a quarter
more.
"""

import math
from typing import Any

import numpy as np

from maskedbandits._numba.jit import inlined, inner, interpret
from maskedbandits._numba.state import (
    Floats,
    Ints,
    Record,
    array,
    computed,
    param,
    record,
    select_state,
    size,
    stack_rows,
    variable,
)
from maskedbandits.errors import WrongValueError, check_int

FOREVER = 1 << 62  # more than any number of steps
EXPIRE_AFTER = 100_000  # default number of decisions after which a policy gives up on a report
NEVER = -1
AGES = 9  # age groups of pending reports
PROMPT = 4  # decisions in which a prompt report arrives
ENOUGH = 0.3  # share of prompt reports from which on later ones are overdue
ALONE = 64  # decisions, beside four delays, after which earlier reports of the arm are lost
FADING = 1.0 / 128.0  # the share of the other unanswered decisions that an arriving report takes away


def check_expire_after(name: str, value: Any) -> int | None:
    """Check the number of decisions after which to give up on a report."""
    if value is None:
        return None
    if isinstance(value, float) and value == float("inf"):
        raise WrongValueError(name, value, "a number of decisions, or None to wait without limit")
    return min(check_int(name, value, 0), FOREVER)


check_expire_after.words = "a whole number, 0 or more; leave out to wait without limit"  # type: ignore[attr-defined]


def _arms(scalars: Any) -> int:
    """Return the number of arms: the length of most arrays."""
    return int(scalars.arms)


def _decisions(scalars: Any) -> int:
    """Return the number of decisions: the upper limit of their times."""
    return int(scalars.decisions)


@record
class Pending(Record):
    """The pending reports of every arm."""

    arms: int = size()
    ages: int = size(scratch=True)  # age groups, or 0 if a policy never gives up
    expire_after: Any = param(
        EXPIRE_AFTER,
        check_expire_after,
        "decisions after which a pending report is given up; 0 ignores pending reports",
        stored=False,
    )
    lifetime: int = computed(scratch=True)  # expire_after, or NEVER
    pending_total: int = variable(0, most=FOREVER, scratch=True)  # decisions with pending reports
    decisions: int = variable(0, most=FOREVER, scratch=True)  # decisions so far
    delay: float = variable(-1.0, least=-1.0, most=float(FOREVER), scratch=True)  # in decisions, or -1 if unknown
    prompt: float = variable(0.0, most=1.0, scratch=True)  # the share of reports that were prompt
    pending: Ints = array(_arms, least=0, most=FOREVER, scratch=True)
    unanswered: Floats = array(_arms, least=0.0, most=float(FOREVER), scratch=True)
    decided: Floats = array(_arms, least=0.0, most=float(FOREVER), scratch=True)  # decisions, fading
    last_decision: Ints = array(_arms, least=0, most=_decisions, scratch=True)  # last decision
    first_decision: Ints = array(_arms, least=0, most=_decisions, scratch=True)  # after it
    last_report: Ints = array(_arms, least=0, most=_decisions, scratch=True)  # last report
    timed_decision: Ints = array(_arms, least=0, most=_decisions, scratch=True)  # decision, or 0
    by_age: Ints = array(
        lambda scalars: scalars.arms * scalars.ages, least=0, most=FOREVER, scratch=True
    )  # pending, by age group


def age_groups(expire_after: int | None) -> int:
    """Return the number of age groups; a short ``expire_after`` has one for each decision, and is exact."""
    if expire_after is None or expire_after < AGES:
        return expire_after or 0
    width = -(-expire_after // (AGES - 1))
    return -(-expire_after // width) + 1


def configure(state: Any, expire_after: int | None) -> None:
    """Write ``expire_after`` to the state."""
    state.scalars[0].lifetime = NEVER if expire_after is None else expire_after


def contradiction(state: Any) -> str:
    """Return how saved pending reports contradict themselves, or an empty text."""
    scalars = state.scalars[0]
    if state.pending.sum() != scalars.pending_total:
        return "its pending reports do not add up to their total"
    if scalars.ages and not np.array_equal(state.by_age.reshape(-1, scalars.ages).sum(axis=1), state.pending):
        return "its pending reports are not those of their ages"
    return "" if np.all(state.unanswered <= state.pending) else "more decisions are unanswered than reports pending"


@inlined
def clear_pending(state: Pending) -> None:
    """Forget all decisions."""
    state.scalars[0].pending_total = 0
    state.scalars[0].decisions = 0
    state.scalars[0].delay = -1.0
    state.scalars[0].prompt = 0.0
    for arm in range(state.scalars[0].arms):
        state.pending[arm] = 0
        state.unanswered[arm] = 0.0
        state.decided[arm] = 0.0
        state.last_decision[arm] = 0
        state.first_decision[arm] = 0
        state.last_report[arm] = 0
        state.timed_decision[arm] = 0
    for index in range(state.by_age.size):
        state.by_age[index] = 0


@inlined
def _group_width(scalars: Pending) -> int:
    """Return the number of decisions in an age group."""
    return 1 if scalars.lifetime < AGES else (scalars.lifetime + AGES - 2) // (AGES - 1)


@inner
def _advance(state: Pending, n: int) -> None:
    """Count n decisions, and give up on expired reports."""
    scalars = state.scalars[0]
    before = scalars.decisions
    scalars.decisions += n
    if scalars.ages == 0:
        return
    width = _group_width(scalars)
    first, last = before // width + 1, scalars.decisions // width
    for group in range(max(first, last - scalars.ages + 1), last + 1):
        for arm in range(scalars.arms):
            index = arm * scalars.ages + group % scalars.ages
            _drop_pending(state, arm, state.by_age[index])
            state.by_age[index] = 0


@inner
def _drop_pending(state: Pending, arm: int, n: int) -> None:
    """Give up on n pending reports of an arm."""
    if n > 0:
        state.scalars[0].pending_total -= n
        state.pending[arm] -= n
        state.unanswered[arm] = min(state.unanswered[arm], float(state.pending[arm]))


@inlined
def _recent_decisions(state: Pending, arm: int) -> float:
    """Return about how many decisions for an arm are more recent than the delay; their weights fade with it."""
    scalars = state.scalars[0]
    if scalars.delay < 0.0:
        return state.decided[arm]
    return state.decided[arm] * math.exp(-float(scalars.decisions - state.last_decision[arm]) / max(scalars.delay, 1.0))


@inlined
def await_reports(state: Pending, arm: int, n: int) -> None:
    """Note n decisions for an arm."""
    scalars = state.scalars[0]
    _advance(state, n)
    if scalars.lifetime == 0:
        return
    scalars.pending_total += n
    state.pending[arm] += n
    if (
        scalars.decisions - state.last_decision[arm] > state.last_decision[arm]
    ):  # reports unanswered for so long are lost
        state.unanswered[arm] = min(state.unanswered[arm], 1.0)
    state.unanswered[arm] += float(n)
    state.decided[arm] = _recent_decisions(state, arm) + float(n)
    if state.last_report[arm] >= state.last_decision[arm]:  # no decision since the last report
        state.first_decision[arm] = scalars.decisions
        is_alone = (
            state.pending[arm] == n or float(scalars.decisions - state.last_decision[arm]) > ALONE + 4.0 * scalars.delay
        )
        state.timed_decision[arm] = scalars.decisions if is_alone else 0
    state.last_decision[arm] = scalars.decisions
    if scalars.ages > 0:
        state.by_age[arm * scalars.ages + scalars.decisions // _group_width(scalars) % scalars.ages] += n


@inner
def _drop_oldest(state: Pending, arm: int, n: int) -> None:
    """Take n reports of an arm out of the age groups, the oldest first."""
    scalars = state.scalars[0]
    oldest = scalars.decisions // _group_width(scalars) + 1
    for group in range(oldest, oldest + scalars.ages):
        index = arm * scalars.ages + group % scalars.ages
        taken = min(n, state.by_age[index])
        state.by_age[index] -= taken
        n -= taken


@inner
def _learn_delay(state: Pending, arm: int) -> None:
    """Update the delay by a timed decision: a longer delay counts at once, a shorter one by an eighth."""
    scalars = state.scalars[0]
    took = float(scalars.decisions - state.timed_decision[arm])
    is_prompt = 1.0 if took < PROMPT else 0.0
    scalars.prompt += (is_prompt - scalars.prompt) * (0.125 if scalars.delay >= 0.0 else 1.0)
    if scalars.delay >= 0.0:
        if state.last_decision[arm] != state.timed_decision[arm]:  # the report may belong to a later decision
            took = min(took, 16.0 + 2.0 * scalars.delay)
        took = max(took, scalars.delay + (took - scalars.delay) / 8.0)
    scalars.delay = took
    state.timed_decision[arm] = 0


@inlined
def take_pending(state: Pending, arm: int) -> None:
    """Note that a report has arrived, pending or not."""
    scalars = state.scalars[0]
    pending = state.pending[arm]
    state.last_report[arm] = scalars.decisions
    if state.timed_decision[arm] > 0:
        _learn_delay(state, arm)
    if pending > 0:
        scalars.pending_total -= 1
        state.pending[arm] = pending - 1
        left = max(state.unanswered[arm] - 1.0, 0.0)
        on_their_way = _recent_decisions(state, arm) if scalars.prompt < ENOUGH else 0.0
        state.unanswered[arm] = left - FADING * max(left - on_their_way, 0.0)
        if scalars.ages > 0:
            _drop_oldest(state, arm, 1)


@inner
def give_up(state: Pending, arm: int, n: int) -> int:
    """Give up on up to n pending reports of an arm, the oldest first; return on how many."""
    n = min(n, state.pending[arm])
    _drop_pending(state, arm, n)
    if state.scalars[0].ages > 0:
        _drop_oldest(state, arm, n)
    return n


@inlined
def patience(state: Any) -> float:
    """Return the patience of a policy that remembers everything: its number of reports, pending ones included."""
    return max(1.0, float(state.scalars[0].time + state.scalars[0].pending_total))


@inlined
def overdue_delay(state: Pending) -> float:
    """Return the delay of reports in decisions; 0 if enough of them are prompt, or it is unknown."""
    scalars = state.scalars[0]
    return scalars.delay if scalars.prompt < ENOUGH and scalars.delay > 0.0 else 0.0


@inlined
def unanswered_count(state: Pending, arm: int, clock: int, late: float, patience: float) -> float:
    """Return how many unanswered decisions for an arm still count at a time, given as a number of decisions.

    The number halves within a patience, once reports are overdue. After a patience, or as long as until the arm's last
    decision, at most one counts: after an outage of all reports, the estimated delay may be far too long.
    """
    waited = float(max(clock - state.last_decision[arm], 0))
    unanswered = state.unanswered[arm] / (1.0 + max(waited - late, 0.0) / patience)
    return min(unanswered, 1.0) if waited > min(float(state.last_decision[arm]), patience) else unanswered


def _recent_of(recent: Floats, age: Ints, delay: Any) -> Floats:
    """Return the result of ``_recent_decisions`` for several arms."""
    return recent * np.where(np.less(delay, 0.0), 1.0, np.exp(-age / np.maximum(delay, 1.0)))


def set_pending(state: Any, counts: Ints) -> None:
    """Set the number of pending reports of each arm; additional ones belong to decisions made just now."""
    scalars = state.scalars[0]
    if scalars.lifetime == 0:
        return
    more = np.maximum(counts - state.pending, 0)
    scalars.decisions += more.sum()
    scalars.pending_total = counts.sum()
    state.decided[:] = _recent_of(state.decided, scalars.decisions - state.last_decision, scalars.delay) + more
    state.last_decision[:] = np.where(more > 0, scalars.decisions, state.last_decision)
    state.unanswered[:] = np.minimum(state.unanswered + more, counts)
    state.pending[:] = counts
    if scalars.ages:
        by_age = state.by_age.reshape(-1, scalars.ages)
        by_age[:] = 0
        by_age[:, scalars.decisions // interpret(_group_width)(scalars) % scalars.ages] = counts


def note_many(state: Any, indices: Ints, arms: Ints, n: int) -> None:
    """Note n decisions, or give up on -n, for one arm each of several policies in one state (``_numba/state.py``)."""
    scalars = state.scalars
    if scalars[0].ages:
        for index, arm in zip(indices.tolist(), arms.tolist(), strict=True):
            interpret(await_reports if n > 0 else give_up)(select_state(state, index), arm, abs(n))
        return
    if scalars[0].lifetime == 0:
        return
    pending, unanswered = stack_rows(state, "pending"), stack_rows(state, "unanswered")
    more = np.maximum(n, -pending[indices, arms])
    pending[indices, arms] += more
    scalars["pending_total"][indices] += more
    if n > 0:
        scalars["decisions"][indices] += n
        decided_at, recent = stack_rows(state, "last_decision"), stack_rows(state, "decided")
        age = scalars["decisions"][indices] - decided_at[indices, arms]
        recent[indices, arms] = _recent_of(recent[indices, arms], age, scalars["delay"][indices]) + n
        is_lost = scalars["decisions"][indices] > 2 * decided_at[indices, arms]
        decided_at[indices, arms] = scalars["decisions"][indices]
        unanswered[indices, arms] = np.minimum(unanswered[indices, arms], np.where(is_lost, 1.0, np.inf)) + n
    unanswered[indices, arms] = np.minimum(unanswered[indices, arms], pending[indices, arms])
