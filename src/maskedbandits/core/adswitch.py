"""AdSwitch (Auer, Gajane and Ortner 2019): near-optimal regret under changes, without knowing how many there are.

It plays in episodes. In an episode arms are good until evicted, and the good ones are pulled in turn. With n_I(a) and
m_I(a) the number and the mean of the arm's gains in an interval I of time, T the horizon, l the number of the episode:

    evict    a good arm a if for some s: max m_[s,t] over good arms - m_[s,t](a) > sqrt(C log T / (n_[s,t](a) - 1));
             remember m~(a) = m_[s,t](a) and the gap D~(a) on the left
    check    an evicted arm, with probability 2^-i sqrt(l / (K T log T)) a step for each i with 2^-i >= D~(a) / F, by
             pulling it in turn with the good arms until it has ceil(2^(2i+1) log T) more gains
    restart  with a new episode if the gains of a good arm contradict themselves: for some s and [s', t']
             |m_[s',t'] - m_[s,t]| > sqrt(2 log T / n_[s',t']) + sqrt(2 log T / n_[s,t]), or if an evicted arm has
             changed: for some s, |m_[s,t] - m~| > D~ / 4 + sqrt(2 log T / n_[s,t])

C = F = 16 in the proof, and by default. They are dear: on means (.9, .4, .3) that never change, regret is 77 % of that
of uniform play at T = 10^5, 44 % at 10^6 and 16 % at 10^7; under epsilon = 1 it is 90, 66 and 29 %. C = F = 2 leaves
13 % and 35 % at T = 10^5.

**What differs from the paper.** All starts s would cost O(K t) a step, all intervals more. Here s runs over a grid:
with n steps played in the episode, s = (floor(n / 2^j) - 1) 2^j for every j with 2^j <= n, and, for an evicted arm, the
beginning of its present check. So at least a quarter of any interval up to now is seen, which costs a constant factor
of what is needed to notice a change; [s', t'] runs over all intervals [s, t] seen so far. For these it is enough to
keep the highest lower and the lowest upper end of the confidence intervals. A step costs O(K log t) while several arms
are good, and O(K + log t) once one is left. An arm evicted on a long interval is no longer compared on shorter ones. Of
several checks that begin at once only the longest is drawn: it covers the others.

Gains are debiased feedbacks, shrunk to [0, 1] (``corruption.gain``), so that T and C mean what they do in the paper.
"""

import math
from typing import NamedTuple

from maskedbandits.core import corruption, lots
from maskedbandits.core.compiled import compiled, inlined
from maskedbandits.core.lots import Words
from maskedbandits.core.state import ALARMS, ARMS, FLOOR, OWN_HEAD, SINCE, TIME, WIDTH, Floats, Solo

LOG, RATE, STRICTNESS, FINEST = range(2, 6)  # places among the parameters: log T, 1 / sqrt(K T log T), C, F
ROWS = 9  # of one number per arm, see Book
# In the grid, for each level j: count and sum at the last multiple of 2^j steps, and at the one before
LAST_COUNT, LAST_SUM, START_COUNT, START_SUM, GRID_ROWS = range(5)
LEVELS = 48  # enough for any episode
FAR = 1e9  # beyond any confidence interval of a gain


class Book(NamedTuple):
    """Views over what is gathered of an episode, beside the counts."""

    sums: Floats  # (K,) gains
    lowest: Floats  # (K,) highest lower end of a confidence interval so far
    highest: Floats  # (K,) lowest upper end
    evicted: Floats  # (K,) 1 if evicted
    means: Floats  # (K,) what an evicted arm had
    gaps: Floats  # (K,) and by how much that was less than the best
    quotas: Floats  # (K,) the count up to which it is pulled
    check_counts: Floats  # (K,) count and sum when its check began
    check_sums: Floats
    grid: Floats  # (LEVELS * GRID_ROWS * K,)


def size(arms: int) -> int:
    """Return how many numbers it keeps."""
    return OWN_HEAD + arms * (ROWS + GRID_ROWS * LEVELS)


@inlined
def _book(state: Solo) -> Book:
    arms = state.head[ARMS]
    own = state.own[OWN_HEAD:]
    return Book(
        sums=own[:arms],
        lowest=own[arms : 2 * arms],
        highest=own[2 * arms : 3 * arms],
        evicted=own[3 * arms : 4 * arms],
        means=own[4 * arms : 5 * arms],
        gaps=own[5 * arms : 6 * arms],
        quotas=own[6 * arms : 7 * arms],
        check_counts=own[7 * arms : 8 * arms],
        check_sums=own[8 * arms : 9 * arms],
        grid=own[9 * arms :],
    )


@inlined
def _place(arms: int, level: int, row: int, arm: int) -> int:
    """Return where a number of the grid is."""
    return (GRID_ROWS * level + row) * arms + arm


@compiled
def _depth(state: Solo) -> int:
    """Return how many levels of the grid have a start in this episode."""
    played = state.head[TIME] - state.head[SINCE]
    depth = 0
    while depth < LEVELS and played >> depth > 0:
        depth += 1
    return depth


@compiled
def start(state: Solo) -> None:
    """Begin an episode: all arms are good, and nothing is known."""
    state.own[OWN_HEAD:] = 0.0
    state.counts[:] = 0.0
    state.sums[:] = 0.0
    state.head[SINCE] = state.head[TIME]
    book = _book(state)
    book.lowest[:] = -FAR
    book.highest[:] = FAR


@inlined
def _waiting(state: Solo, book: Book, arm: int) -> int:
    if book.evicted[arm] > 0.0 and state.counts[arm] >= book.quotas[arm]:
        return -1
    return state.head[TIME] - state.last[arm]


@compiled
def score(state: Solo, arm: int) -> float:
    """Return the steps for which the arm has been waiting, if it is in turn at all, or else -1."""
    return float(_waiting(state, _book(state), arm))


@compiled
def decide(state: Solo) -> int:
    """Return the arm that waits longest among the good ones and those that are checked."""
    book = _book(state)
    longest = -1
    chosen = 0
    for arm in range(state.head[ARMS]):
        waiting = _waiting(state, book, arm)
        if waiting > longest:
            longest = waiting
            chosen = arm
    return chosen


@compiled
def observe(state: Solo, arm: int, feedback: float, words: Words) -> None:
    """Take in a gain, counted already; restart, evict, or draw what to check in the next step."""
    book = _book(state)
    floor, width = state.own[FLOOR], state.own[WIDTH]
    book.sums[arm] += corruption.gain(feedback, state.lows[arm], state.rates[arm], floor, width)
    state.last[arm] = state.head[TIME]
    depth = _depth(state)
    _move_grid(state.counts, book, state.head[TIME] - state.head[SINCE], depth)
    good = book.evicted[arm] == 0.0
    log = state.own[LOG]
    count = state.counts[arm]
    if _contradicts_itself(book, arm, count, log, depth) if good else _has_changed(book, arm, count, log, depth):
        state.head[ALARMS] += 1
        start(state)
        return
    if good:
        _evict(state.counts, book, state.own[STRICTNESS] * log, depth)
    rate = state.own[RATE] * math.sqrt(state.head[ALARMS] + 1.0)
    _draw_checks(state.counts, book, rate, log, state.own[FINEST], words)


@compiled
def _move_grid(counts: Floats, book: Book, played: int, depth: int) -> None:
    """Note counts and sums at the levels whose multiple has come."""
    arms = counts.size
    grid = book.grid
    for level in range(depth):
        if played & ((1 << level) - 1):
            return
        for arm in range(arms):
            grid[_place(arms, level, START_COUNT, arm)] = grid[_place(arms, level, LAST_COUNT, arm)]
            grid[_place(arms, level, START_SUM, arm)] = grid[_place(arms, level, LAST_SUM, arm)]
            grid[_place(arms, level, LAST_COUNT, arm)] = counts[arm]
            grid[_place(arms, level, LAST_SUM, arm)] = book.sums[arm]


@compiled
def _contradicts_itself(book: Book, arm: int, count: float, log: float, depth: int) -> bool:
    """Tell whether two confidence intervals of a good arm have nothing in common."""
    arms = book.sums.size
    for level in range(depth):
        number = count - book.grid[_place(arms, level, START_COUNT, arm)]
        if number > 0.0:
            mean = (book.sums[arm] - book.grid[_place(arms, level, START_SUM, arm)]) / number
            radius = math.sqrt(2.0 * log / number)
            book.lowest[arm] = max(book.lowest[arm], mean - radius)
            book.highest[arm] = min(book.highest[arm], mean + radius)
    return book.lowest[arm] > book.highest[arm]


@inlined
def _is_far(book: Book, arm: int, number: float, total: float, log: float) -> bool:
    """Tell whether gains of an evicted arm are too far from what it had when evicted."""
    if number <= 0.0:
        return False
    return abs(total / number - book.means[arm]) > 0.25 * book.gaps[arm] + math.sqrt(2.0 * log / number)


@compiled
def _has_changed(book: Book, arm: int, count: float, log: float, depth: int) -> bool:
    """Tell whether an evicted arm is no longer what it was."""
    arms = book.sums.size
    total = book.sums[arm]
    if _is_far(book, arm, count - book.check_counts[arm], total - book.check_sums[arm], log):
        return True
    for level in range(depth):
        number = count - book.grid[_place(arms, level, START_COUNT, arm)]
        if _is_far(book, arm, number, total - book.grid[_place(arms, level, START_SUM, arm)], log):
            return True
    return False


@compiled
def _evict(counts: Floats, book: Book, strictness: float, depth: int) -> None:
    """Evict the good arms that are clearly worse than another, on the longest interval that says so."""
    arms = counts.size
    good = 0
    for arm in range(arms):
        if book.evicted[arm] == 0.0:
            good += 1
    if good > 1:
        for level in range(depth - 1, -1, -1):
            at_count, at_sum = _place(arms, level, START_COUNT, 0), _place(arms, level, START_SUM, 0)
            since = book.grid[at_count : at_count + arms], book.grid[at_sum : at_sum + arms]
            _evict_since(counts, book, since[0], since[1], strictness)


@compiled
def _evict_since(counts: Floats, book: Book, since_counts: Floats, since_sums: Floats, strictness: float) -> None:
    best = -FAR
    for arm in range(counts.size):
        if book.evicted[arm] == 0.0 and counts[arm] > since_counts[arm]:
            best = max(best, (book.sums[arm] - since_sums[arm]) / (counts[arm] - since_counts[arm]))
    for arm in range(counts.size):
        number = counts[arm] - since_counts[arm]
        if book.evicted[arm] != 0.0 or number < 2.0:
            continue
        gap = best - (book.sums[arm] - since_sums[arm]) / number
        if gap > math.sqrt(strictness / (number - 1.0)):
            book.evicted[arm] = 1.0
            book.means[arm] = best - gap
            book.gaps[arm] = gap
            book.quotas[arm] = counts[arm]
            book.check_counts[arm] = counts[arm]
            book.check_sums[arm] = book.sums[arm]


@compiled
def _draw_checks(counts: Floats, book: Book, rate: float, log: float, finest: float, words: Words) -> None:
    """Draw, for each evicted arm, the longest check that begins now, if any."""
    for arm in range(counts.size):
        if book.evicted[arm] == 0.0:
            continue
        lot = lots.uniform(words)
        if lot >= rate:  # the probabilities of all lengths add up to less
            continue
        exponent = _longest_check(lot, rate, book.gaps[arm] / finest)
        if exponent == 0:
            continue
        if counts[arm] >= book.quotas[arm]:
            book.check_counts[arm] = counts[arm]
            book.check_sums[arm] = book.sums[arm]
        book.quotas[arm] = max(book.quotas[arm], counts[arm] + math.ceil(2.0 * log * 4.0**exponent))


@compiled
def _longest_check(lot: float, rate: float, least: float) -> int:
    """Return the largest i among the checks that begin, each on its own with probability 2^-i rate; 0 if none does."""
    exponent = 0
    while exponent < 30 and 0.5 ** (exponent + 1) >= least:
        exponent += 1
    none = 1.0
    while exponent > 0:
        none *= 1.0 - min(0.5**exponent * rate, 1.0)
        if lot < 1.0 - none:
            return exponent
        exponent -= 1
    return 0
