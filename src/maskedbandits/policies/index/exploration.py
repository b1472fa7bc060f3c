"""Restarts when a detector sounds the alarm; and the looks that alarms need.

A detector (``detectors/``) watches every arm. It can see no change of an arm that is never pulled, so every now and
then the arm that was not pulled for longest is looked at, whatever its score.
"""

import math
from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.jit import inlined, inner, interpret
from maskedbandits._numba.state import DURATION, Ints, array, param, record, variable
from maskedbandits.policies import detectors, validation
from maskedbandits.policies.index.restarts import Phases, forget_everything
from maskedbandits.policies.index.state import forget_reports
from maskedbandits.policies.index.watch import NOT_NOW
from maskedbandits.policies.pending import ENOUGH, FOREVER, PROMPT
from maskedbandits.policies.state import NOT_NEGATIVE

LEAST = 16  # decisions that a look waits for its report if the delay is unknown


def _times() -> Any:
    """Declare a time for every arm: of one that is added later, the present."""
    return array(
        lambda scalars: scalars.arms, least=0, most=lambda scalars: scalars.time, added=lambda scalars: scalars.time
    )


@record
class Watch(Phases):
    """Looks at arms that are not pulled, and when each was last forgotten."""

    exploration: float = param(
        0.3,
        validation.between(0, math.inf),
        "how often an arm that is not pulled is looked at all the same; 0 is never",
    )
    prior_changes: float = param(
        0.01,
        validation.between(0, math.inf),
        "how many changes to assume before the first alarm: more means more looks",
    )
    local: bool = param(False, validation.flag, "whether an alarm makes it forget one arm alone, in place of all")
    horizon: int = param(None, validation.perhaps_count, "how many steps will be played", stored=False, time=DURATION)
    explore_at: int = variable(0, most=FOREVER)  # when to look,
    explore_arm: int = variable(0, most=lambda scalars: scalars.arms - 1)  # and at which arm
    planned_at: int = variable(0, most=FOREVER)
    evidence: float = variable(0.0, least=-math.inf)  # of a change, by the last look
    look_again: int = variable(0, most=1)  # 1 if the last look was worth another one
    begun: Ints = _times()  # when the arm was last forgotten
    last: Ints = _times()  # when it was last pulled


def sizes(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Return how many restarts are planned: none."""
    return {}


def configure(state: Watch, parameters: Mapping[str, Any]) -> None:
    """Write down the horizon."""
    state.scalars[0].phase = parameters["horizon"] or 0.0


def contradiction(state: Watch, parameters: Mapping[str, Any]) -> str:
    """Return where a saved state contradicts its parameters."""
    scalars = state.scalars[0]
    if state.closed[scalars.explore_arm]:
        return "it is to look at an arm that is retired"
    return "" if scalars.phase == (parameters["horizon"] or 0.0) else "its horizon is not the one it tells"


def retire(state: Watch, arm: int) -> None:
    """Look at another arm, if it was to be this one."""
    scalars = state.scalars[0]
    if scalars.explore_arm == arm:
        scalars.explore_arm = interpret(_stalest)(state)
        scalars.planned_at = scalars.time
        scalars.look_again = 0
        scalars.evidence = 0.0


@inlined
def forget_all(state: Watch) -> None:
    """Forget what was seen of changes."""
    scalars = state.scalars[0]
    scalars.explore_at = scalars.time + 2 * (scalars.arms - scalars.retired)
    scalars.planned_at = scalars.time
    scalars.look_again = 0
    scalars.evidence = 0.0
    for arm in range(scalars.arms):
        state.begun[arm] = scalars.time
        state.last[arm] = scalars.time
        detectors.restart(state, arm)
    scalars.explore_arm = _stalest(state)


@inner
def _forget_arm(state: Watch, arm: int) -> None:
    """Forget one arm."""
    forget_reports(state, arm, arm)
    state.unanswered[arm] = 0.0
    state.begun[arm] = state.scalars[0].time
    detectors.restart(state, arm)


@inlined
def is_watchful(state: Watch) -> bool:
    """Tell that every step is watched."""
    return True


@inlined
def is_local(state: Watch) -> bool:
    """Tell whether arms are forgotten singly."""
    return bool(state.scalars[0].local)


@inlined
def since(state: Watch, arm: int) -> int:
    """Return when the arm was last forgotten."""
    return state.begun[arm]


@inlined
def _is_look_due(state: Watch) -> bool:
    scalars = state.scalars[0]
    return scalars.exploration > 0.0 and scalars.time >= scalars.explore_at


@inlined
def due_look(state: Watch) -> int:
    """Return the arm that is to be looked at now, or NOT_NOW."""
    if _is_look_due(state):
        return state.scalars[0].explore_arm & NOT_NEGATIVE
    return NOT_NOW


@inlined
def is_look_under_way(state: Watch, arm: int) -> bool:
    """Tell whether the report of a look may still arrive.

    Where enough reports are prompt, a look without a prompt report is repeated. Where they are late, a report that
    arrives within one delay belongs to an earlier decision, and the look is repeated after two delays. If the delay is
    unknown, it is repeated after half of the time that was planned between looks.
    """
    scalars = state.scalars[0]
    is_heard = state.heard[arm] >= state.asked[arm]
    age = float(scalars.decisions - state.asked[arm])
    if scalars.prompt >= ENOUGH:
        return not is_heard and age < PROMPT
    if scalars.delay < 0.0:
        return not is_heard and age < max((scalars.explore_at - scalars.planned_at) // 2, LEAST)
    return age < scalars.delay or (not is_heard and age < PROMPT + 2.0 * scalars.delay)


@inner
def look_out(state: Watch, arm: int, shown: float) -> bool:
    """Show the feedback to the detector, plan looks; tell whether everything was forgotten."""
    scalars = state.scalars[0]
    state.last[arm] = scalars.time
    forgotten = _detect(state, arm, shown) and not scalars.local
    # what a look was planned for is done once its arm is pulled: by the look itself, or before that was due
    pulled = state.last[scalars.explore_arm] > scalars.planned_at
    if _is_look_due(state) and pulled:
        if arm == scalars.explore_arm:
            scalars.look_again = int(detectors.is_worth_another_look(state, arm))
        if not scalars.look_again:
            _plan_look(state)
    return forgotten


@inner
def _detect(state: Watch, arm: int, shown: float) -> bool:
    """Show the feedback to the arm's detector; on an alarm forget the arm, or all of them."""
    scalars = state.scalars[0]
    if math.isnan(shown):
        return False
    time = scalars.phase if scalars.phase > 0.0 else float(scalars.time)
    if not detectors.detects(state, arm, shown, time):
        return False
    scalars.alarms += 1
    if scalars.local:
        _forget_arm(state, arm)
    else:
        forget_everything(state)
    return True


@inner
def _stalest(state: Watch) -> int:
    """Return the arm that was not pulled for longest, the lowest such arm, of those that are not retired."""
    stalest = 0
    since = FOREVER
    for arm in range(state.scalars[0].arms):
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
    scalars = state.scalars[0]
    arms = scalars.arms - scalars.retired
    stalest = _stalest(state)
    changes = (scalars.alarms + scalars.prior_changes) / scalars.time
    rate = min(0.5, scalars.exploration * math.sqrt(arms * changes))
    pause = int(min(1.0 / rate, 1e15)) if rate > 0.0 else 1 << 50
    scalars.explore_arm = stalest
    scalars.explore_at = max(scalars.time + pause, state.last[stalest] + arms * pause)
    scalars.planned_at = scalars.time
    scalars.look_again = 0
    scalars.evidence = 0.0
