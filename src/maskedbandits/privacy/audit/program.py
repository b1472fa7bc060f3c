"""Run a randomiser as a program: it reads one 0 or 1 (or a query) a line, and writes one report a line.

It is started several times at once, so that a generator seeded with a constant, or with the clock, shows. Everything
passes through files: the input is complete before the program starts and ends where the file ends, so no program can
wait for more, and none can block by writing.

Nothing outlives the audit: every run has its own process group, which is killed as soon as its leader has ended, before
another process can get its number. Signals that would end the audit raise, so that runs are killed first.
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

from maskedbandits._util.signals import Signals, catch_signals
from maskedbandits.errors import UserError

MAX_LINES = 10**7  # for each input
MAX_REPORT_LENGTH = 256  # characters
NAME_BYTES = 8  # of a decision's name
MAX_STDERR_BYTES = 1 << 20
POLL_INTERVAL_S = 0.01
RESOURCE_ERRORS = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # of the machine, not the user's mistake


class ProgramError(UserError):
    """The program was started, and its reports cannot be judged."""


class Run(NamedTuple):
    """One start of the program."""

    process: subprocess.Popen[bytes]
    stdin_file: IO[bytes]
    out: IO[bytes]
    errors: IO[bytes]
    lines: int


def run_on_bits(
    command: str,
    inputs: Sequence[NDArray[np.uint8]],
    retries: int,
    timeout: float,
    progress: Callable[[float], None],
    common: int = 0,
    *,
    any_code: bool = False,
) -> list[list[bytes]]:
    """Start the program once for each sequence of bits, and return the lines that each run wrote.

    The last ``common`` decisions have the same names in all runs.
    """
    names = os.urandom(NAME_BYTES * common)
    texts = (
        format_bits(bits, (os.urandom(NAME_BYTES * (bits.size - common)) if retries > 1 else b"") + names, retries)
        for bits in inputs
    )
    return run_on_texts(command, texts, timeout, progress, any_code=any_code)


def run_on_texts(
    command: str,
    texts: Iterable[bytes],
    timeout: float,
    progress: Callable[[float], None],
    *,
    any_code: bool = False,
) -> list[list[bytes]]:
    """Start the program once for each text, and return the lines that each run wrote, as many as it read."""
    words = split_command(command)
    runs: list[Run] = []
    with ExitStack() as files, catch_signals() as signals:
        try:
            for text in texts:
                start_run(words, text, text.count(b"\n"), runs, files, signals)
            wait_for_runs(runs, timeout, progress, signals)
        finally:
            signals.held = True
            stop_runs(runs)
            signals.held = False
        signals.raise_noted()
        return strip_line_ends([read_lines(run, any_code=any_code) for run in runs])


def reject(complaint: str, kind: type[UserError] = ProgramError) -> NoReturn:
    """Raise an error about the program, in one line."""
    raise kind(f"--command: {complaint}")


def split_command(command: str) -> list[str]:
    """Split a command into words, without a shell."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        reject(f"{command!r} cannot be parsed: {error}", UserError)
    if not words:
        reject("the command is empty: give a program and its arguments", UserError)
    return words


def start_run(words: list[str], text: bytes, lines: int, runs: list[Run], files: ExitStack, signals: Signals) -> None:
    """Start the program on a file of input, in its own process group, so that all of it can be stopped."""
    stdin_file, out, errors = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))  # noqa: SIM115 -- closed by the stack
    stdin_file.write(text)
    stdin_file.seek(0)
    with signals.hold():
        try:
            process = subprocess.Popen(words, stdin=stdin_file, stdout=out, stderr=errors, start_new_session=True)  # noqa: S603 -- the user's command
        except (OSError, ValueError) as error:
            kind = ProgramError if getattr(error, "errno", None) in RESOURCE_ERRORS else UserError
            reject(f"{words[0]} cannot be started: {getattr(error, 'strerror', None) or error}", kind)
        runs.append(Run(process, stdin_file, out, errors, lines))


def format_bits(bits: NDArray[np.uint8], names: bytes, retries: int) -> bytes:
    """Return the input: a bit a line; with retries a bit and the name of a decision, eight bytes each.

    Half of a decision's lines are consecutive, the others follow after all other decisions: a program that remembers
    only the last one must draw again.
    """
    if retries == 1:
        return np.stack([bits + ord("0"), np.full_like(bits, ord("\n"))], axis=1).tobytes()
    lines = [f"{bit} {names[NAME_BYTES * i : NAME_BYTES * (i + 1)].hex()}\n" for i, bit in enumerate(bits)]
    first_repeats = count_first_repeats(retries)
    return "".join(
        [*(line * first_repeats for line in lines), *(line * (retries - first_repeats) for line in lines)]
    ).encode()


def count_first_repeats(retries: int) -> int:
    """Return how many of a decision's lines are consecutive at first."""
    return (retries + 1) // 2


def select_first(lines: list[bytes], retries: int) -> list[bytes]:
    """Return the first report of each decision."""
    first_repeats = count_first_repeats(retries)
    return lines[: len(lines) // retries * first_repeats : first_repeats]


def join_repeats(lines: list[bytes], retries: int) -> list[bytes]:
    """Join the reports of each decision."""
    if retries == 1:
        return lines
    first_repeats, decisions = count_first_repeats(retries), len(lines) // retries
    later_repeats, end = retries - first_repeats, first_repeats * decisions
    return [
        b",".join(
            lines[first_repeats * i : first_repeats * (i + 1)]
            + lines[end + later_repeats * i : end + later_repeats * (i + 1)]
        )
        for i in range(decisions)
    ]


def wait_for_runs(runs: list[Run], timeout: float, progress: Callable[[float], None], signals: Signals) -> None:
    """Wait until all runs have ended; none may take too long or write too much."""
    deadline = time.monotonic() + timeout
    while True:
        with signals.hold():
            ended = sum(map(check_ended, runs))
        progress(min(map(measure_progress, runs)))
        for run in runs:
            written = max(os.fstat(file.fileno()).st_size for file in (run.out, run.errors))
            if written > run.lines * (MAX_REPORT_LENGTH + 2) + MAX_STDERR_BYTES:
                reject(
                    f"the program writes too much: it must write one line, of at most {MAX_REPORT_LENGTH} characters, "
                    "for each line that it reads"
                )
        if ended == len(runs):
            return
        if time.monotonic() > deadline:
            reject(
                f"the program has not ended after {timeout:g} s: it must end where its input ends; "
                "give it more time with --timeout, or fewer --trials"
            )
        time.sleep(POLL_INTERVAL_S)


def measure_progress(run: Run) -> float:
    """Return the share of its input that a run has read: program and audit share one file offset."""
    return os.lseek(run.stdin_file.fileno(), 0, os.SEEK_CUR) / os.fstat(run.stdin_file.fileno()).st_size


def check_ended(run: Run) -> bool:
    """Tell whether a run has ended, and kill its descendants if it just did.

    Asking reaps it and frees its number. But numbers are assigned in turn, and none is reused within microseconds.
    """
    if run.process.returncode is not None:
        return True
    if run.process.poll() is None:
        return False
    kill_group(run)
    return True


def kill_group(run: Run) -> None:
    """Kill the process group of a run."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(run.process.pid, signal.SIGKILL)


def stop_runs(runs: list[Run]) -> None:
    """Kill the runs that are still running. The groups of the others are killed already."""
    for run in runs:
        if run.process.returncode is None:
            kill_group(run)
            run.process.wait()


def read_lines(run: Run, *, any_code: bool = False) -> list[bytes]:
    """Return the lines that a run wrote, one for each that it read. Any exit code may be accepted."""
    run.out.seek(0)
    lines = run.out.read().split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    elif lines[0].endswith(b"\r"):
        lines[-1] += b"\r"  # complete a last line without an end
    if run.process.returncode and not any_code:
        reject(f"the program {describe_exit(run)} after {len(lines):,} of {run.lines:,} lines{read_last_error(run)}")
    if len(lines) != run.lines:
        reject(
            f"the program wrote {len(lines):,} lines for the {run.lines:,} that it read: "
            "it must write one report for each, and end where its input ends"
        )
    for number, line in enumerate(lines, 1):
        check_report(number, line.removesuffix(b"\r"))
    return lines


def strip_line_ends(answers: list[list[bytes]]) -> list[list[bytes]]:
    """Remove the carriage return that all reports end with. One that only some have may reveal something."""
    if all(line.endswith(b"\r") for lines in answers for line in lines):
        return [[line[:-1] for line in lines] for lines in answers]
    return answers


def check_report(number: int, report: bytes) -> None:
    """Reject a report that is too long, or not text."""
    if len(report) > MAX_REPORT_LENGTH:
        reject(f"line {number:,} has {len(report):,} characters: write at most {MAX_REPORT_LENGTH} per report")
    if not report.isascii():
        try:
            report.decode()
        except UnicodeDecodeError:
            reject(f"line {number:,} is not UTF-8: write reports as text")


def describe_exit(run: Run) -> str:
    """Return how a run ended, in words."""
    code = run.process.returncode
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def read_last_error(run: Run) -> str:
    """Return the last line that a run wrote on standard error."""
    run.errors.seek(0, os.SEEK_END)
    run.errors.seek(max(0, run.errors.tell() - 1000))
    lines = run.errors.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1].strip()}" if lines else ""
