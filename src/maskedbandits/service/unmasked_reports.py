"""A sequential test for reports without a mask: bits from one address block that honest devices do not send.

Whatever people do, a masked bit is 1 with a probability between 1 - p00 and p11. This holds for every report, given all
before it. So it holds for the reports of one address block on one arm, however many people it has. A liar who sends
plain ones or zeros leaves this range, and a liar who stays inside weighs no more than an honest person.

For each block and arm, four bets are placed against the range: that the rarer bit comes half or a tenth as often as in
any honest crowd, on either side. Each bet is a likelihood ratio, so its wealth is a nonnegative supermartingale while
all are honest. So is the mean of the four. By Ville's inequality, the mean ever reaches k (k + 1) / DELTA with a
probability of at most DELTA / (k (k + 1)). Here k numbers the pairs of block and arm in the order in which they begin.
The sum over all k is DELTA: the probability of a false alarm on a day, for an experiment and a process.

Blocks are in memory alone, as digests under a random key, and are dropped every day.
"""

from __future__ import annotations

import math
import os
import time
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from maskedbandits.service.shared_table import SharedTable
from maskedbandits.service.state import get_mask

DELTA = 1e-4  # of a false alarm on a day
DAY_S = 86_400  # for which pairs of block and arm are counted, and an alarm is shown
MAX_PAIRS = 20_000  # that an experiment has in memory: beyond that, those without a report for longest begin again
SHARES = (0.5, 0.1)  # of the honest frequency of the rarer bit, on which bets are placed
BETS = 2 * len(SHARES)  # on too many ones, and on too many zeros
DIGEST_BYTES = 12

Bets = tuple[float, ...]


@lru_cache(maxsize=1024)
def compute_gains(epsilon: int) -> tuple[Bets, Bets]:
    """Return what a zero and a one add to the logarithm of each wealth, at an epsilon in millionths."""
    mask = get_mask(epsilon)
    zero: list[float] = []
    one: list[float] = []
    for rare, (of_rare, of_common) in ((1.0 - mask.p11, (zero, one)), (1.0 - mask.p00, (one, zero))):
        of_rare += [math.log(share) for share in SHARES]
        of_common += [math.log((1.0 - share * rare) / (1.0 - rare)) for share in SHARES]
    return tuple(zero), tuple(one)


class Pair(NamedTuple):
    """A block and an arm: the number in which it began, and the logarithm of each wealth."""

    number: int
    wealths: Bets = (0.0,) * BETS

    def observe(self, gains: Bets) -> Pair:
        """Return the pair after a report."""
        return Pair(self.number, tuple(wealth + gain for wealth, gain in zip(self.wealths, gains, strict=True)))

    @property
    def is_unmasked(self) -> bool:
        """Whether the mean wealth has reached what honest crowds hardly ever reach."""
        most = max(self.wealths)
        mean = most + math.log(sum(math.exp(wealth - most) for wealth in self.wealths) / BETS)
        return mean >= math.log(self.number * (self.number + 1) / DELTA)


class UnmaskedTest:
    """The test of one experiment in one process."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._pairs: dict[bytes, Pair] = {}  # the one without a report for longest comes first
        self._begun, self._day = 0, 0

    def observe(self, block: str, arm: int, bit: int, epsilon: int, now: float) -> bool:
        """Count a report; return True if the reports of its block are not masked."""
        if int(now // DAY_S) != self._day:
            self._day, self._begun, self._pairs = int(now // DAY_S), 0, {}
        name = blake2b(b"%d %s" % (arm, block.encode()), key=self._key, digest_size=DIGEST_BYTES).digest()
        pair = self._pairs.pop(name, None)
        if pair is None:
            self._begun += 1
            pair = Pair(self._begun)
        pair = pair.observe(compute_gains(epsilon)[bit])
        if pair.is_unmasked:  # it begins again, so that the alarm goes on while the lies do
            return True
        self._pairs[name] = pair
        if len(self._pairs) > MAX_PAIRS:
            del self._pairs[next(iter(self._pairs))]
        return False


class UnmaskedAlarms:
    """The alarms of all workers."""

    def __init__(self, table: SharedTable | None = None) -> None:
        self._table = table or SharedTable()  # holds until when the alarm of an experiment is shown

    def raise_alarm(self, experiment: int) -> bool:
        """Raise the alarm of an experiment for 24 hours; return True if it is not raised yet."""
        was_raised = self.is_raised(experiment)
        self._table.update(_name(experiment), lambda until: time.monotonic() + DAY_S)
        return not was_raised

    def is_raised(self, experiment: int) -> bool:
        """Tell whether some worker has raised the alarm in the last 24 hours."""
        return self._table.get(_name(experiment)) > time.monotonic()


def _name(experiment: int) -> bytes:
    return b"unmasked %d" % experiment
