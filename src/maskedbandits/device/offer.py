"""What a server offers: an arm to show, and perhaps a token for one report. All of it is doubted.

Of what decides about privacy the server may name an epsilon, and it is taken only downwards: the report is masked with
the smaller of the server's and the device's own largest, rounded down to millionths, which both sides can write
exactly. No threshold and no probability is taken from anywhere: the device reckons them from that epsilon.

Times are taken as differences to the server's own clock, as far as the answer says what that is: the device's may be
hours off.
"""

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from ..errors import UserError, line
from ..privacy import as_epsilon
from .asked import Group, read_question, written
from .timing import Timing
from .wire import Answer, Away

MILLION = 10**6
TOKEN = re.compile(r"[A-Za-z0-9_-]{16,1024}")


class Offer(NamedTuple):
    """What to show, and what to report of it: nothing, if ``why`` says why not."""

    arm: str
    payload: Any
    why: str = ""
    token: str = ""
    epsilon: Fraction = Fraction(0)  # what a report costs, or would cost
    report_in: float = 0.0  # seconds from now
    expires_in: float = 0.0
    date: float | None = None  # what time it is there, if the server said that
    payloads: dict[str, Any] | None = None  # where there are groups: of all arms
    asked: str = ""  # likewise: what an answer needs of the question


def largest(max_epsilon: Any) -> Fraction:
    """Return the device's own largest epsilon, in whole millionths."""
    found = in_millionths(as_epsilon(max_epsilon))
    if found == 0:
        raise UserError(f"max_epsilon = {max_epsilon} lets no report say anything: give a number of at least 0.000001")
    return found


def in_millionths(epsilon: Fraction) -> Fraction:
    """Return an epsilon rounded down to millionths."""
    return Fraction(math.floor(epsilon * MILLION), MILLION)


def read_offer(
    answer: Answer,
    among: Sequence[str] | None,
    most: Fraction,
    at: float,
    group: Group | None = None,
    timing: Timing | None = None,
) -> Offer:
    """Return what an answer offers; ``Away`` if there is not even an arm that may be shown."""
    content = answer.content
    if answer.status != 200 or not isinstance(content, dict):
        raise Away(f"the server answers with status {answer.status}")
    named = _epsilon(content.get("epsilon"))
    epsilon = Fraction(0) if named is None else min(named, most)
    shown = (
        _arm(content, among)._replace(epsilon=epsilon)
        if group is None
        else _arm_of_group(content, among, epsilon, group)
    )
    if content.get("participate") is not True:
        return shown._replace(why="the server wants no report")
    there = at if answer.date is None else answer.date
    return _with_token(shown._replace(date=answer.date), content, there, timing or Timing())


def _arm(content: dict[str, Any], among: Sequence[str] | None) -> Offer:
    """Return the arm to show."""
    try:
        arm = line("arm", content.get("arm"))
    except UserError as error:
        raise Away("the server names no arm") from error
    if among is not None and arm not in among:
        raise Away("the server names an arm that may not be shown")
    return Offer(arm, content.get("payload"))


def _arm_of_group(content: dict[str, Any], among: Sequence[str] | None, epsilon: Fraction, group: Group) -> Offer:
    """Return the arm to show to somebody of a group, and what an answer needs of the question."""
    asked = read_question(content, group.groups, among)
    if isinstance(asked, str):
        raise Away(asked)
    arm = asked.arms[group.place]
    kept = written(group.groups, asked.signs, epsilon)
    return Offer(arm, asked.payloads[arm], epsilon=epsilon, payloads=asked.payloads, asked=kept)


def _with_token(shown: Offer, content: dict[str, Any], at: float, timing: Timing) -> Offer:
    """Add the token and its times; one whose times are refused may still belong to an earlier promise."""
    token = content.get("token")
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        return shown._replace(why="the server gives no token")
    if shown.epsilon == 0:
        return shown._replace(why="the server names no epsilon that masks anything")
    shown = shown._replace(token=token)
    report_in, expires_in = (_seconds(content.get(key)) - at for key in ("report_at", "expires"))
    if math.isnan(report_in) or math.isnan(expires_in):
        return shown._replace(why="the server names no times at which a report could be made")
    why = timing.refuse(report_in, expires_in)
    return shown._replace(why=why, report_in=max(report_in, timing.min_report_after), expires_in=expires_in)


def _epsilon(value: object) -> Fraction | None:
    """Return the epsilon that a server asks for, if reports under it tell something and hide something."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return in_millionths(as_epsilon(value)) or None
    except UserError:  # negative, or so large that nothing is hidden
        return None


def _seconds(value: object) -> float:
    """Return a time, NaN if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
