"""Messages from a service to a device. The device distrusts all of them.

An offer has an arm to show, and possibly a token for one report. The server may request an epsilon, and the device only
ever lowers it: the report is masked with the smaller of the server's epsilon and the device's own maximum, rounded down
to millionths, which both sides can write exactly. The device computes thresholds and probabilities from that epsilon
and takes none from anywhere else.

Times are differences to ``now``, the server's own time in its reply, because the device's clock may be hours off. A
server could as well shift ``report_at`` and ``expires``, so ``now`` gives it no power: the limits of ``Timing`` apply
to the differences. The ``Date`` header is ignored, because proxies replace it.

An offer that a backend requested reaches the device later than it was made. So it is older by the time since its
``now``, as far as the device's clock shows. Its report never leaves earlier for that.

A person's group never leaves the device. Whether the device participates must not depend on the group, so every check
covers the arms of all groups, never those of one group alone.

``Timing`` limits when and how often a device sends. A service may ask for more patience, never for less. The service
imports the same numbers and refuses experiments outside them. The browser client has the same numbers.
"""

import json
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from ..errors import UserError, WrongValueError, check_int, check_line, check_number
from ..privacy import GroupQuery, LedgerError, as_epsilon
from .http import HttpReply, ServerUnavailable, parse_url

DAY_S = 86_400.0
ROUNDING_S = 5.0  # tolerance of the limits: clocks have whole seconds, and replies take time


class Timing(NamedTuple):
    """Limits on when and how often a device sends.

    Change them in tests and simulations only, where no person is behind the device.

    Parameters
    ----------
    min_report_after
        Seconds from a decision to the earliest departure of its report.
    min_window
        Seconds from that time to the expiry of the decision.
    min_jitter
        Seconds over which the time of sending is spread at random.
    max_expiry
        Seconds from a decision to its expiry.
    max_attempts
        Requests for one report.

    Examples
    --------
    >>> Timing(min_report_after=0).min_window
    3600.0

    """

    min_report_after: float = 60.0  # seconds from a decision to the earliest departure of its report
    min_window: float = 3600.0  # seconds from then to the expiry
    min_jitter: float = 900.0  # seconds over which the time of sending is spread at random
    max_expiry: float = 30 * DAY_S  # seconds from a decision to its expiry
    max_attempts: int = 20  # requests for one report

    def check(self) -> "Timing":
        """Check that all limits are numbers in their range.

        Returns
        -------
        Timing
            These limits.

        Raises
        ------
        UserError
            A limit is out of range.

        Examples
        --------
        >>> Timing(max_attempts=3).check().max_attempts
        3

        """
        check_number("max_expiry", self.max_expiry, 0, 366 * DAY_S, above=True)
        for name in ("min_report_after", "min_window", "min_jitter"):
            check_number(name, getattr(self, name), 0, self.max_expiry)
        check_int("max_attempts", self.max_attempts, 1, 1000)
        return self

    def find_violation(self, report_in: float, expires_in: float) -> str:
        """Return why the device refuses an offer with these times.

        Parameters
        ----------
        report_in
            Seconds until the report may leave.
        expires_in
            Seconds until the decision expires.

        Returns
        -------
        str
            The reason, empty if the device accepts.

        Examples
        --------
        >>> Timing().find_violation(report_in=60, expires_in=7200)
        ''
        >>> Timing().find_violation(report_in=60, expires_in=120)
        "the server's expires is less than 3600 s after its report_at"

        """
        if not report_in >= self.min_report_after - ROUNDING_S:  # true for NaN, too
            return f"the server's report_at is less than {self.min_report_after:g} s after the decision"
        if not expires_in - report_in >= self.min_window:
            return f"the server's expires is less than {self.min_window:g} s after its report_at"
        if not expires_in <= self.max_expiry + ROUNDING_S:
            return f"the server's expires is more than {self.max_expiry / DAY_S:g} days after the decision"
        return ""

    def compute_spread(self, jitter: float, window: float) -> float:
        """Return the seconds over which sending is spread.

        Parameters
        ----------
        jitter
            The requested seconds.
        window
            Seconds in which the report may leave; at most a quarter of it is used.

        Returns
        -------
        float
            The seconds, at least ``min_jitter``.

        Examples
        --------
        >>> Timing().compute_spread(jitter=1800, window=86400)
        1800

        """
        return max(self.min_jitter, min(jitter, window / 4))


def check_timing(value: Any) -> Timing:
    """Return the limits given by an application, or the default ones."""
    return Timing() if value is None else Timing(*value).check()


class GroupMembership(NamedTuple):
    """The group of a person among all groups of an experiment."""

    experiment: str
    groups: int
    number: int

    @property
    def key(self) -> str:
        """Identify the queries it can answer: this experiment's, while it has as many groups."""
        return f"{self.experiment}, {self.groups} groups"

    def __repr__(self) -> str:
        return f"<one of {self.groups} groups>"  # a log must not reveal which


def find_membership(experiment: str, groups: Sequence[str] | None, group: str | None) -> GroupMembership | None:
    """Return the membership of a person. Errors never repeat the group."""
    if groups is None and group is None:
        return None
    if groups is None or group is None:
        raise UserError(
            "groups and group require each other: give all names in the experiment's order, and the person's"
        )
    names = [] if isinstance(groups, str) else list(groups)
    if len(names) < 2 or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise WrongValueError("groups", groups, "two or more different names")
    if group not in names:
        raise UserError("group is not in groups: give one of their names")
    return GroupMembership(experiment, len(names), names.index(group))


class GroupArms(NamedTuple):
    """The arm of every group, the payloads of all arms, and signs if the answer is one bit."""

    arms: list[str]
    payloads: dict[str, Any]
    signs: list[int] | None


def parse_group_arms(content: dict[str, Any], groups: int, eligible: Sequence[str] | None) -> GroupArms | str:
    """Return the arms of all groups, or what is wrong with them. The result never depends on the person's group."""
    arms, payloads, signs = (content.get(key) for key in ("arms", "payloads", "signs"))
    if not isinstance(arms, list) or len(arms) != groups:
        return "the server's reply does not name one arm for each group"
    try:
        names = [check_line("arm", arm) for arm in arms]
    except UserError:
        return "the server's reply has an invalid name of an arm"
    if eligible is not None and not set(names) <= set(eligible):
        return "the server chose an arm that is not in eligible_arms"
    if not isinstance(payloads, dict) or not set(names) <= set(payloads):
        return "the server's reply lacks the payload of an arm"
    if signs is not None:
        values = signs if isinstance(signs, list) else []
        if len(values) != groups or not all(type(sign) is int and sign in (0, 1) for sign in values):
            return "the server's reply has an invalid sign"
    return GroupArms(names, payloads, signs)


def encode_query(groups: int, signs: list[int] | None, epsilon: Fraction) -> str:
    """Return the public part of a query that an answer needs, to be stored."""
    return json.dumps([groups, signs, str(epsilon)])


def decode_query(text: str) -> GroupQuery:
    """Return a stored query. Its arms are no longer needed."""
    try:
        groups, signs, epsilon = json.loads(text)
        return GroupQuery([0] * groups, signs, epsilon)
    except (ValueError, TypeError, OverflowError) as error:
        raise LedgerError("a question in the outbox is damaged: move the outbox file away") from error


MILLION = 10**6
TOKEN = re.compile(r"[A-Za-z0-9_-]{16,1024}")
NOT_STORED = "the service cannot store this visitor's decision now, so the next one would cost again"


class Offer(NamedTuple):
    """An arm to show, and a token for its report. ``why`` says why there is no report."""

    arm: str
    payload: Any
    why: str = ""
    token: str = ""
    epsilon: Fraction = Fraction(0)  # of a report, also if none is made
    report_in: float = 0.0  # seconds from now
    expires_in: float = 0.0
    now: float | None = None  # the server's time, if it sent one
    payloads: dict[str, Any] | None = None  # with groups: those of all arms
    query: str = ""  # with groups: the encoded query


def check_max_epsilon(max_epsilon: Any) -> Fraction:
    """Return the device's own maximal epsilon, in whole millionths."""
    rounded = round_to_millionths(as_epsilon(max_epsilon))
    if rounded == 0:
        raise UserError(f"max_epsilon = {max_epsilon} rounds to 0: give at least 0.000001")
    return rounded


def round_to_millionths(epsilon: Fraction) -> Fraction:
    """Round an epsilon down to millionths."""
    return Fraction(math.floor(epsilon * MILLION), MILLION)


class OfferReader(NamedTuple):
    """Reads the offers of one experiment as its device does."""

    experiment: str
    max_epsilon: Fraction
    group: GroupMembership | None = None
    timing: Timing = Timing()

    def read_reply(self, reply: HttpReply, eligible: Sequence[str] | None, at: float) -> Offer:
        """Return the offer in a reply. Raise ``ServerUnavailable`` if it has no arm that may be shown."""
        if reply.status != 200 or not isinstance(reply.content, dict):
            raise ServerUnavailable(f"the server replied with status {reply.status}")
        return self._read(reply.content, eligible, at)

    def read_handed(self, content: object, url: str, at: float) -> Offer:
        """Return an offer that another program requested. Raise ``ServerUnavailable`` if it has no arm."""
        if not isinstance(content, dict):
            raise ServerUnavailable("the offer is not an object with the fields of a decision")
        offer = self._read(content, None, at)
        if offer.why:
            return offer
        if content.get("experiment") != self.experiment:
            return offer._replace(why="the offer is not of this experiment")
        if "service" in content and not _is_address(content["service"], url):
            return offer._replace(why="the offer is not of this service")
        if offer.now is None:
            return offer._replace(why="the offer lacks its time, now: request it from a newer service")
        left = offer.expires_in - max(at - offer.now, 0.0)
        return offer._replace(expires_in=left, why="" if left > offer.report_in else "the offer has expired")

    def _read(self, content: dict[str, Any], eligible: Sequence[str] | None, at: float) -> Offer:
        requested = _parse_epsilon(content.get("epsilon"))
        epsilon = Fraction(0) if requested is None else min(requested, self.max_epsilon)
        offer = (
            _parse_arm(content, eligible)._replace(epsilon=epsilon)
            if self.group is None
            else _parse_group_arm(content, eligible, epsilon, self.group)
        )
        if content.get("participate") is not True:
            return offer._replace(why="the server requests no report")
        now = _parse_seconds(content.get("now"))
        known = math.isfinite(now)  # an older service sends none
        return _add_token(offer._replace(now=now if known else None), content, now if known else at, self.timing)


def _is_address(value: object, url: str) -> bool:
    """Tell whether a value is the address of a service."""
    try:
        return parse_url(value)[0] == url
    except UserError:
        return False


def _parse_arm(content: dict[str, Any], eligible: Sequence[str] | None) -> Offer:
    """Return the arm to show."""
    try:
        arm = check_line("arm", content.get("arm"))
    except UserError as error:
        raise ServerUnavailable("the server's reply has no arm") from error
    if eligible is not None and arm not in eligible:
        raise ServerUnavailable("the server chose an arm that is not in eligible_arms")
    return Offer(arm, content.get("payload"))


def _parse_group_arm(
    content: dict[str, Any], eligible: Sequence[str] | None, epsilon: Fraction, group: GroupMembership
) -> Offer:
    """Return the arm to show for a group, and the query for its answer."""
    parsed = parse_group_arms(content, group.groups, eligible)
    if isinstance(parsed, str):
        raise ServerUnavailable(parsed)
    arm = parsed.arms[group.number]
    query = encode_query(group.groups, parsed.signs, epsilon)
    return Offer(arm, parsed.payloads[arm], epsilon=epsilon, payloads=parsed.payloads, query=query)


def _add_token(offer: Offer, content: dict[str, Any], at: float, timing: Timing) -> Offer:
    """Add the token and its times. A token with refused times may belong to an earlier promise."""
    token = content.get("token")
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        return offer._replace(why="the server's reply has no token")
    if offer.epsilon == 0:
        return offer._replace(why="the server's epsilon is not a number above 0 and up to 16")
    offer = offer._replace(token=token)
    report_in, expires_in = (_parse_seconds(content.get(key)) - at for key in ("report_at", "expires"))
    if math.isnan(report_in) or math.isnan(expires_in):
        return offer._replace(why="the server's reply lacks a valid report_at or expires")
    why = NOT_STORED if content.get("stored") is False else timing.find_violation(report_in, expires_in)
    return offer._replace(why=why, report_in=max(report_in, timing.min_report_after), expires_in=expires_in)


def _parse_epsilon(value: object) -> Fraction | None:
    """Return the requested epsilon if its reports carry and hide information."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return round_to_millionths(as_epsilon(value)) or None
    except UserError:  # negative, or too large to hide anything
        return None


def _parse_seconds(value: object) -> float:
    """Return a time, NaN if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
