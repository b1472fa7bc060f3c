"""Whether every report is masked alike and on its own: the noise, input xor report, in contexts, in runs, and in sums.

In every context that was chosen (``contexts.py``), and in every run, a 0 and a 1 must be reported as stated, and no
less privately than claimed: earlier lines are known to whoever asked them, and a report must hide its input from them,
too. Where a context depends on earlier flips, how many lines it has depends on them as well. So a number is fixed
beforehand, and as many lines are looked at, the first ones: they are independent, and the bounds hold as for others.

Noise may also be too even: dealt from a deck, so that in some lines, or in a whole run, just as many are flipped as
there should be. The number of blocks that come that close is binomial, with a probability that is known. And it may
follow from the name of a decision: some names are the same in all runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from scipy.special import erfinv
from scipy.stats import binom

from maskedbandits.privacy.audit import contexts, input_history
from maskedbandits.privacy.audit.contexts import FEWEST, Candidate, Lines, Members
from maskedbandits.privacy.audit.result import Channel, Even, Names, Noise
from maskedbandits.privacy.audit.statistics import BLOCKS, RUNS, Bits, Ints, event, lowest

MARGIN = 0.9  # of the lines to be expected in a context, that are looked at
SHORTEST = 8  # lines of a block; others are twice as long, and so on, and whole runs
CLOSE = 0.4  # share of blocks that come close to what they should be by chance
RARE = 1e-8  # chance that all do, where there are few
NAMES = 50  # decisions that all runs have, at least


def noise_of(runs: Sequence[Lines], asked_again: Sequence[Lines], claimed: Fraction, level: float) -> Noise:
    """Return what is seen of the noise; every run was asked other decisions, and some that all were asked."""
    rate = 1 / (1 + math.exp(claimed))
    return Noise(
        contexts=tuple(judged_contexts(runs, claimed, level)),
        blocks=tuple(evenness(runs, rate)),
        names=names_of(asked_again, rate, level) if asked_again and asked_again[0].bits.size else None,
        level=level,
    )


def judged_contexts(runs: Sequence[Lines], claimed: Fraction, level: float) -> Iterator[Channel]:
    """Yield what was seen in the contexts that half of the runs chose, by the other half, and in every run."""
    choosing, testing = runs[::2], runs[1::2]
    share = sum(run.bits.size for run in testing) / sum(run.bits.size for run in choosing)
    for candidate in chosen_contexts(choosing):
        members = [candidate.context.members(run) for run in testing]
        limits = limits_of(candidate, share) if candidate.context.depends else None
        yield from seen(candidate.context.name, testing, members, claimed, level, limits)
    for number, run in enumerate(runs, 1):
        members = [np.ones(run.bits.size, dtype=np.bool_)]
        yield from seen(f"in run {number}", [run], members, claimed, level, None)


def chosen_contexts(runs: Sequence[Lines]) -> list[Candidate]:
    """Return the contexts that differ most from the rest, a few of each kind."""
    rates = contexts.flip_rates(runs)
    if not np.all((rates > 0) & (rates < 1)):
        return []
    kinds = (
        contexts.positions(runs, rates),
        contexts.last_lines(runs, rates),
        contexts.distances(runs, rates),
        contexts.sums(runs),
        input_history.cubes(runs, rates, input_history.LAST_INPUTS),
        input_history.parities(runs, rates, input_history.LAST_INPUTS),
        input_history.cubes(runs, rates, input_history.LAST_LINES),
        input_history.parities(runs, rates, input_history.LAST_LINES),
        input_history.pairs(runs, rates),
        input_history.input_distances(runs, rates),
        input_history.windows(runs, rates),
        input_history.input_sums(runs),
    )
    return [found for kind in kinds for found in contexts.most_different(list(kind), rates)]


def limits_of(candidate: Candidate, share: float) -> Ints:
    """Return how many lines of each input are looked at."""
    limits: Ints = np.floor(MARGIN * share * candidate.lines).astype(np.int64)
    return limits


def seen(
    name: str,
    runs: Sequence[Lines],
    members: Sequence[Members],
    claimed: Fraction,
    level: float,
    limits: Ints | None,
) -> Iterator[Channel]:
    """Yield what was seen in a context, unless it has fewer lines than were to be looked at."""
    bits = np.concatenate([run.bits[chosen] for run, chosen in zip(runs, members, strict=True)])
    flips = np.concatenate([run.flips[chosen] for run, chosen in zip(runs, members, strict=True)])
    given = [flips[bits == bit] for bit in (0, 1)]
    wanted = np.array([part.size for part in given]) if limits is None else limits
    if min(wanted) < FEWEST or any(part.size < most for part, most in zip(given, wanted, strict=True)):
        return
    flipped = [int(part[:most].sum()) for part, most in zip(given, wanted, strict=True)]
    ones = np.array([flipped[0], wanted[1] - flipped[1]])
    zero, one = event(f"report 0 {name}", wanted - ones, wanted, level), event(f"report 1 {name}", ones, wanted, level)
    yield Channel(name, zero, one, claimed, None)


def evenness(runs: Sequence[Lines], rate: float) -> Iterator[Even]:
    """Yield how many blocks come close to what they should be, for blocks that double in length, and for whole runs."""
    size = min(run.flips.size for run in runs)
    lengths = [SHORTEST << power for power in range(BLOCKS - 1) if SHORTEST << power < size]
    for length in [*lengths, size]:
        sums = np.concatenate([block_sums(run.flips, length) for run in runs])
        low, high = close_to(length, rate, sums.size)
        share = float(binom.cdf(high, length, rate) - binom.cdf(low - 1, length, rate))
        close = int(np.count_nonzero((sums >= low) & (sums <= high)))
        yield Even(length, sums.size, close, float(binom.sf(close - 1, sums.size, share)))


def block_sums(flips: Bits, length: int) -> Ints:
    """Return the flips in each block of a run; what is left over is left out."""
    whole = flips[: flips.size // length * length]
    total: Ints = whole.reshape(-1, length).sum(axis=1, dtype=np.int64)
    return total


def close_to(length: int, rate: float, blocks: int) -> tuple[int, int]:
    """Return from where to where flips are close to what they should be: nearer where there are few blocks."""
    share = min(CLOSE, RARE ** (1 / blocks))
    reach = math.sqrt(2 * length * rate * (1 - rate)) * float(erfinv(share))
    mean, reach = length * rate, max(reach, 0.5)
    return math.ceil(mean - reach), math.floor(mean + reach)


def names_length(claimed: float, trials: int, level: float) -> int:
    """Return how many decisions all runs are asked, so that noise that follows from their names can be told."""
    false = 1 / (1 + math.exp(claimed))
    agree = 1 - 2 * false * (1 - false)
    pairs = RUNS // 2
    return min(trials // RUNS, max(NAMES, math.ceil(math.log(level / 100) / math.log(agree) / pairs)))


def names_of(runs: Sequence[Lines], rate: float, level: float) -> Names:
    """Return how often two runs have the same noise for decisions of the same name, whose inputs are drawn anew.

    Who remembers a decision from another run repeats its report, not its noise: that is the same half of the time.
    """
    same = np.concatenate([one.flips == other.flips for one, other in zip(runs[::2], runs[1::2], strict=True)])
    count, size = np.array(np.count_nonzero(same)), np.array(same.size)
    return Names(int(size), int(count), 1 - 2 * rate * (1 - rate), float(lowest(count, size, level)))
