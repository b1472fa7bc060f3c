"""Messages from a service to a device. The device doubts all of them.

What a server offers: an arm to show, and perhaps a token for one report. All of it is doubted.

Of what decides about privacy the server may name an epsilon, and it is taken only downwards: the report is masked with
the smaller of the server's and the device's own largest, rounded down to millionths, which both sides can write
exactly. No threshold and no probability is taken from anywhere: the device reckons them from that epsilon.

Times are taken as differences to the server's own clock, as far as the answer says what that is: the device's may be
hours off.

The group of a person, which never leaves the device, and questions to all groups, as far as an answer needs them.

Whether the device takes part must not depend on its group: so everything is checked that a question says to any group,
and not what it says to this one alone.
"""

import json
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from ..errors import UserError, WrongValueError, line
from ..privacy import LedgerError, Question, as_epsilon
from .http import Answer, Away
from .limits import Timing


class Group(NamedTuple):
    """Which of how many groups a person belongs to, in an experiment."""

    experiment: str
    groups: int
    place: int

    @property
    def key(self) -> str:
        """Whose questions it can answer: those of this experiment, while it has as many groups."""
        return f"{self.experiment}, {self.groups} groups"

    def __repr__(self) -> str:
        return f"<one of {self.groups} groups>"  # whoever logs it does not tell which


def group_of(experiment: str, groups: Sequence[str] | None, group: str | None) -> Group | None:
    """Return somebody's group; no error repeats it."""
    if groups is None and group is None:
        return None
    if groups is None or group is None:
        raise UserError("groups are all names, in the order of the experiment, and group is one of them: give both")
    names = [] if isinstance(groups, str) else list(groups)
    if len(names) < 2 or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise WrongValueError("groups", groups, "two names or more, each another one")
    if group not in names:
        raise UserError("group is none of the groups: give the name of one of them")
    return Group(experiment, len(names), names.index(group))


class Asked(NamedTuple):
    """What a server asks all groups: an arm for each, what belongs to all arms, and signs, if the answer is a bit."""

    arms: list[str]
    payloads: dict[str, Any]
    signs: list[int] | None


def read_question(content: dict[str, Any], groups: int, among: Sequence[str] | None) -> Asked | str:
    """Return what is asked, or what is wrong with it; whatever group the person belongs to, it is the same."""
    arms, payloads, signs = (content.get(key) for key in ("arms", "payloads", "signs"))
    if not isinstance(arms, list) or len(arms) != groups:
        return "the server names no arm for each of as many groups as there are"
    try:
        names = [line("arm", arm) for arm in arms]
    except UserError:
        return "the server names no arms"
    if among is not None and not set(names) <= set(among):
        return "the server names an arm that may not be shown"
    if not isinstance(payloads, dict) or not set(names) <= set(payloads):
        return "the server does not say what belongs to all arms"
    if signs is not None:
        found = signs if isinstance(signs, list) else []
        if len(found) != groups or not all(type(sign) is int and sign in (0, 1) for sign in found):
            return "the server names signs that are none"
    return Asked(names, payloads, signs)


def written(groups: int, signs: list[int] | None, epsilon: Fraction) -> str:
    """Return what an answer needs of a question, to be kept; all of it is public."""
    return json.dumps([groups, signs, str(epsilon)])


def read(text: str) -> Question:
    """Return the question that was written down; which arms it had is of no more use."""
    try:
        groups, signs, epsilon = json.loads(text)
        return Question([0] * groups, signs, epsilon)
    except (ValueError, TypeError, OverflowError) as error:
        raise LedgerError("a question in the outbox is damaged: put the outbox aside") from error


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
