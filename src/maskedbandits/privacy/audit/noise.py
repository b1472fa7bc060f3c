"""Tests of the noise, input xor report: every report must be masked alike and independently.

In every chosen context (``contexts.py``), and in every run, a 0 and a 1 must be reported as stated, and no less
privately than claimed: earlier lines are known to their sender, and a report must hide its input from that sender, too.
Where a context depends on earlier flips, its number of lines depends on them as well. So a number is fixed in advance,
and only the first lines up to it count: they are independent, and the bounds hold as for others.

Noise may also be too even: dealt from a deck, so that in some lines, or in a whole run, exactly as many are flipped as
expected. The number of blocks that come that close is binomial with a known probability. And noise may follow from the
name of a decision: some names are the same in all runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from scipy.special import erfinv
from scipy.stats import binom

from maskedbandits.privacy.audit import contexts
from maskedbandits.privacy.audit.contexts import MIN_CONTEXT_LINES, ContextCandidate, Members, RunLines
from maskedbandits.privacy.audit.result import Channel, EvenBlocks, NameNoise, NoiseFindings
from maskedbandits.privacy.audit.statistics import BLOCK_LENGTHS, RUNS, Bits, Ints, build_event, clopper_pearson_lower

MARGIN = 0.9  # of the expected lines of a context, that count
MIN_BLOCK_LINES = 8  # other blocks are twice as long, and so on, up to whole runs
CLOSE_SHARE = 0.4  # of blocks, by chance
RARE_CHANCE = 1e-8  # that all blocks are close, where there are few
MIN_NAMED_DECISIONS = 50  # that all runs share


def judge_noise(
    runs: Sequence[RunLines], shared_runs: Sequence[RunLines], claimed: Fraction, level: float
) -> NoiseFindings:
    """Judge the noise. Every run has its own decisions, and some that all runs share."""
    rate = 1 / (1 + math.exp(claimed))
    return NoiseFindings(
        contexts=tuple(judge_contexts(runs, claimed, level)),
        blocks=tuple(judge_evenness(runs, rate)),
        names=judge_names(shared_runs, rate, level) if shared_runs and shared_runs[0].bits.size else None,
        level=level,
    )


def judge_contexts(runs: Sequence[RunLines], claimed: Fraction, level: float) -> Iterator[Channel]:
    """Yield the contexts that half of the runs chose, as counted in the other half, and every run."""
    choosing, testing = runs[::2], runs[1::2]
    share = sum(run.bits.size for run in testing) / sum(run.bits.size for run in choosing)
    for candidate in choose_contexts(choosing):
        members = [candidate.context.members(run) for run in testing]
        limits = compute_limits(candidate, share) if candidate.context.depends else None
        yield from judge_context(candidate.context.name, testing, members, claimed, level, limits)
    for number, run in enumerate(runs, 1):
        members = [np.ones(run.bits.size, dtype=np.bool_)]
        yield from judge_context(f"in run {number}", [run], members, claimed, level, None)


def choose_contexts(runs: Sequence[RunLines]) -> list[ContextCandidate]:
    """Return the contexts that differ most from the rest, a few of each kind."""
    rates = contexts.compute_flip_rates(runs)
    if not np.all((rates > 0) & (rates < 1)):
        return []
    kinds = (
        contexts.search_positions(runs, rates),
        contexts.search_last_lines(runs, rates),
        contexts.search_distances(runs, rates),
        contexts.search_counts(runs, of_flips=True),
        contexts.search_cubes(runs, rates, contexts.LAST_INPUT_FEATURES),
        contexts.search_parities(runs, rates, contexts.LAST_INPUT_FEATURES),
        contexts.search_cubes(runs, rates, contexts.LAST_LINE_FEATURES),
        contexts.search_parities(runs, rates, contexts.LAST_LINE_FEATURES),
        contexts.search_pairs(runs, rates),
        contexts.search_input_distances(runs, rates),
        contexts.search_windows(runs, rates),
        contexts.search_counts(runs, of_flips=False),
    )
    return [found for kind in kinds for found in contexts.select_most_different(list(kind), rates)]


def compute_limits(candidate: ContextCandidate, share: float) -> Ints:
    """Return how many lines of each input count."""
    limits: Ints = np.floor(MARGIN * share * candidate.lines).astype(np.int64)
    return limits


def judge_context(
    name: str,
    runs: Sequence[RunLines],
    members: Sequence[Members],
    claimed: Fraction,
    level: float,
    limits: Ints | None,
) -> Iterator[Channel]:
    """Yield the channel of a context, unless it has fewer lines than fixed in advance."""
    bits = np.concatenate([run.bits[chosen] for run, chosen in zip(runs, members, strict=True)])
    flips = np.concatenate([run.flips[chosen] for run, chosen in zip(runs, members, strict=True)])
    flips_by_input = [flips[bits == bit] for bit in (0, 1)]
    wanted = np.array([part.size for part in flips_by_input]) if limits is None else limits
    if min(wanted) < MIN_CONTEXT_LINES or any(
        part.size < most for part, most in zip(flips_by_input, wanted, strict=True)
    ):
        return
    flipped = [int(part[:most].sum()) for part, most in zip(flips_by_input, wanted, strict=True)]
    ones = np.array([flipped[0], wanted[1] - flipped[1]])
    zero, one = (
        build_event(f"report 0 {name}", wanted - ones, wanted, level),
        build_event(f"report 1 {name}", ones, wanted, level),
    )
    yield Channel(name, zero, one, claimed, None)


def judge_evenness(runs: Sequence[RunLines], rate: float) -> Iterator[EvenBlocks]:
    """Yield how many blocks are close to their expected flips, for doubling lengths and whole runs."""
    size = min(run.flips.size for run in runs)
    lengths = [MIN_BLOCK_LINES << power for power in range(BLOCK_LENGTHS - 1) if MIN_BLOCK_LINES << power < size]
    for length in [*lengths, size]:
        sums = np.concatenate([sum_blocks(run.flips, length) for run in runs])
        low, high = find_close_range(length, rate, sums.size)
        share = float(binom.cdf(high, length, rate) - binom.cdf(low - 1, length, rate))
        close = int(np.count_nonzero((sums >= low) & (sums <= high)))
        yield EvenBlocks(length, sums.size, close, float(binom.sf(close - 1, sums.size, share)))


def sum_blocks(flips: Bits, length: int) -> Ints:
    """Return the flips in each complete block of a run."""
    whole = flips[: flips.size // length * length]
    total: Ints = whole.reshape(-1, length).sum(axis=1, dtype=np.int64)
    return total


def find_close_range(length: int, rate: float, blocks: int) -> tuple[int, int]:
    """Return the range of flips that is close to the expected number, narrower with few blocks."""
    share = min(CLOSE_SHARE, RARE_CHANCE ** (1 / blocks))
    reach = math.sqrt(2 * length * rate * (1 - rate)) * float(erfinv(share))
    mean, reach = length * rate, max(reach, 0.5)
    return math.ceil(mean - reach), math.floor(mean + reach)


def choose_names_length(claimed: float, trials: int, level: float) -> int:
    """Return how many decisions all runs share, enough to detect noise that follows from names."""
    false = 1 / (1 + math.exp(claimed))
    agree = 1 - 2 * false * (1 - false)
    pairs = RUNS // 2
    return min(trials // RUNS, max(MIN_NAMED_DECISIONS, math.ceil(math.log(level / 100) / math.log(agree) / pairs)))


def judge_names(runs: Sequence[RunLines], rate: float, level: float) -> NameNoise:
    """Return how often two runs have the same noise for decisions of the same name with independent inputs.

    A program that stores a decision across runs repeats its report, not its noise: that agrees half of the time.
    """
    same = np.concatenate([one.flips == other.flips for one, other in zip(runs[::2], runs[1::2], strict=True)])
    count, size = np.array(np.count_nonzero(same)), np.array(same.size)
    return NameNoise(int(size), int(count), 1 - 2 * rate * (1 - rate), float(clopper_pearson_lower(count, size, level)))
