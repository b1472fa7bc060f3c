"""Short starts: seeds from a small range, standard error, exit codes and time; sound programs pass."""

from __future__ import annotations

import io
import json
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from math import comb

import mutants
import numpy as np
import pytest
from audits import MUTANTS, call, python

from maskedbandits import cli
from maskedbandits.privacy.audit import starts, statistics

SIDE = statistics.allocate_error(0.9999999).side
WRITTEN, LAST, LENGTH = (
    f"{what} on standard error" for what in ("what it writes", "the last line that it writes", "how much it writes")
)
Tasks = Sequence[tuple[bytes, Sequence[str]]]


def simulated(name: str, monkeypatch: pytest.MonkeyPatch, many: int, number: int = 7) -> starts.Starts:
    """Run short starts of a mutant in this process; the time depends on its inputs and on chance."""
    clock = random.Random(number)

    def run_each(
        command: str, tasks: Tasks, timeout: float, progress: Callable[[float], None]
    ) -> list[starts.FinishedStart]:
        return [finish(name, text, len(prefix) > 0, clock.random()) for text, prefix in tasks]

    monkeypatch.setattr(starts, "run_each", run_each)
    monkeypatch.setattr(starts, "has_namespaces", lambda: True)
    monkeypatch.setattr(starts, "TAIL_LINES", 60)
    return starts.run_starts("", 1.0, many, 60.0, SIDE, lambda share: None)


def finish(name: str, text: bytes, numbered: bool, chance: float) -> starts.FinishedStart:
    mutants.begin()
    pid = 1 if numbered else int.from_bytes(os.urandom(4), "little")
    said = io.StringIO()
    slow: list[float] = []
    with pytest.MonkeyPatch.context() as patched, redirect_stderr(said):
        patched.setattr(os, "getpid", lambda: pid)
        patched.setattr(time, "sleep", slow.append)
        out = "".join(f"{getattr(mutants, name)(int(bit), 1.0, '')}\n" for bit in text.decode().split())
    seconds = chance / 100 + sum(slow)
    return starts.FinishedStart(out.encode(), said.getvalue().encode(), int(mutants.answers.get("code", "0")), seconds)


@pytest.mark.parametrize(
    ("name", "many", "same", "same_numbered"),
    [
        ("same_seed", 32, 32, 16),
        # 2^10 seeds: 200 starts have 19 pairs on average, and none once in 10^8 times
        ("seed_of_ten_bits", 200, 2, 0),
        ("seed_from_the_process_number", 32, 0, 16),
    ],
)
def test_seeds_from_small_range_are_found(
    name: str, many: int, same: int, same_numbered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = simulated(name, monkeypatch, many)
    assert seen.is_fixed
    assert seen.same >= same
    assert seen.same_numbered >= same_numbered


def test_default_starts_detect_sixteen_bit_seeds() -> None:
    # Of 1536 starts no two have the same of 65536 seeds once in 10^7 times.
    assert starts.choose_starts(10**6) == starts.MAX_STARTS
    missed = np.log1p(-np.arange(starts.MAX_STARTS) / 2**16).sum()
    assert missed < np.log(1e-7)
    assert starts.choose_starts(1000) == 0
    assert starts.choose_starts(65_000) == 100


@pytest.mark.parametrize(
    ("name", "leaks"),
    [
        # of 96 starts 26 flip the last bit on average; fewer than 8, too few for an exact test, once in 800,000 times
        ("logs_ones", (WRITTEN, LAST, LENGTH)),
        ("logs_ones_from_the_second_line", (WRITTEN, LAST, LENGTH)),
        ("logs_ones_from_the_fiftieth_line", (WRITTEN, LENGTH)),
        ("logs_every_report_and_bit", (LAST,)),
        ("ends_with_the_bit", ("its exit code",)),
        ("ends_with_the_bit_of_a_later_line", ("its exit code",)),
        ("is_slower_for_ones", ("the time that it takes",)),
    ],
)
def test_side_channels_are_found(name: str, leaks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    found = set(simulated(name, monkeypatch, 100).leaks)
    assert set(leaks) <= found
    assert found <= {*leaks, WRITTEN, LAST} if LAST in leaks or WRITTEN in leaks else found == set(leaks)


@pytest.mark.parametrize(
    "name", ["sound", "logs_its_report", "logs_every_report", "counter", "always_zero", "sound_beside_a_counter"]
)
def test_sound_programs_have_no_side_channels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = simulated(name, monkeypatch, 40)
    assert (seen.is_fixed, seen.leaks) == (False, ())


def test_dependence_test_is_exact() -> None:
    bits = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=np.uint8)
    values = ["x"] * 4 + ["y"] * 4
    assert starts.compute_dependence(values, bits, [b"0"] * 8) == pytest.approx(2 / comb(8, 4))
    assert starts.compute_dependence(values, bits, [b"0"] * 4 + [b"1"] * 4) == 1.0  # the report tells as much
    assert starts.compute_dependence(["x"] * 8, bits, [b"0"] * 8) == 1.0


def test_openings_share_one_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "SHORT_STARTS", 8)
    bits = [np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=np.uint8)] * 3
    same = [starts.FinishedStart(b"0\n" * 65, b"", 0, 0.0)] * 8
    apart = [starts.FinishedStart(b"0\n" * 65, b"one" * bit, 0, 0.0) for bit in (0, 0, 0, 0, 1, 1, 1, 1)]
    expected = dict.fromkeys((WRITTEN, LAST, LENGTH), 3 * 2 / comb(8, 4))
    for index in range(3):
        found = starts.judge_side_channels([start for k in range(3) for start in (apart if k == index else same)], bits)
        assert found == pytest.approx({**expected, "its exit code": 1.0})


LOGS_ONES = """
import os, sys
for line in sys.stdin:
    bit = int(line)
    print(bit ^ (os.urandom(1)[0] < 69))
    if bit:
        print("one", file=sys.stderr)
"""


def test_program_is_started_and_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of 48 starts 13 flip the last bit on average. Where 8 do, chance explains the log once in 10^8 times.
    monkeypatch.setattr(starts, "SHORT_STARTS", 48)
    monkeypatch.setattr(starts, "SHARED_LINES", (1,))
    command = python("-ISc", LOGS_ONES)
    result = call("--trials", 500, "--starts", 32, "--json", "--confidence", "0.9999", "--command", command)
    found = json.loads(result.stdout)
    assert (result.exit_code, found["outcome"]) == (cli.FAILED, "side channel")
    assert "what it writes on standard error" in found["verdict"]  # which takes time, too: that may show as well
    assert found["starts"]["single"] == starts.SHORT_STARTS * len(starts.SHARED_LINES)


@pytest.mark.parametrize(
    ("name", "taken", "refuted"),
    [("rounds", True, False), ("never_flips_fractions", True, True), ("sound", False, False)],
)
def test_fractions_are_sent(name: str, taken: bool, refuted: bool) -> None:
    seen = starts.run_fractions(python(MUTANTS, name, 1), 2000, 600.0, SIDE / 2, lambda share: None)
    assert bool(seen.events) == taken
    # 2,000 reports of 0.75 are all 1 and those of 0.25 all 0: epsilon is at least 4; a sound one stays below the claim
    assert (max([0.0, *(one.epsilon for one in seen.events)]) > 1) == refuted


@pytest.mark.parametrize(
    "options",
    [("--starts", 40), ("--starts", 5, "--command", "cat"), ("--starts", 40, "--command", "cat", "--retries", 2)],
)
def test_starts_require_a_program(options: tuple[object, ...]) -> None:
    result = call(*options)
    assert result.exit_code == cli.USAGE
    assert "--starts must be 0, or 32 or more" in result.output
