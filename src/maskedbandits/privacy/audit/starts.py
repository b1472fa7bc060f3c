"""Many short starts of a program: seeds from a small range, standard error, exit codes, time and fractions.

- Seeds: every long start reads the same opening. Two starts with one seed answer it alike. Of n starts with a seed of
  16 bits, n^2 / 131072 pairs do on average. Some starts run in process namespaces, where the system allows that, so
  that all have the same process number: a seed from that number then shows.
- Time: after the opening comes a tail of all zeros or all ones, drawn for each start. The duration of a start must not
  depend on it (Mann and Whitney's test).
- Standard error and exit codes: other starts read one line, or the first lines of the opening and one line more. What
  they write on standard error, its last line, its length and the exit code must not depend on the last bit, given its
  report: exact tests of whether each is its most frequent value. The lines before are the same for all starts, and
  their reports are independent of the last bit, so a program may log all its reports.
- Fractions: a program that takes rewards between 0 and 1 must hide any two of them from each other, as it hides bits.
  One run reads values in random order. A program that ends with an error, or writes another number of lines, takes bits
  only. No event may be more than e^eps times as likely under one value as under another.
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

from maskedbandits._util.signals import catch_signals
from maskedbandits.privacy.audit import program
from maskedbandits.privacy.audit.inputs import draw_balanced, shuffle
from maskedbandits.privacy.audit.seeds import MAX_CHANCE
from maskedbandits.privacy.audit.statistics import (
    Bits,
    Event,
    build_event,
    clopper_pearson_lower,
    clopper_pearson_upper,
)

MAX_STARTS = 1536  # by default: misses a seed of 16 bits once in 10^7 times
TRIALS_A_START = 650  # by default
MIN_STARTS = 32
SHARED_LINES = (0, 1, 64)  # before the one line that differs between starts
SHORT_STARTS = 96  # for each of these
NUMBERED_STARTS = 16  # with one process number
TAIL_LINES = 500  # lines
MAX_OUTPUT_BYTES = 1 << 26  # bytes
MAX_OPENING_LINES = 2000  # lines
SIDE_TESTS = 5  # that share the level: time, standard error, its last line and length, exit codes
FRACTIONS = ("0", "0.000001", "0.125", "0.25", "0.5", "0.75", "0.875", "1")
BIT_REPORTS = (b"0", b"1")
MAX_FRACTION_LINES = 20_000  # for each value

NAMESPACE_COMMAND = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")


@dataclass(frozen=True)
class Starts:
    """Findings of many short starts."""

    starts: int  # long starts
    single: int  # starts that differ in one line
    lines: int  # of the opening
    same: int  # starts that answered the opening like another one
    numbered: int  # starts with one process number, 0 if the system does not allow that
    same_numbered: int
    chance: float  # an upper bound for two independent starts to agree
    depends: bool  # whether answers depend on inputs
    chances: dict[str, float]  # p-values by side channel
    level: float

    @property
    def is_conclusive(self) -> bool:
        """Tell whether the opening was long enough to judge by."""
        return self.chance <= MAX_CHANCE

    @property
    def is_fixed(self) -> bool:
        """Tell whether seeds come from a small range, or from the process number."""
        return self.is_conclusive and self.depends and self.same + self.same_numbered > 0

    @property
    def leaks(self) -> tuple[str, ...]:
        """Side channels that reveal the input apart from the reports."""
        return tuple(name for name, chance in self.chances.items() if chance < self.level)


def choose_starts(trials: int) -> int:
    """Return the default number of starts."""
    wanted = min(MAX_STARTS, trials // TRIALS_A_START)
    return wanted if wanted >= MIN_STARTS else 0


def count_opening_lines(claimed: float, starts: int) -> int:
    """Return the number of lines on which independent starts hardly ever agree."""
    agree = -math.log1p(math.exp(-claimed))
    return min(MAX_OPENING_LINES, math.ceil(2 * math.log(MAX_CHANCE / (starts * starts)) / agree))


def run_starts(
    command: str, claimed: float, starts: int, timeout: float, side: float, progress: Callable[[float], None]
) -> Starts:
    """Start a program many times, and judge its behaviour."""
    opening = draw_balanced(count_opening_lines(claimed, starts) // 2)
    numbered = NUMBERED_STARTS if has_namespaces() else 0
    tails, singles = draw_balanced((starts + 1) // 2)[:starts], [draw_balanced(SHORT_STARTS // 2) for _ in SHARED_LINES]
    texts = [
        program.format_bits(np.concatenate([opening, np.full(TAIL_LINES, bit, dtype=np.uint8)]), b"", 1)
        for bit in (0, 1)
    ]
    tasks = [(texts[bit], ()) for bit in tails] + [(texts[k % 2], NAMESPACE_COMMAND) for k in range(numbered)]
    for before, bits in zip(SHARED_LINES, singles, strict=True):
        tasks += [(program.format_bits(np.append(opening[:before], bit), b"", 1), ()) for bit in bits]
    finished = run_each(command, tasks, timeout, progress)
    long, alone, short = finished[:starts], finished[starts : starts + numbered], finished[starts + numbered :]
    answers = [start.out.split(b"\n") for start in long]
    chance, depends = judge_agreement(answers, opening, tails)
    zeros, ones = (
        [start.seconds for start, bit in zip(long, tails.tolist(), strict=True) if bit == wanted] for wanted in (0, 1)
    )
    chances = {"the time that it takes": float(mannwhitneyu(zeros, ones, method="asymptotic").pvalue)}
    chances |= judge_side_channels(short, singles)
    return Starts(
        starts=starts,
        single=len(short),
        lines=opening.size,
        same=count_alike([run[: opening.size] for run in answers]),
        numbered=numbered,
        same_numbered=count_alike([start.out.split(b"\n")[: opening.size] for start in alone]),
        chance=chance,
        depends=depends,
        chances=chances,
        level=side / 2 / SIDE_TESTS,  # the other half is for fractions
    )


def judge_side_channels(short: Sequence[FinishedStart], singles: Sequence[Bits]) -> dict[str, float]:
    """Return the p-value of each side channel for the last bit, the least over all openings."""
    kinds: dict[str, Callable[[FinishedStart], Hashable]] = {
        "what it writes on standard error": lambda start: start.errors,
        "the last line that it writes on standard error": lambda start: start.errors.rstrip().rpartition(b"\n")[2],
        "how much it writes on standard error": lambda start: len(start.errors),
        "its exit code": lambda start: start.code,
    }
    chances = dict.fromkeys(kinds, 1.0)
    for number, (before, bits) in enumerate(zip(SHARED_LINES, singles, strict=True)):
        starts = short[SHORT_STARTS * number : SHORT_STARTS * (number + 1)]
        reports = [b"\n".join(start.out.split(b"\n")[before:]) for start in starts]
        for name, kind in kinds.items():
            values = [kind(start) for start in starts]
            chance = len(SHARED_LINES) * compute_dependence(values, bits, reports)  # Bonferroni
            chances[name] = min(chances[name], chance)
    return chances


class FinishedStart(NamedTuple):
    """Outputs, exit code and duration of one short start."""

    out: bytes
    errors: bytes
    code: int
    seconds: float


def run_each(
    command: str,
    tasks: Sequence[tuple[bytes, Sequence[str]]],
    timeout: float,
    progress: Callable[[float], None],
) -> list[FinishedStart]:
    """Start the program on each text in turn, possibly through another command; accept any exit code."""
    words, finished = program.split_command(command), []
    with catch_signals() as signals:
        for number, (text, prefix) in enumerate(tasks):
            runs: list[program.Run] = []
            with ExitStack() as files:
                try:
                    began = time.monotonic()
                    program.start_run([*prefix, *words], text, text.count(b"\n"), runs, files, signals)
                    timer = Timer(timeout, program.kill_group, [runs[0]])
                    timer.daemon = True
                    timer.start()
                    code = runs[0].process.wait()
                    seconds = time.monotonic() - began
                    timer.cancel()
                finally:
                    signals.held = True
                    program.stop_runs(runs)
                    for run in runs:
                        program.kill_group(run)  # its descendants
                    signals.held = False
                signals.raise_noted()
                if seconds >= timeout:
                    program.reject(f"a short start of the program has not ended after {timeout:g} s: raise --timeout")
                out, errors = (read_output(file) for file in (runs[0].out, runs[0].errors))
                finished.append(FinishedStart(out, errors, code, seconds))
            progress((number + 1) / len(tasks))
    return finished


def read_output(file: IO[bytes]) -> bytes:
    """Return what was written, up to a limit."""
    file.seek(0)
    return file.read(MAX_OUTPUT_BYTES)


@cache
def has_namespaces() -> bool:
    """Tell whether programs can be started with a given process number."""
    if shutil.which(NAMESPACE_COMMAND[0]) is None:
        return False
    return subprocess.run([*NAMESPACE_COMMAND, "true"], capture_output=True, check=False).returncode == 0  # noqa: S603 -- a constant


def count_alike(answers: Sequence[list[bytes]]) -> int:
    """Return how many starts answered like another one."""
    times = Counter(map(tuple, answers))
    return sum(count for count in times.values() if count > 1)


def judge_agreement(answers: Sequence[list[bytes]], opening: Bits, tails: Bits) -> tuple[float, bool]:
    """Return an upper bound for two independent starts to agree, and whether answers depend on inputs."""
    seen: list[Counter[bytes]] = [Counter(), Counter()]
    for run, bit in zip(answers, tails.tolist(), strict=True):
        seen[bit].update(run[opening.size : opening.size + TAIL_LINES])
    if not all(seen):
        return 1.0, False
    totals = [np.array(sum(counter.values())) for counter in seen]
    agree = 0.0
    for bit, (counter, total) in enumerate(zip(seen, totals, strict=True)):
        most = float(clopper_pearson_upper(np.array(max(counter.values())), total, MAX_CHANCE))
        agree += np.count_nonzero(opening == bit) * math.log(most)
    pairs = len(answers) ** 2 / 2 + NUMBERED_STARTS**2 / 2
    common = max(seen[0], key=lambda report: abs(seen[0][report] / totals[0] - seen[1][report] / totals[1]))
    hits = [np.array(counter[common]) for counter in seen]
    lows = [float(clopper_pearson_lower(hit, total, MAX_CHANCE)) for hit, total in zip(hits, totals, strict=True)]
    highs = [float(clopper_pearson_upper(hit, total, MAX_CHANCE)) for hit, total in zip(hits, totals, strict=True)]
    return min(1.0, math.exp(agree) * pairs), lows[0] > highs[1] or lows[1] > highs[0]


def compute_dependence(values: Sequence[Hashable], bits: Bits, reports: Sequence[bytes]) -> float:
    """Return the p-value that the most frequent value depends on the bit, given the reports.

    Among the starts with one report, if the value does not depend on the bit, the number of ones that have it is
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


@dataclass(frozen=True)
class FractionFindings:
    """Findings for rewards between 0 and 1; no events if the program takes bits only."""

    lines: int  # for each value
    events: tuple[Event, ...]


def run_fractions(
    command: str, trials: int, timeout: float, side: float, progress: Callable[[float], None]
) -> FractionFindings:
    """Send values to a program, and count its reports of 0, of 1 and of anything else."""
    each = min(trials, MAX_FRACTION_LINES)
    values = shuffle(np.arange(each * len(FRACTIONS)) % len(FRACTIONS))
    text = "".join(f"{FRACTIONS[value]}\n" for value in values.tolist()).encode()
    [finished] = run_each(command, [(text, ())], timeout, progress)
    reports = [line.strip() for line in finished.out.removesuffix(b"\n").split(b"\n")]
    if finished.code or len(reports) != values.size:
        return FractionFindings(each, ())
    readings = np.array(
        [BIT_REPORTS.index(report) if report in BIT_REPORTS else len(BIT_REPORTS) for report in reports]
    )
    names = ("report 0", "report 1", "another report")
    level = side / (2 * len(FRACTIONS) * len(names))  # two bounds for each value
    trials_ = np.full(len(FRACTIONS), each)
    hits = (np.bincount(values[readings == reading], minlength=len(FRACTIONS)) for reading in range(len(names)))
    return FractionFindings(
        each, tuple(build_event(name, hit, trials_, level) for name, hit in zip(names, hits, strict=True))
    )
