"""How much of the doubt each bound of an audit may use up.

All bounds hold together with the confidence asked for (Bonferroni). Of what may go wrong, half is shared by the events
that are known before any report is seen, a quarter by those that reports choose where they are more than bits, an
eighth by what is looked at in the noise where they are bits, and an eighth by what else a program does: short starts,
standard error, exit codes, time, and rewards between 0 and 1. The shares are the same for every audit. For devices of
groups, strata of questions have half of the first half.
"""

from typing import NamedTuple

READINGS = ("report 0", "report 1", "another report")
KNOWN = 2 * len(READINGS)  # events, against an input and against the one before
EACH = 2  # events of each of four kinds that reports choose
CHOSEN = 2 * 4 * EACH  # events, against an input and against the one before
RUNS = 8  # starts of a program
KINDS = 12  # of contexts: four of positions and flips, eight of earlier inputs
EACH_KIND = 2  # contexts of each kind that the noise chooses
CONTEXTS = KINDS * EACH_KIND + RUNS  # each run is one, too
BLOCKS = 16  # lengths of blocks in which the noise may be too even


VIEWS = 9  # of the questions to a device of groups in which g is looked at, at most


class Levels(NamedTuple):
    """What each bound may be wrong with."""

    known: float
    chosen: float
    noise: float
    side: float  # all of what else a program does may be wrong with, together
    strata: float = 0.0  # all strata together


def levels(confidence: float) -> Levels:
    """Return what each bound may be wrong with: an event and a context have four bounds, a block and a name one."""
    wrong = 1.0 - confidence
    return Levels(
        known=wrong / 2 / (4 * KNOWN),
        chosen=wrong / 4 / (4 * CHOSEN),
        noise=wrong / 8 / (4 * CONTEXTS + BLOCKS + 1),
        side=wrong / 8,
    )


def group_levels(confidence: float, groups: int, answers: int) -> Levels:
    """Return the same for a device of groups: an event has two bounds for each of 2 G inputs, and so has a distance.

    Answers are those to all questions of different sizes, one after the other.
    """
    wrong, inputs = 1.0 - confidence, 2 * groups
    return levels(confidence)._replace(
        known=wrong / 4 / (2 * inputs * answers * VIEWS),
        chosen=wrong / 4 / (2 * inputs * CHOSEN),
        strata=wrong / 4,
    )
