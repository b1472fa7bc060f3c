"""Many short starts of a program: seeds from a small range, standard error, exit codes and time.

- Seeds: every long start reads the same opening. Two starts with one seed answer it alike. Of n starts with a seed of
  16 bits, n^2 / 131072 pairs do on average. Some starts run in process namespaces of their own, where the system allows
  that, so that all have the same process number: there, a seed from that number shows.
- Time: after the opening comes a tail, all zeros or all ones, drawn for each start. How long a start takes must not
  depend on it (Mann and Whitney's test).
- Standard error and exit codes: other starts read one line, or the first lines of the opening and one line more. What
  they write on standard error, its last line, its length and the exit code must not depend on the last bit, given its
  report: exact tests of whether each is its most frequent value. The lines before are the same for all starts, and
  reports on them are drawn without the last bit, so a program may log all its reports.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from threading import Timer
from typing import IO, NamedTuple

import numpy as np
from scipy.stats import hypergeom, mannwhitneyu

from maskedbandits._util.signals import caught_signals
from maskedbandits.privacy.audit import program
from maskedbandits.privacy.audit.bit_inputs import balanced
from maskedbandits.privacy.audit.seeds import CHANCE
from maskedbandits.privacy.audit.statistics import Bits, highest, lowest

MOST_STARTS = 1536  # by default: a seed of 16 bits is missed once in 10^7 times
TRIALS_A_START = 650  # trials for each start, by default
FEWEST_STARTS = 32
BEFORE = (0, 1, 64)  # lines that are the same for all, before the one line that is not
SINGLE = 96  # starts for each of these
NUMBERED = 16  # starts with one process number
TAIL = 500  # lines
MOST_READ = 1 << 26  # bytes
LONGEST_OPENING = 2000  # lines
TESTS = 5  # that share the level: time, standard error, its last line and length, exit codes

ALONE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")


@dataclass(frozen=True)
class Starts:
    """What many short starts have shown."""

    starts: int  # long ones
    single: int  # those that differ in one line
    lines: int  # of the opening
    same: int  # starts that answered the opening as another one did
    numbered: int  # starts with one process number, none where the system does not allow that
    same_numbered: int
    chance: float  # at most, that two independent starts agree
    depends: bool  # whether answers depend on inputs
    chances: dict[str, float]  # by what may tell the input
    level: float

    @property
    def telling(self) -> bool:
        """Tell whether the opening was long enough to judge by."""
        return self.chance <= CHANCE

    @property
    def fixed(self) -> bool:
        """Tell whether seeds come from a small range, or from the process number."""
        return self.telling and self.depends and self.same + self.same_numbered > 0

    @property
    def leaks(self) -> tuple[str, ...]:
        """What tells the input beside the reports."""
        return tuple(name for name, chance in self.chances.items() if chance < self.level)


def default_starts(trials: int) -> int:
    """Return how many starts an audit makes unless asked otherwise."""
    wanted = min(MOST_STARTS, trials // TRIALS_A_START)
    return wanted if wanted >= FEWEST_STARTS else 0


def opening_lines(claimed: float, starts: int) -> int:
    """Return on how many lines independent starts hardly ever agree."""
    agree = -math.log1p(math.exp(-claimed))
    return min(LONGEST_OPENING, math.ceil(2 * math.log(CHANCE / (starts * starts)) / agree))


def try_starts(
    command: str, claimed: float, starts: int, timeout: float, side: float, watch: Callable[[float], None]
) -> Starts:
    """Start a program many times, and judge what it does."""
    opening = balanced(opening_lines(claimed, starts) // 2)
    numbered = NUMBERED if has_namespaces() else 0
    tails, singles = balanced((starts + 1) // 2)[:starts], [balanced(SINGLE // 2) for _ in BEFORE]
    texts = [program.text_of(np.concatenate([opening, np.full(TAIL, bit, dtype=np.uint8)]), b"", 1) for bit in (0, 1)]
    asked = [(texts[bit], ()) for bit in tails] + [(texts[k % 2], ALONE) for k in range(numbered)]
    for before, bits in zip(BEFORE, singles, strict=True):
        asked += [(program.text_of(np.append(opening[:before], bit), b"", 1), ()) for bit in bits]
    seen = begin_each(command, asked, timeout, watch)
    long, alone, short = seen[:starts], seen[starts : starts + numbered], seen[starts + numbered :]
    answers = [start.out.split(b"\n") for start in long]
    chance, depends = agreement(answers, opening, tails)
    zeros, ones = (
        [start.seconds for start, bit in zip(long, tails.tolist(), strict=True) if bit == asked_bit]
        for asked_bit in (0, 1)
    )
    chances = {"the time that it takes": float(mannwhitneyu(zeros, ones, method="asymptotic").pvalue)}
    chances |= side_channels(short, singles)
    return Starts(
        starts=starts,
        single=len(short),
        lines=opening.size,
        same=alike([run[: opening.size] for run in answers]),
        numbered=numbered,
        same_numbered=alike([start.out.split(b"\n")[: opening.size] for start in alone]),
        chance=chance,
        depends=depends,
        chances=chances,
        level=side / 2 / TESTS,  # the other half is for rewards between 0 and 1
    )


def side_channels(short: Sequence[Ended], singles: Sequence[Bits]) -> dict[str, float]:
    """Return how likely each of what else a start does tells the last bit as much by chance, after any opening."""
    kinds: dict[str, Callable[[Ended], Hashable]] = {
        "what it writes on standard error": lambda start: start.errors,
        "the last line that it writes on standard error": lambda start: start.errors.rstrip().rpartition(b"\n")[2],
        "how much it writes on standard error": lambda start: len(start.errors),
        "its exit code": lambda start: start.code,
    }
    chances = dict.fromkeys(kinds, 1.0)
    for place, (before, bits) in enumerate(zip(BEFORE, singles, strict=True)):
        ended = short[SINGLE * place : SINGLE * (place + 1)]
        reports = [b"\n".join(start.out.split(b"\n")[before:]) for start in ended]
        for name, kind in kinds.items():
            chance = len(BEFORE) * dependence([kind(start) for start in ended], bits, reports)  # one level for all
            chances[name] = min(chances[name], chance)
    return chances


class Ended(NamedTuple):
    """What one short start did."""

    out: bytes
    errors: bytes
    code: int
    seconds: float


def begin_each(
    command: str,
    asked: Sequence[tuple[bytes, Sequence[str]]],
    timeout: float,
    watch: Callable[[float], None],
) -> list[Ended]:
    """Start the program on each text, one start after the other, perhaps by another command; any exit code is taken."""
    words, found = program.split(command), []
    with caught_signals() as signals:
        for number, (text, by) in enumerate(asked):
            runs: list[program.Run] = []
            with ExitStack() as files:
                try:
                    begun = time.monotonic()
                    program.start([*by, *words], text, text.count(b"\n"), runs, files, signals)
                    late = Timer(timeout, program.end_group, [runs[0]])
                    late.daemon = True
                    late.start()
                    code = runs[0].process.wait()
                    seconds = time.monotonic() - begun
                    late.cancel()
                finally:
                    signals.held = True
                    program.stop(runs)
                    for run in runs:
                        program.end_group(run)  # what it left behind
                    signals.held = False
                signals.raise_noted()
                if seconds >= timeout:
                    program.refuse(
                        f"a short start of the program has not ended after {timeout:g} s: give it more with --timeout"
                    )
                out, errors = (read_all(file) for file in (runs[0].out, runs[0].errors))
                found.append(Ended(out, errors, code, seconds))
            watch((number + 1) / len(asked))
    return found


def read_all(file: IO[bytes]) -> bytes:
    """Return what was written, up to a limit."""
    file.seek(0)
    return file.read(MOST_READ)


@cache
def has_namespaces() -> bool:
    """Tell whether programs can be started with a process number of their own choice."""
    if shutil.which(ALONE[0]) is None:
        return False
    return subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0  # noqa: S603 -- ours


def alike(answers: Sequence[list[bytes]]) -> int:
    """Return how many starts answered as another one did."""
    times = Counter(map(tuple, answers))
    return sum(count for count in times.values() if count > 1)


def agreement(answers: Sequence[list[bytes]], opening: Bits, tails: Bits) -> tuple[float, bool]:
    """Return how likely any two independent starts agree at most, and whether answers depend on inputs."""
    seen: list[Counter[bytes]] = [Counter(), Counter()]
    for run, bit in zip(answers, tails.tolist(), strict=True):
        seen[bit].update(run[opening.size : opening.size + TAIL])
    if not all(seen):
        return 1.0, False
    totals = [np.array(sum(counter.values())) for counter in seen]
    agree = 0.0
    for bit, (counter, total) in enumerate(zip(seen, totals, strict=True)):
        most = float(highest(np.array(max(counter.values())), total, CHANCE))
        agree += np.count_nonzero(opening == bit) * math.log(most)
    pairs = len(answers) ** 2 / 2 + NUMBERED**2 / 2
    common = max(seen[0], key=lambda report: abs(seen[0][report] / totals[0] - seen[1][report] / totals[1]))
    hits = [np.array(counter[common]) for counter in seen]
    lows = [float(lowest(hit, total, CHANCE)) for hit, total in zip(hits, totals, strict=True)]
    highs = [float(highest(hit, total, CHANCE)) for hit, total in zip(hits, totals, strict=True)]
    return min(1.0, math.exp(agree) * pairs), lows[0] > highs[1] or lows[1] > highs[0]


def dependence(values: Sequence[Hashable], bits: Bits, reports: Sequence[bytes]) -> float:
    """Return how likely the most frequent value depends as much on the bit by chance, given the reports.

    Among the starts with one report, if it does not depend on the bit, the number of ones that have the value is
    hypergeometric. These numbers are added up over all reports.
    """
    common, _ = Counter(values).most_common(1)[0]
    has = np.array([value == common for value in values])
    share, seen = np.ones(1), 0
    for report in set(reports):
        inside = np.array([one == report for one in reports])
        size, ones, having = inside.sum(), int(bits[inside].sum()), int(has[inside].sum())
        share = np.convolve(share, hypergeom.pmf(np.arange(ones + 1), size, having, ones))
        seen += int((has & inside & (bits == 1)).sum())
    return float(min(1.0, 2 * min(share[: seen + 1].sum(), share[seen:].sum())))
