"""Restarts when a detector sounds the alarm, and the forced exploration that detectors need.

A detector (``detectors/``) watches every arm. It cannot see a change of an arm that is never pulled. So from time to
time the arm that was not pulled for longest is pulled whatever its score.
"""

import math
from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.jit import inlined, inner, interpret
from maskedbandits._numba.state import DURATION, Ints, array, param, record, variable
from maskedbandits.policies import detectors, validation
from maskedbandits.policies.index.state import forget_reports
from maskedbandits.policies.pending import ENOUGH, FOREVER, PROMPT
from maskedbandits.policies.restarts import NOT_NOW
from maskedbandits.policies.restarts.planned import Phases, forget_everything
from maskedbandits.policies.state import NOT_NEGATIVE

MIN_WAIT = 16  # decisions to wait for the report of a forced pull if the delay is unknown


def _times() -> Any:
    """Declare a time for every arm; that of an arm added later is the present."""
    return array(
        lambda scalars: scalars.arms, least=0, most=lambda scalars: scalars.time, added=lambda scalars: scalars.time
    )


@record
class Restarts(Phases):
    """The plan of forced exploration, and when each arm was last forgotten."""

    exploration: float = param(
        0.3,
        validation.between(0, math.inf),
        "rate of forced exploration of arms that are not pulled; 0 for never",
    )
    prior_changes: float = param(
        0.01,
        validation.between(0, math.inf),
        "number of changes to assume before the first alarm: more means more exploration",
    )
    local: bool = param(False, validation.flag, "whether an alarm makes it forget one arm rather than all")
    horizon: int = param(None, validation.perhaps_count, "number of steps", stored=False, time=DURATION)
    explore_at: int = variable(0, most=FOREVER)  # when to explore,
    explore_arm: int = variable(0, most=lambda scalars: scalars.arms - 1)  # and which arm
    planned_at: int = variable(0, most=FOREVER)
    evidence: float = variable(0.0, least=-math.inf)  # of a change, at the last forced pull
    look_again: int = variable(0, most=1)  # 1 if the last forced pull is to be followed by another
    begun: Ints = _times()  # when the arm was last forgotten
    last: Ints = _times()  # when it was last pulled


def sizes(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Return no sizes: no restart is planned."""
    return {}


def configure(state: Restarts, parameters: Mapping[str, Any]) -> None:
    """Write the horizon to the state."""
    state.scalars[0].phase = parameters["horizon"] or 0.0


def contradiction(state: Restarts, parameters: Mapping[str, Any]) -> str:
    """Return how a saved state contradicts its parameters, or an empty text."""
    scalars = state.scalars[0]
    if state.closed[scalars.explore_arm]:
        return "it is to look at an arm that is retired"
    return "" if scalars.phase == (parameters["horizon"] or 0.0) else "its horizon is not the one it tells"


def retire(state: Restarts, arm: int) -> None:
    """Plan to explore another arm, if it was to be this one."""
    scalars = state.scalars[0]
    if scalars.explore_arm == arm:
        scalars.explore_arm = interpret(_least_recent_arm)(state)
        scalars.planned_at = scalars.time
        scalars.look_again = 0
        scalars.evidence = 0.0


@inlined
def forget_all(state: Restarts) -> None:
    """Forget the evidence of changes."""
    scalars = state.scalars[0]
    scalars.explore_at = scalars.time + 2 * (scalars.arms - scalars.retired)
    scalars.planned_at = scalars.time
    scalars.look_again = 0
    scalars.evidence = 0.0
    for arm in range(scalars.arms):
        state.begun[arm] = scalars.time
        state.last[arm] = scalars.time
        detectors.restart(state, arm)
    scalars.explore_arm = _least_recent_arm(state)


@inner
def _forget_arm(state: Restarts, arm: int) -> None:
    """Forget one arm."""
    forget_reports(state, arm, arm)
    state.unanswered[arm] = 0.0
    state.begun[arm] = state.scalars[0].time
    detectors.restart(state, arm)


@inlined
def is_active(state: Restarts) -> bool:
    """Return True: every step may restart."""
    return True


@inlined
def is_local(state: Restarts) -> bool:
    """Return whether an alarm makes a policy forget one arm alone."""
    return bool(state.scalars[0].local)


@inlined
def since(state: Restarts, arm: int) -> int:
    """Return when the arm was last forgotten."""
    return state.begun[arm]


@inlined
def _is_exploration_due(state: Restarts) -> bool:
    """Return whether it is time for a forced pull."""
    scalars = state.scalars[0]
    return scalars.exploration > 0.0 and scalars.time >= scalars.explore_at


@inlined
def due_exploration(state: Restarts) -> int:
    """Return the arm to pull now whatever its score, or NOT_NOW."""
    if _is_exploration_due(state):
        return state.scalars[0].explore_arm & NOT_NEGATIVE
    return NOT_NOW


@inlined
def is_exploration_pending(state: Restarts, arm: int) -> bool:
    """Return whether the report of a forced pull may still arrive.

    Where enough reports are prompt, a forced pull without a prompt report is repeated. Where they are late, a report
    that arrives within one delay belongs to an earlier decision, and the pull is repeated after two delays. If the
    delay is unknown, it is repeated after half of the time planned between forced pulls.
    """
    scalars = state.scalars[0]
    is_heard = state.last_report[arm] >= state.last_decision[arm]
    age = float(scalars.decisions - state.last_decision[arm])
    if scalars.prompt >= ENOUGH:
        return not is_heard and age < PROMPT
    if scalars.delay < 0.0:
        return not is_heard and age < max((scalars.explore_at - scalars.planned_at) // 2, MIN_WAIT)
    return age < scalars.delay or (not is_heard and age < PROMPT + 2.0 * scalars.delay)


@inner
def restart_if_due(state: Restarts, arm: int, shown: float) -> bool:
    """Show the feedback to the detector, and plan exploration; return whether everything was forgotten."""
    scalars = state.scalars[0]
    state.last[arm] = scalars.time
    forgotten = _detect(state, arm, shown) and not scalars.local
    # a plan is fulfilled once its arm is pulled, by force or earlier
    pulled = state.last[scalars.explore_arm] > scalars.planned_at
    if _is_exploration_due(state) and pulled:
        if arm == scalars.explore_arm:
            scalars.look_again = int(detectors.is_worth_another_look(state, arm))
        if not scalars.look_again:
            _plan_exploration(state)
    return forgotten


@inner
def _detect(state: Restarts, arm: int, shown: float) -> bool:
    """Show the feedback to the arm's detector; on an alarm forget the arm, or all arms."""
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
def _least_recent_arm(state: Restarts) -> int:
    """Return the arm that was not pulled for longest, of those not retired; the lowest such arm."""
    found = 0
    since = FOREVER
    for arm in range(state.scalars[0].arms):
        if state.last[arm] < since and not state.closed[arm]:
            found = arm
            since = state.last[arm]
    return found


@inner
def _plan_exploration(state: Restarts) -> None:
    """Decide when to pull the arm that was not pulled for longest.

    With r changes a step, forced pulls at a rate of about sqrt(K r) cost as much as missing the changes of unpulled
    arms. The alarms so far estimate r. An arm that is pulled often enough anyway is due later.
    """
    scalars = state.scalars[0]
    arms = scalars.arms - scalars.retired
    arm = _least_recent_arm(state)
    changes = (scalars.alarms + scalars.prior_changes) / scalars.time
    rate = min(0.5, scalars.exploration * math.sqrt(arms * changes))
    pause = int(min(1.0 / rate, 1e15)) if rate > 0.0 else 1 << 50
    scalars.explore_arm = arm
    scalars.explore_at = max(scalars.time + pause, state.last[arm] + arms * pause)
    scalars.planned_at = scalars.time
    scalars.look_again = 0
    scalars.evidence = 0.0
