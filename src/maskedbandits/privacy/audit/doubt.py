"""How much of the doubt each bound of an audit may use up.

All bounds hold together with the confidence asked for (Bonferroni). Of what may go wrong, half is shared by the events
that are known before any report is seen, a quarter by those that reports choose where they are more than bits, and a
quarter by what is looked at in the noise where they are bits. The shares are the same for every audit.
"""

from typing import NamedTuple

READINGS = ("report 0", "report 1", "another report")
KNOWN = 2 * len(READINGS)  # events, against an input and against the one before
EACH = 2  # events of each of four kinds that reports choose
CHOSEN = 2 * 4 * EACH  # events, against an input and against the one before
RUNS = 8  # starts of a program
EACH_KIND = 2  # contexts of each of four kinds that the noise chooses
CONTEXTS = 4 * EACH_KIND + RUNS  # each run is one, too
BLOCKS = 16  # lengths of blocks in which the noise may be too even


VIEWS = 8  # of the questions to a device of groups in which g is looked at, at most


class Levels(NamedTuple):
    """What each bound may be wrong with."""

    known: float
    chosen: float
    noise: float


def levels(confidence: float) -> Levels:
    """Return what each bound may be wrong with: an event and a context have four bounds, a block and a name one."""
    wrong = 1.0 - confidence
    return Levels(wrong / 2 / (4 * KNOWN), wrong / 4 / (4 * CHOSEN), wrong / 4 / (4 * CONTEXTS + BLOCKS + 1))


def group_levels(confidence: float, groups: int, answers: int) -> Levels:
    """Return the same for a device of groups: an event has two bounds for each of 2 G inputs, and so has a distance.

    Answers are those to all questions of different sizes, one after the other.
    """
    wrong, inputs = 1.0 - confidence, 2 * groups
    return Levels(
        wrong / 2 / (2 * inputs * answers * VIEWS), wrong / 4 / (2 * inputs * CHOSEN), levels(confidence).noise
    )
