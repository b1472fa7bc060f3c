"""Somebody's randomiser as a program: it reads one 0 or 1 a line (or a question), and writes one report a line.

It is started several times at once, so that a generator seeded with a constant, or with the clock, shows. Everything
passes through files: the input is complete before the program starts and ends where the file ends, so no program can
wait for more, and none can block by writing.

Nothing outlives the audit: every run has a process group of its own, which is ended the moment its leader is found to
have ended, before another process can get its number. Signals that would end the audit raise: runs are ended first.
"""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import IO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util.signals import Signals, caught_signals
from maskedbandits.errors import UserError

MOST_LINES = 10**7  # for each input
LONGEST = 256  # characters of a report
NAME_BYTES = 8  # of a decision
MOST_ERRORS = 1 << 20  # bytes
PAUSE = 0.01  # seconds between two looks
SHORTAGE = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # of the machine's, no mistake of the user's


class ProgramError(UserError):
    """The program was started, and its reports cannot be judged."""


class Run(NamedTuple):
    """One start of the program."""

    process: subprocess.Popen[bytes]
    given: IO[bytes]
    out: IO[bytes]
    errors: IO[bytes]
    lines: int


def ask(
    command: str,
    inputs: Sequence[NDArray[np.uint8]],
    retries: int,
    timeout: float,
    watch: Callable[[float], None],
    common: int = 0,
    *,
    any_code: bool = False,
) -> list[list[bytes]]:
    """Start the program once for each sequence of bits, and return the lines that each run wrote.

    The last decisions, as many as are common, have the same names in all runs.
    """
    names = os.urandom(NAME_BYTES * common)
    texts = (
        text_of(bits, (os.urandom(NAME_BYTES * (bits.size - common)) if retries > 1 else b"") + names, retries)
        for bits in inputs
    )
    return answers_to(command, texts, timeout, watch, any_code=any_code)


def answers_to(
    command: str,
    texts: Iterable[bytes],
    timeout: float,
    watch: Callable[[float], None],
    *,
    any_code: bool = False,
) -> list[list[bytes]]:
    """Start the program once for each text, and return the lines that each run wrote, as many as it read."""
    words = split(command)
    runs: list[Run] = []
    with ExitStack() as files, caught_signals() as signals:
        try:
            for text in texts:
                start(words, text, text.count(b"\n"), runs, files, signals)
            wait(runs, timeout, watch, signals)
        finally:
            signals.held = True
            stop(runs)
            signals.held = False
        signals.raise_noted()
        return without_line_ends([lines_of(run, any_code=any_code) for run in runs])


def refuse(complaint: str, kind: type[UserError] = ProgramError) -> NoReturn:
    """Refuse a program, in one line."""
    raise kind(f"--command: {complaint}")


def split(command: str) -> list[str]:
    """Return the words of a command; no shell is asked."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        refuse(f"{command!r} cannot be read: {error}", UserError)
    if not words:
        refuse("nothing to start: give a program and its arguments", UserError)
    return words


def start(words: list[str], text: bytes, lines: int, runs: list[Run], files: ExitStack, signals: Signals) -> None:
    """Start the program on a file of input, in a group of its own, so that all of it can be stopped."""
    given, out, errors = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))  # noqa: SIM115 -- by the stack
    given.write(text)
    given.seek(0)
    with signals.hold():
        try:
            process = subprocess.Popen(words, stdin=given, stdout=out, stderr=errors, start_new_session=True)  # noqa: S603 -- asked for
        except (OSError, ValueError) as error:
            kind = ProgramError if getattr(error, "errno", None) in SHORTAGE else UserError
            refuse(f"{words[0]} cannot be started: {getattr(error, 'strerror', None) or error}", kind)
        runs.append(Run(process, given, out, errors, lines))


def text_of(bits: NDArray[np.uint8], names: bytes, retries: int) -> bytes:
    """Return the input: a bit a line; with retries a bit and the name of a decision, eight bytes each.

    Half of a decision's lines come in a row, the others after all other decisions: whoever remembers the last one only
    must draw it anew.
    """
    if retries == 1:
        return np.stack([bits + ord("0"), np.full_like(bits, ord("\n"))], axis=1).tobytes()
    lines = [f"{bit} {names[NAME_BYTES * i : NAME_BYTES * (i + 1)].hex()}\n" for i, bit in enumerate(bits)]
    near = in_a_row(retries)
    return "".join([*(line * near for line in lines), *(line * (retries - near) for line in lines)]).encode()


def in_a_row(retries: int) -> int:
    """Return how many of a decision's lines come in a row at first."""
    return (retries + 1) // 2


def first(lines: list[bytes], retries: int) -> list[bytes]:
    """Return the first report of each decision."""
    near = in_a_row(retries)
    return lines[: len(lines) // retries * near : near]


def together(lines: list[bytes], retries: int) -> list[bytes]:
    """Return the reports of each decision as one."""
    if retries == 1:
        return lines
    near, decisions = in_a_row(retries), len(lines) // retries
    far, end = retries - near, near * decisions
    return [
        b",".join(lines[near * i : near * (i + 1)] + lines[end + far * i : end + far * (i + 1)])
        for i in range(decisions)
    ]


def wait(runs: list[Run], timeout: float, watch: Callable[[float], None], signals: Signals) -> None:
    """Wait until all runs have ended; none may take too long or write too much."""
    deadline = time.monotonic() + timeout
    while True:
        with signals.hold():
            ended = sum(map(has_ended, runs))
        watch(min(map(share_read, runs)))
        for run in runs:
            written = max(os.fstat(file.fileno()).st_size for file in (run.out, run.errors))
            if written > run.lines * (LONGEST + 2) + MOST_ERRORS:
                refuse(
                    f"the program writes on and on: it must write one line, of at most {LONGEST} characters, for each "
                    "line that it reads"
                )
        if ended == len(runs):
            return
        if time.monotonic() > deadline:
            refuse(
                f"the program has not ended after {timeout:g} s: it must end where its input ends; "
                "give it more time with --timeout, or fewer --trials"
            )
        time.sleep(PAUSE)


def share_read(run: Run) -> float:
    """Return how much of its input a run has read: program and audit share one place in the file."""
    return os.lseek(run.given.fileno(), 0, os.SEEK_CUR) / os.fstat(run.given.fileno()).st_size


def has_ended(run: Run) -> bool:
    """Tell whether a run has ended; if it has just now, so does what it left behind.

    Asking reaps it, and its number is free. But numbers are dealt in turn: none comes again within microseconds.
    """
    if run.process.returncode is not None:
        return True
    if run.process.poll() is None:
        return False
    end_group(run)
    return True


def end_group(run: Run) -> None:
    """End all that is in a run's group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(run.process.pid, signal.SIGKILL)


def stop(runs: list[Run]) -> None:
    """End what is still running; the groups of runs that have ended are ended already."""
    for run in runs:
        if run.process.returncode is None:
            end_group(run)
            run.process.wait()


def lines_of(run: Run, *, any_code: bool = False) -> list[bytes]:
    """Return the lines that a run wrote, one for each that it read; perhaps it may end with any code."""
    run.out.seek(0)
    lines = run.out.read().split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    elif lines[0].endswith(b"\r"):
        lines[-1] += b"\r"  # a last line without an end ends as the others do
    if run.process.returncode and not any_code:
        refuse(f"the program {ending(run)} after {len(lines):,} of {run.lines:,} lines{last_words(run)}")
    if len(lines) != run.lines:
        refuse(
            f"the program wrote {len(lines):,} lines for the {run.lines:,} that it read: "
            "it must write one report for each, and end where its input ends"
        )
    for number, line in enumerate(lines, 1):
        check(number, line.removesuffix(b"\r"))
    return lines


def without_line_ends(answers: list[list[bytes]]) -> list[list[bytes]]:
    """Return reports without the carriage return that all of them end with; one that only some end with may tell."""
    if all(line.endswith(b"\r") for lines in answers for line in lines):
        return [[line[:-1] for line in lines] for lines in answers]
    return answers


def check(number: int, report: bytes) -> None:
    """Refuse a report that is not short, or not text."""
    if len(report) > LONGEST:
        refuse(f"line {number:,} has {len(report):,} characters: a report may have {LONGEST}")
    if not report.isascii():
        try:
            report.decode()
        except UnicodeDecodeError:
            refuse(f"line {number:,} is not text in UTF-8: write reports as text")


def ending(run: Run) -> str:
    """Return how a run ended, in words."""
    code = run.process.returncode
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def last_words(run: Run) -> str:
    """Return the last line that a run wrote on standard error."""
    run.errors.seek(0, os.SEEK_END)
    run.errors.seek(max(0, run.errors.tell() - 1000))
    said = run.errors.read().decode(errors="replace").strip().splitlines()
    return f": {said[-1].strip()}" if said else ""
