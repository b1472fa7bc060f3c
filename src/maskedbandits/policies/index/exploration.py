"""Restarts when a detector sounds the alarm; and the looks that alarms need.

A detector (``detectors/``) watches every arm. It can see no change of an arm that is never pulled, so every now and
then the arm that was not pulled for longest is looked at, whatever its score.
"""

import math
from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.jit import inlined, inner, interpreted
from maskedbandits._numba.state import DURATION, Ints, gathered, given, record, section
from maskedbandits.policies import detectors, validation
from maskedbandits.policies.index.restarts import Phases, forget_everything
from maskedbandits.policies.index.state import forget_reports
from maskedbandits.policies.index.watch import NOT_NOW
from maskedbandits.policies.pending import ENOUGH, FOREVER, PROMPT
from maskedbandits.policies.state import NOT_NEGATIVE

LEAST = 16  # decisions that a look waits for its report if the delay is unknown


def _times() -> Any:
    """Declare a time for every arm: of one that is added later, the present."""
    return section(lambda own: own.arms, least=0, most=lambda own: own.time, added=lambda own: own.time)


@record
class Watch(Phases):
    """Looks at arms that are not pulled, and when each was last forgotten."""

    exploration: float = given(
        0.3,
        validation.between(0, math.inf),
        "how often an arm that is not pulled is looked at all the same; 0 is never",
    )
    prior_changes: float = given(
        0.01,
        validation.between(0, math.inf),
        "how many changes to assume before the first alarm: more means more looks",
    )
    local: bool = given(False, validation.flag, "whether an alarm makes it forget one arm alone, in place of all")
    horizon: int = given(None, validation.perhaps_count, "how many steps will be played", stored=False, time=DURATION)
    explore_at: int = gathered(0, most=FOREVER)  # when to look,
    explore_arm: int = gathered(0, most=lambda own: own.arms - 1)  # and at which arm
    planned_at: int = gathered(0, most=FOREVER)
    evidence: float = gathered(0.0, least=-math.inf)  # of a change, by the last look
    look_again: int = gathered(0, most=1)  # 1 if the last look was worth another one
    begun: Ints = _times()  # when the arm was last forgotten
    last: Ints = _times()  # when it was last pulled


def sizes(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Return how many restarts are planned: none."""
    return {}


def configure(state: Watch, parameters: Mapping[str, Any]) -> None:
    """Write down the horizon."""
    state.own[0].phase = parameters["horizon"] or 0.0


def contradiction(state: Watch, parameters: Mapping[str, Any]) -> str:
    """Return where a saved state contradicts its parameters."""
    own = state.own[0]
    if state.closed[own.explore_arm]:
        return "it is to look at an arm that is retired"
    return "" if own.phase == (parameters["horizon"] or 0.0) else "its horizon is not the one it tells"


def retire(state: Watch, arm: int) -> None:
    """Look at another arm, if it was to be this one."""
    own = state.own[0]
    if own.explore_arm == arm:
        own.explore_arm = interpreted(_stalest)(state)
        own.planned_at = own.time
        own.look_again = 0
        own.evidence = 0.0


@inlined
def forget_all(state: Watch) -> None:
    """Forget what was seen of changes."""
    own = state.own[0]
    own.explore_at = own.time + 2 * (own.arms - own.retired)
    own.planned_at = own.time
    own.look_again = 0
    own.evidence = 0.0
    for arm in range(own.arms):
        state.begun[arm] = own.time
        state.last[arm] = own.time
        detectors.restart(state, arm)
    own.explore_arm = _stalest(state)


@inner
def _forget_arm(state: Watch, arm: int) -> None:
    """Forget one arm."""
    forget_reports(state, arm, arm)
    state.unanswered[arm] = 0.0
    state.begun[arm] = state.own[0].time
    detectors.restart(state, arm)


@inlined
def is_watchful(state: Watch) -> bool:
    """Tell that every step is watched."""
    return True


@inlined
def is_local(state: Watch) -> bool:
    """Tell whether arms are forgotten singly."""
    return bool(state.own[0].local)


@inlined
def since(state: Watch, arm: int) -> int:
    """Return when the arm was last forgotten."""
    return state.begun[arm]


@inlined
def _is_look_due(state: Watch) -> bool:
    own = state.own[0]
    return own.exploration > 0.0 and own.time >= own.explore_at


@inlined
def due_look(state: Watch) -> int:
    """Return the arm that is to be looked at now, or NOT_NOW."""
    if _is_look_due(state):
        return state.own[0].explore_arm & NOT_NEGATIVE
    return NOT_NOW


@inlined
def is_look_under_way(state: Watch, arm: int) -> bool:
    """Tell whether the report of a look may still arrive.

    Where enough reports are prompt, a look without a prompt report is repeated. Where they are late, a report that
    arrives within one delay belongs to an earlier decision, and the look is repeated after two delays. If the delay is
    unknown, it is repeated after half of the time that was planned between looks.
    """
    own = state.own[0]
    is_heard = state.heard[arm] >= state.asked[arm]
    age = float(own.decisions - state.asked[arm])
    if own.prompt >= ENOUGH:
        return not is_heard and age < PROMPT
    if own.delay < 0.0:
        return not is_heard and age < max((own.explore_at - own.planned_at) // 2, LEAST)
    return age < own.delay or (not is_heard and age < PROMPT + 2.0 * own.delay)


@inner
def look_out(state: Watch, arm: int, shown: float) -> bool:
    """Show the feedback to the detector, plan looks; tell whether everything was forgotten."""
    own = state.own[0]
    state.last[arm] = own.time
    forgotten = _detect(state, arm, shown) and not own.local
    # what a look was planned for is done once its arm is pulled: by the look itself, or before that was due
    pulled = state.last[own.explore_arm] > own.planned_at
    if _is_look_due(state) and pulled:
        if arm == own.explore_arm:
            own.look_again = int(detectors.is_worth_another_look(state, arm))
        if not own.look_again:
            _plan_look(state)
    return forgotten


@inner
def _detect(state: Watch, arm: int, shown: float) -> bool:
    """Show the feedback to the arm's detector; on an alarm forget the arm, or all of them."""
    own = state.own[0]
    if math.isnan(shown):
        return False
    time = own.phase if own.phase > 0.0 else float(own.time)
    if not detectors.detects(state, arm, shown, time):
        return False
    own.alarms += 1
    if own.local:
        _forget_arm(state, arm)
    else:
        forget_everything(state)
    return True


@inner
def _stalest(state: Watch) -> int:
    """Return the arm that was not pulled for longest, the lowest such arm, of those that are not retired."""
    stalest = 0
    since = FOREVER
    for arm in range(state.own[0].arms):
        if state.last[arm] < since and not state.closed[arm]:
            stalest = arm
            since = state.last[arm]
    return stalest


@inner
def _plan_look(state: Watch) -> None:
    """Fix when to look at the arm that was not pulled for longest.

    With r changes a step, looks at a rate of about sqrt(K r) cost as much as changes of arms that are not looked at do;
    r is what the alarms so far make of it. An arm that is pulled often enough anyway is due later.
    """
    own = state.own[0]
    arms = own.arms - own.retired
    stalest = _stalest(state)
    changes = (own.alarms + own.prior_changes) / own.time
    rate = min(0.5, own.exploration * math.sqrt(arms * changes))
    pause = int(min(1.0 / rate, 1e15)) if rate > 0.0 else 1 << 50
    own.explore_arm = stalest
    own.explore_at = max(own.time + pause, state.last[stalest] + arms * pause)
    own.planned_at = own.time
    own.look_again = 0
    own.evidence = 0.0
