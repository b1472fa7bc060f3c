"""Programs that cannot be audited, wrong options, and no process left running."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from audits import audited_command, call, script

import children
from maskedbandits import cli
from maskedbandits._util import signals
from maskedbandits.privacy.audit import program, run, statistics

# Mistakes, of the user and of the program

COPY = "sys.stdout.write(sys.stdin.read())"


def is_a_mistake(complaint: str) -> bool:
    """Tell whether the command is wrong; otherwise the program was started, and failed."""
    return any(part in complaint for part in ("cannot be started", "cannot be parsed", "command is empty"))


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (
            "no-such-program-anywhere",
            "--command: no-such-program-anywhere cannot be started: No such file or directory",
        ),
        ("/", "--command: / cannot be started: Permission denied"),
        ("", "--command: the command is empty: give a program and its arguments"),
        ("echo 'x", "cannot be parsed: No closing quotation"),
        ("a\0b", "cannot be started: embedded null byte"),
        (script("sys.exit('out of luck')"), "ended with exit code 1 after 0 of 24 lines: out of luck"),
        (script("print(sys.stdin.readline()); sys.exit(3)"), "ended with exit code 3 after 2 of 24 lines"),
        (script("os.kill(os.getpid(), 9)"), "was ended by signal 9"),
        (script("print(0)"), "the program wrote 1 lines for the 24 that it read: it must write one report for each"),
        (script(f"{COPY}; print(0)"), "the program wrote 25 lines for the 24 that it read"),
        (script("while True: print('0' * 100)"), "the program writes too much"),
        (script("while True: print('0' * 100, file=sys.stderr)"), "the program writes too much"),
        (script("print('0' * 300); print('0\\n' * 23, end='')"), "line 1 has 300 characters: write at most 256"),
        (script("sys.stdout.buffer.write(b'\\xff\\n' * 24)"), "line 1 is not UTF-8"),
        (script(f"{COPY}; sys.stdout.flush(); time.sleep(10_000)"), "the program has not ended after 1 s"),
    ],
)
def test_unauditable_programs_are_rejected(command: str, complaint: str) -> None:
    patience = 1 if "not ended" in complaint else 600
    result = call("--trials", 100, "--timeout", patience, "--command", command)
    assert result.exit_code == (cli.USAGE if is_a_mistake(complaint) else cli.UNMADE), result.output
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--epsilon", "17"], "epsilon = 17 is above 16"),
        (["--epsilon", "-1"], "epsilon = -1 is negative"),
        (["--epsilon", "nan"], "epsilon is NaN"),
        (["--epsilon", "x"], "epsilon = 'x' is not a number"),
        (["--epsilon", "17", "--exact"], "epsilon = 17 is above 16"),
        (["--epsilon", "17", "--command", "cat"], "epsilon = 17 is above 16"),
        (["--trials", "99"], "Invalid value for '--trials'"),
        (["--confidence", "1"], "Invalid value for '--confidence'"),
        (["--confidence", "nan"], "Invalid value for '--confidence': nan is out of range: give 0.5 to 0.9999999."),
        (["--timeout", "nan", "--command", "cat"], "Invalid value for '--timeout': nan is out of range"),
        (["--exact", "--command", "cat"], "--exact works on the built-in randomiser only"),
        (["--retries", "2"], "--retries requires --command"),
        (["--retries", "100", "--command", "cat"], "--trials 1000000 with --command: at most 10000000 lines"),
        (["--timeout", "0", "--command", "cat"], "Invalid value for '--timeout'"),
    ],
)
def test_wrong_options_are_rejected(options: list[str], complaint: str) -> None:
    result = call(*options)
    assert result.exit_code == cli.USAGE, result.output
    assert complaint in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def gone(pid: int) -> bool:
    """Tell whether a process has ended, reaped or not."""
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text(encoding="utf-8").rsplit(") ", 1)[1].startswith("Z")


def eventually(condition: Callable[[], bool]) -> bool:
    """Tell whether a condition becomes true within the limit for a busy machine."""
    for _ in range(6000):
        if condition():
            return True
        time.sleep(0.02)
    return False


def ended(pids: list[int]) -> bool:
    return eventually(lambda: all(map(gone, pids)))


def noted(note: Path) -> list[int]:
    return [int(pid) for pid in note.read_text(encoding="utf-8").split()] if note.exists() else []


def parent(note: Path, then: str) -> str:
    """Return a program that starts a child in its group, notes both, and continues."""
    return shlex.join(["sh", "-c", f"sleep 10000 & echo $$ $! >> {shlex.quote(str(note))}; {then}"])


needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are looked up in /proc")


@needs_proc
@pytest.mark.parametrize(
    ("then", "code"),
    [
        ("wait", cli.UNMADE),
        ("cat", cli.FAILED),  # it ends, and leaves its child behind; a copy of the input is refuted
        ("exit 1", cli.UNMADE),
    ],
)
def test_nothing_is_left_running(tmp_path: Path, then: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    note, wait = tmp_path / "pids", program.wait_for_runs

    def patient(*arguments: Any) -> None:
        assert eventually(lambda: len(noted(note)) == 2 * statistics.RUNS)  # however long it takes to start them
        wait(*arguments)

    monkeypatch.setattr(program, "wait_for_runs", patient)
    timeout = 1 if then == "wait" else 600
    assert call("--trials", 200, "--timeout", timeout, "--command", parent(note, then)).exit_code == code
    assert ended(noted(note))


@needs_proc
@pytest.mark.parametrize("then", ["cat", "sleep 0.2; cat"])
def test_descendants_are_killed_after_reaping(tmp_path: Path, then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "waitid", raising=False)  # as on macOS before Python 3.13
    note = tmp_path / "pids"
    assert call("--trials", 200, "--timeout", 600, "--command", parent(note, then)).exit_code == cli.FAILED
    assert len(noted(note)) == 2 * statistics.RUNS
    assert ended(noted(note))


@needs_proc
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, 128 + 15),
        pytest.param(signal.SIGHUP, 128 + 1, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, cli.INTERRUPTED, marks=pytest.mark.slow),
    ],
)
def test_signal_kills_programs_first(tmp_path: Path, number: signal.Signals, code: int) -> None:
    note = tmp_path / "pids"
    arguments = ["audit", "--trials", "200", "--command", parent(note, "wait")]
    with children.child([*children.PROGRAM, *arguments]) as audit:
        children.wait_until(lambda: len(noted(note)) == 2 * statistics.RUNS, audit)
        audit.send_signal(number)
        assert audit.wait(children.LONGEST) == code
    assert ended(noted(note))


@pytest.fixture
def heard() -> Iterator[None]:
    """Signals as from a terminal, even if the parent of the tests ignores them."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("heard")
def test_signal_during_start_is_deferred(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[subprocess.Popen[bytes]] = []

    class Interrupting(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            seen.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupting)
    before = [signal.getsignal(number) for number in signals.ENDING]
    result = call("--trials", 200, "--command", script("time.sleep(10_000)"))
    assert result.exit_code == cli.INTERRUPTED
    assert [process.poll() for process in seen] == [-9]
    assert [signal.getsignal(number) for number in signals.ENDING] == before


@pytest.mark.usefixtures("heard")
def test_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with signals.catch_signals():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        with pytest.raises(SystemExit, match="143"):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # a second one leaves the cleaning up alone


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is played by /dev/full")
@pytest.mark.parametrize(
    "options", [["--exact"], pytest.param(["--trials", "200", "--command", "cat"], marks=pytest.mark.slow)]
)
def test_lost_output_is_not_a_refutation(options: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "maskedbandits", "audit", *options]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (result.returncode, result.stderr) == (cli.UNMADE, b"maskedbandits: No space left on device\n")


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (BrokenPipeError(32, "Broken pipe"), "Broken pipe"),
        (OSError(28, "No space left on device", "/tmp/x"), "/tmp/x: No space left on device"),  # noqa: S108 -- not used
        (MemoryError(), "the audit does not fit into memory: give fewer --trials"),
    ],
)
def test_failed_audit_is_not_a_refutation(monkeypatch: pytest.MonkeyPatch, error: Exception, complaint: str) -> None:
    def broken(*rest: object) -> None:
        raise error

    monkeypatch.setattr(program, "format_bits", broken)
    result = call("--trials", 200, "--command", "cat")
    assert (result.exit_code, result.stderr) == (cli.UNMADE, f"maskedbandits: {complaint}\n")


def test_interrupt_kills_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[program.Run] = []

    def interrupted(runs: list[program.Run], *rest: object) -> None:
        seen.extend(runs)
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "wait_for_runs", interrupted)
    result = call("--trials", 100, "--command", script("time.sleep(10_000)"))
    assert result.exit_code == cli.INTERRUPTED
    assert len(seen) == statistics.RUNS
    assert {run.process.poll() for run in seen} == {-9}


def test_windows_line_ends_are_removed() -> None:
    result = call("--trials", 2000, "--command", script("for line in sys.stdin: print(line.strip(), end='\\r\\n')"))
    assert "report 1\r" not in result.stdout
    assert "P(1 | 1) in" in result.stdout


def test_second_carriage_return_belongs_to_report() -> None:
    text = "for line in sys.stdin: print(0, end='\\r' * (1 + int(line)) + '\\n')"
    result, found = audited_command(script(text), 2000)
    assert (result.exit_code, found["outcome"]) == (cli.FAILED, "refuted")


def test_slow_work_shows_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("--trials", 1000).stderr == ""
    monkeypatch.setattr(cli.SlowProgress, "INTERVAL_S", 0.0)
    monkeypatch.setattr(run, "CHUNK_REPORTS", 500)
    result = call("--trials", 1000)
    assert result.stderr == " 50% done\n"
    assert "done" not in result.stdout


def test_terminal_shows_one_progress_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(cli.SlowProgress, "INTERVAL_S", 0.0)
    watch = cli.SlowProgress()
    watch(0.25)
    watch(0.5)
    watch(1.0)
    watch.end()
    bars = [f"\r[{'#' * (30 * share // 100):30}] {share}% done" for share in (25, 50)]
    assert capsys.readouterr().err == "".join(bars) + f"\r{'':41}\r"
