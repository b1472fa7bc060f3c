"""The group of a person, which never leaves the device, and questions to all groups, as far as an answer needs them.

Whether the device takes part must not depend on its group: so everything is checked that a question says to any group,
and not what it says to this one alone.
"""

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from ..errors import UserError, WrongValueError, line
from ..privacy import LedgerError, Question


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
