"""The audit: it refutes broken randomisers, leaves sound ones alone, and says what it could have seen.

Audits of sound programs here are asked for a confidence of 0.9999999, so that chance refutes one in ten million times.
Broken ones are given so many trials that missing one is less likely still; where that is not plain, a comment says why.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import naive_privacy as naive
from maskedbandits import cli
from maskedbandits.privacy import Randomizer, audit, events, program, restarts, verdict

SURE = ("--confidence", "0.9999999")
MUTANTS = Path(__file__).parent / "mutants.py"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, ["audit", *map(str, arguments)])


def python(*arguments: object) -> str:
    return shlex.join([sys.executable, *map(str, arguments)])


def script(text: str) -> str:
    """A program given as its text."""
    return python("-c", f"import os, sys, time\n{text}")


def audited(name: str, epsilon: float, trials: int, *options: object) -> tuple[Result, dict[str, Any]]:
    result = call(
        *("--epsilon", epsilon, "--trials", trials, "--command", python(MUTANTS, name, epsilon)),
        *("--json", *SURE, *options),
    )
    assert result.exit_code in (0, cli.FAILED, cli.UNMADE), result.output
    return result, json.loads(result.stdout)


def audited_command(command: str, trials: int, *options: object) -> tuple[Result, dict[str, Any]]:
    result = call("--epsilon", 1, "--trials", trials, "--command", command, "--json", *SURE, *options)
    return result, json.loads(result.stdout)


# Mutants


@pytest.mark.parametrize(
    ("name", "epsilon", "trials", "least"),
    [
        ("never_flips", 1, 2000, 4.0),
        ("flips_only_ones", 1, 2000, 4.0),
        ("leaves_one_bit_of_a_vector", 1, 2000, 3.0),
        # Of 128 words 2 flip, not 2.3: the real epsilon is 4.143. Each of the two events bounds it by 4.143 - 5.7 / 68
        # on average, with a deviation of 1 / 68; they are independent, and both miss once in 10^9 times at most.
        ("seven_bits", 4, 300_000, 4.0),
    ],
)
def test_a_broken_randomiser_is_refuted(name: str, epsilon: float, trials: int, least: float) -> None:
    result, found = audited(name, epsilon, trials)
    assert result.exit_code == cli.FAILED
    assert found["outcome"] == "refuted"
    assert found["epsilon_at_least"] > least
    assert found["verdict"].startswith(f"REFUTED: epsilon is at least {found['epsilon_at_least']:.5f}"[:32])


@pytest.mark.parametrize(("name", "least"), [("same_seed", 8), ("seed_from_the_clock", 2)])
def test_a_fixed_seed_is_refuted(name: str, least: int) -> None:
    result, found = audited(name, 1, 2000)
    assert result.exit_code == cli.FAILED
    assert found["seed"]["fixed"]
    assert least <= found["seed"]["same"] <= found["seed"]["runs"] == 8
    assert found["seed"]["chance"] < 1e-9
    assert found["outcome"] in ("fixed seed", "refuted")  # eight times the same draws are not independent


def test_permanent_answers_that_are_drawn_anew_are_refuted() -> None:
    result, found = audited("permanent_in_name_only", 1, 6000, "--retries", 3)
    assert (result.exit_code, found["outcome"]) == (cli.FAILED, "refuted")
    assert found["epsilon_at_least"] > 1.5  # three reports reveal 3; the bound is 2.15 with a deviation of 0.09
    # and without retries nothing is wrong with it
    result, found = audited("permanent_in_name_only", 1, 3000)
    assert (result.exit_code, found["outcome"]) == (0, "not refuted")


def test_many_retries_are_judged_together() -> None:
    # No two answers of 25 reports are the same, and each report by itself is private: only the score of all tells.
    result, found = audited("permanent_in_name_only", 1, 1000, "--retries", 25)
    assert (result.exit_code, found["outcome"]) == (cli.FAILED, "refuted")
    assert max(found["events"], key=lambda one: float(one["epsilon_at_least"]))["event"].startswith("score of char")


@pytest.mark.parametrize(
    ("name", "epsilon", "trials", "options"),
    [
        ("sound", 1, 20_000, ()),
        ("sound", 0, 20_000, ()),
        ("sound", 4, 100_000, ()),
        ("sound_vector", 1, 20_000, ()),
        ("permanent", 1, 20_000, ("--retries", 3)),
    ],
)
def test_a_sound_randomiser_is_not_refuted(name: str, epsilon: float, trials: int, options: tuple[object, ...]) -> None:
    result, found = audited(name, epsilon, trials, *options)
    assert (result.exit_code, found["outcome"]) == (0, "not refuted"), result.output
    assert found["seed"]["telling"]
    assert not found["seed"]["same"]
    assert (found["g"] is None) == ("vector" in name)
    # it sees what is there: the bound is that far below only once in millions of times
    known, _ = audit.levels(found["confidence"])
    excess = events.smallest_excess(epsilon, trials // 2, known)
    assert excess is not None
    assert found["epsilon_at_least"] > epsilon - 3 * excess


def test_a_smallest_excess_is_promised_for_single_bits_only() -> None:
    for name, options, one in [
        ("sound", (), True),
        ("sound_vector", (), False),
        ("swapped_with_a_blank", (), False),
        ("permanent", ("--retries", 2), False),
    ]:
        _, found = audited(name, 1, 2000, *options)
        assert (found["smallest_excess"] is not None) == one, name
        assert found["trials_needed"] is None
    command = ("--trials", 2000, "--command", python(MUTANTS, "sound_vector", 1))
    assert "smallest excess seen  depends on where reports leak\n" in call(*command, *SURE).stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("swapped", "epsilon holds, but g is not the stated one"),
        ("another_p", "epsilon holds, but g is not the stated one"),
        # Events that hardly ever come may come of one bit alone, and blanks may hide whatever they like.
        ("always_zero", "g is not the stated one, and whether epsilon holds 20,000 trials cannot tell"),
        ("rare", "g is not the stated one, and whether epsilon holds 20,000 trials cannot tell"),
        ("swapped_with_a_blank", "g is not the stated one, and whether epsilon holds 20,000 trials cannot tell"),
    ],
)
def test_private_enough_but_not_what_was_claimed(name: str, words: str) -> None:
    result, found = audited(name, 1, 20_000)
    assert (result.exit_code, found["outcome"]) == (cli.FAILED, "other g")
    assert found["verdict"] == f"REFUTED: {words}: a learner that believes it would be misled."
    assert found["epsilon_at_least"] <= 1


def test_a_vector_has_no_g_to_check_and_the_verdict_says_so() -> None:
    printed = call("--trials", 1000, "--command", python(MUTANTS, "sound_vector", 1), *SURE).stdout
    assert "g                     not checked: reports are more than a 0 or a 1" in printed
    verdict = "Not refuted: nothing that was seen contradicts epsilon = 1; not checked: g."
    assert printed.splitlines()[-1] == verdict


def test_an_odd_line_does_not_switch_the_check_of_g_off() -> None:
    inputs = audit.questions(2000, 20)
    swapped = [[b"%d" % (1 - bit) for bit in bits] for bits in inputs]
    swapped[0][3] = b"?"
    found = audit.judged("", Fraction(16), 0.9999999, inputs, swapped, 1, 20)
    assert found.outcome == "other g"
    assert "another report" in {one.name for one in found.events}


def test_other_text_among_bits_is_an_event() -> None:
    inputs = audit.questions(4000, 20)
    rng = np.random.default_rng(4)
    words = [[b"%d" % rng.integers(2) for _ in bits] for bits in inputs]
    for lines, bits in zip(words, inputs, strict=True):
        for place in np.flatnonzero(bits)[:8]:  # few enough for g to be checked
            lines[place] = b""
    found = audit.judged("", Fraction(1, 10), 0.99, inputs, words, 1, 20)
    [other] = [one for one in found.events if one.name == "another report" and not one.before]
    assert other.hits[0] == 0 < other.epsilon
    assert found.channels


@pytest.mark.parametrize(
    ("name", "options", "outcome"),
    [
        ("remembers_the_last", ("--retries", 3), "refuted"),
        ("remembers_the_last", ("--retries", 2), "refuted"),
        ("tells_the_bit_before", (), "refuted"),
        ("same_seed_beside_a_number", (), "fixed seed"),
    ],
)
def test_a_leak_beside_a_sound_report_is_found(name: str, options: tuple[object, ...], outcome: str) -> None:
    result, found = audited(name, 1, 3000, *options)
    assert (result.exit_code, found["outcome"]) == (cli.FAILED, outcome)


def test_a_bit_that_tells_the_input_before_is_refuted() -> None:
    inputs = audit.questions(2000, 20)
    found = judge([[b"%d" % bit for bit in np.roll(bits, 1)] for bits in inputs], inputs, 0.9999999)
    assert found.outcome == "refuted"
    worst = max(found.events, key=lambda one: one.epsilon)
    assert worst.before
    assert f"{worst.name}, by the input before" in "\n".join(verdict.lines(found))


def test_what_does_not_depend_on_its_input_has_no_seed_to_find() -> None:
    result, found = audited("counter", 1, 2000)
    assert (result.exit_code, found["outcome"]) == (cli.UNMADE, "cannot tell")
    assert found["seed"]["same"] == 8
    assert found["verdict"].startswith("Cannot tell: runs answer alike, whatever they are asked")
    result, found = audited("sound_beside_a_counter", 1, 2000)
    assert (result.exit_code, found["outcome"]) == (0, "not refuted")


def test_an_opening_that_is_answered_alike_is_not_taken_for_a_seed() -> None:
    # Sound, after some lines to warm up.
    inputs = audit.questions(4000, 200)
    rng = np.random.default_rng(5)
    words = [[b"%d" % (bit ^ rng.integers(2)) for bit in bits] for bits in inputs]
    words = [[b"0"] * 200 + lines[200:] for lines in words]
    found = audit.judged("", Fraction(1), 0.9999999, inputs, words, 1, 200)
    assert found.restarts is not None
    assert (found.restarts.same, found.restarts.telling) == (8, False)


# Our own


def test_our_own_randomiser_is_not_refuted() -> None:
    started = time.process_time()
    result = call("--epsilon", 1, *SURE)
    assert time.process_time() - started < 5.0
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    drawn = "1,000,000 trials for each input by bits(), 50,000 by report()"
    assert lines[0] == f"Randomizer(1): {drawn}, joint confidence 99.99999 %"
    assert lines[-1] == "Not refuted: nothing that was seen contradicts epsilon = 1."
    exactly = "4961093570831980854 of 2^64 words flip a bit: epsilon = ln(6742825251438785381/2480546785415990427)"
    assert exactly in result.stdout


@pytest.mark.parametrize(
    ("broken", "outcome"),
    [
        (lambda self, values: np.asarray(values), "refuted"),
        (lambda self, values: np.asarray(values) & Randomizer(1).bits(values), "refuted"),
        (lambda self, values: 1 - Randomizer(1).bits(values), "other g"),
    ],
)
def test_our_own_randomiser_would_be_refuted(monkeypatch: pytest.MonkeyPatch, broken: Any, outcome: str) -> None:
    class Broken(Randomizer):
        bits = broken

    monkeypatch.setattr(audit, "Randomizer", Broken)
    result = call("--epsilon", 1, "--trials", 5000, "--json", *SURE)
    assert (result.exit_code, json.loads(result.stdout)["outcome"]) == (cli.FAILED, outcome)


@pytest.mark.parametrize("flip", [0, 1])
def test_what_devices_draw_would_be_refuted(monkeypatch: pytest.MonkeyPatch, flip: int) -> None:
    sound = Randomizer.report
    monkeypatch.setattr(Randomizer, "report", lambda self, value: sound(self, value)._replace(bit=value ^ flip))
    result = call("--epsilon", 1, "--trials", 2000, "--json", *SURE)
    found = json.loads(result.stdout)
    assert (result.exit_code, found["outcome"], found["trials_by_report"]) == (cli.FAILED, "refuted", 2000)
    telling = {one["event"] for one in found["events"] if one["epsilon_at_least"] > 1}
    assert telling == {"report 0 of report()", "report 1 of report()"}  # arrays are sound


def test_too_few_trials_for_the_claim_are_said_to_be_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "DEVICES", 1000)
    result = call("--epsilon", 10, "--trials", 1000, "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["outcome"], found["smallest_excess"]) == (cli.UNMADE, "cannot tell", None)
    needed = found["trials_needed"]
    printed = call("--epsilon", 10, "--trials", 1000).stdout
    assert f"never flips: that takes --trials {needed}\n" in printed
    verdict = (
        f"Cannot tell: 1,000 trials would not even see a randomiser that never flips; that takes --trials {needed}."
    )
    assert printed.splitlines()[-1] == verdict
    enough = json.loads(call("--epsilon", 10, "--trials", needed, "--json").stdout)
    assert (enough["outcome"], enough["smallest_excess"] is not None) == ("not refuted", True)


@pytest.mark.parametrize(("epsilon", "possible"), [(8, True), (16, False)])
def test_advice_can_be_followed(epsilon: int, possible: bool) -> None:
    inputs = audit.questions(200, 20)
    answers = [[b"%d" % bit for bit in bits] for bits in inputs]
    found = audit.judged("", Fraction(epsilon), 0.99, inputs, answers, 1, 20)
    assert found.needed is not None
    assert (found.needed <= program.MOST_LINES) == possible
    asked = f"that takes --trials {found.needed}"
    told = f"that takes {found.needed:,} trials, of 10,000,000 at most: no claim above 13.9 can be judged"
    assert verdict.excess_text(found).endswith(asked if possible else told)
    level, _ = audit.levels(0.99)
    assert events.trials_needed(13.9, level) <= program.MOST_LINES < events.trials_needed(14.0, level)


def test_exact_prints_a_grid_or_one_epsilon() -> None:
    grid = call("--exact").stdout.splitlines()
    assert len(grid) == 11
    assert grid[6].split() == ["1", "73.105858%", "4961093570831980854", "0.999999999999999999960025"]
    [one] = json.loads(call("--exact", "--epsilon", "1/3", "--json").stdout)
    assert one["epsilon"] == "1/3"
    odds = Fraction(int(one["odds"][0]), int(one["odds"][1]))
    assert odds == Randomizer("1/3").exact_epsilon.odds
    assert not naive.log_exceeds(odds, Fraction(1, 3))


# What is asked


def test_runs_share_an_opening_and_ask_each_bit_equally_often() -> None:
    inputs = audit.questions(1003, 40)
    assert len(inputs) == program.RUNS
    assert sum(bits.size for bits in inputs) == 2006
    for bits in inputs:
        assert bits[:40].tolist() == inputs[0][:40].tolist()
        assert bits.sum() * 2 == bits.size
        assert bits[:40].sum() == 20
    assert len({bits[40:].tobytes() for bits in inputs}) == program.RUNS


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0])
def test_the_opening_is_long_enough(epsilon: float) -> None:
    truth = 1 / (1 + np.exp(-epsilon))
    assert 28 * truth ** audit.opening_length(epsilon, 10**6) < restarts.CHANCE
    assert audit.opening_length(epsilon, 800) <= 200
    assert audit.opening_length(16, 800) == 100


def test_a_retried_decision_has_a_name_of_its_own() -> None:
    lines = program.text_of(np.array([0, 1, 1], dtype=np.uint8), 2).decode().splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "1", "0", "1", "1"]
    assert lines[:3] == lines[3:]
    assert len({line.split()[1] for line in lines}) == 3
    assert program.text_of(np.array([0, 1, 1], dtype=np.uint8), 1) == b"0\n1\n1\n"


@pytest.mark.parametrize("retries", [1, 2, 3, 5])
def test_retries_come_in_a_row_and_after_all_others_and_are_judged_together(retries: int) -> None:
    lines = program.text_of(np.array([0, 1, 1, 0], dtype=np.uint8), retries).splitlines()
    first = program.first(lines, retries)
    assert len(first) == len(set(first)) == 4 if retries > 1 else first == lines
    assert program.together(lines, retries) == [b",".join([line] * retries) for line in first]
    if retries > 1:
        assert lines[-1] == first[-1] != lines[-1 - retries // 2]


# The statistics


@pytest.mark.parametrize("level", [0.05, 1e-4])
@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (1, 10), (7, 10), (10, 10), (3, 60), (30, 60)])
def test_bounds_are_clopper_and_pearsons(hits: int, trials: int, level: float) -> None:
    one, of = np.array(hits), np.array(trials)
    assert events.lowest(one, of, level) == pytest.approx(naive.lowest_share(hits, trials, level), abs=1e-9)
    highest = 1 - naive.lowest_share(trials - hits, trials, level)
    assert events.highest(one, of, level) == pytest.approx(highest, abs=1e-9)


def test_a_bound_on_epsilon_is_the_worse_of_two_ratios() -> None:
    seen = events.Event("", (30, 80), (100, 100), 0.01)
    low = naive.lowest_share(80, 100, 0.01)
    high = 1 - naive.lowest_share(70, 100, 0.01)
    assert seen.epsilon == pytest.approx(np.log(low / high), abs=1e-8)
    assert events.Event("", (80, 30), (100, 100), 0.01).epsilon == pytest.approx(seen.epsilon, abs=1e-12)
    assert events.Event("", (50, 50), (100, 100), 0.01).epsilon == 0
    assert events.Event("", (0, 0), (100, 100), 0.01).epsilon == 0


@pytest.mark.parametrize(("claimed", "trials"), [(1.0, 10_000), (0.1, 2000), (3.0, 100_000)])
def test_the_smallest_excess_is_seen_that_often(claimed: float, trials: int) -> None:
    level, _ = audit.levels(0.99)
    excess = events.smallest_excess(claimed, trials, level)
    assert excess is not None
    rng = np.random.default_rng(1)
    rates = []
    for factor in (1.0, 0.5):
        false = 1 / (1 + np.exp(claimed + factor * excess))
        hits = np.stack([rng.binomial(trials, 1 - false, 4000), rng.binomial(trials, false, 4000)], axis=1)
        rates.append(np.mean(events.epsilon_at_least(hits, np.full(2, trials), level) > claimed))
    # 4000 draws with a fixed seed: the true rates are above 0.95 and far below it
    assert rates[0] >= 0.95
    assert rates[1] < 0.9


def test_trials_needed_are_the_fewest() -> None:
    level, _ = audit.levels(0.99)
    needed = events.trials_needed(5.0, level)
    assert events.smallest_excess(5.0, needed, level) is not None
    assert events.smallest_excess(5.0, needed - 1, level) is None


def judge(reports: list[list[bytes]], inputs: list[Any], confidence: float = 0.9) -> audit.Findings:
    return audit.judged("", Fraction(0), confidence, inputs, reports, 1, 20)


def test_events_are_not_tested_on_what_chose_them() -> None:
    # Words that say nothing of the input, so many that each comes once or twice: some fit any half by chance.
    rng = np.random.default_rng(2)
    refuted = 0
    for _ in range(50):
        inputs = audit.questions(400, 20)
        words = [[f"{rng.integers(300):04}".encode() for _ in bits] for bits in inputs]
        refuted += judge(words, inputs).outcome == "refuted"
    assert refuted <= 25  # at most 5 on average: more than 25 come once in 10^12 times


def test_a_report_that_tells_its_place_is_not_taken_for_a_leak() -> None:
    # All runs have the same opening: there, a place tells the input, but only to whoever has several runs.
    opening = audit.opening_length(1, 2000)
    inputs = audit.questions(2000, opening)
    rng = np.random.default_rng(6)
    words = [[b"%d %d" % (place, bit ^ (rng.random() < 0.27)) for place, bit in enumerate(bits)] for bits in inputs]
    found = audit.judged("", Fraction(1), 0.9999999, inputs, words, 1, opening)
    assert found.outcome == "not refuted"


def test_a_leak_in_many_words_is_found_by_the_score_of_reports() -> None:
    # Even words for a 0, odd ones for a 1, in a code whose characters say nothing.
    rng = np.random.default_rng(3)
    code = [f"{word:03}" for word in rng.permutation(200)]
    inputs = audit.questions(2000, 20)
    words = [[code[2 * rng.integers(100) + bit].encode() for bit in bits] for bits in inputs]
    found = judge(words, inputs, 0.9999999)
    assert found.outcome == "refuted"
    assert max(found.events, key=lambda one: one.epsilon).name.startswith("score of reports")


def test_reports_of_different_lengths_are_compared_by_place() -> None:
    inputs = audit.questions(2000, 20)
    words = [[b"noo" if bit else b"no" for bit in bits] for bits in inputs]
    found = judge(words, inputs, 0.9999999)
    assert found.outcome == "refuted"
    assert {"report noo", "report no", "character 3 is o", "no character 3"} <= {one.name for one in found.events}


def test_every_character_is_looked_at_however_many_reports_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    # No report comes twice, the bit is the last of 41 characters, and memory holds no more than three of each at once.
    inputs = audit.questions(2000, 20)
    monkeypatch.setattr(events, "CELLS", 3 * 4000 + 1)
    words = [[f"{os.urandom(20).hex()}{bit}".encode() for bit in bits] for bits in inputs]
    found = judge(words, inputs, 0.9999999)
    assert found.outcome == "refuted"
    assert max(found.events, key=lambda one: one.epsilon).name.startswith("character 41 is ")


@pytest.mark.parametrize("cells", [1, 7, 12, 1 << 28])
def test_columns_do_not_depend_on_the_memory(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    monkeypatch.setattr(events, "CELLS", cells)
    columns = [column.tobytes() for column in events.characters([b"abcde", b"", b"xyz"])]
    assert columns == [b"a\0x", b"b\0y", b"c\0z", b"d\0\0", b"e\0\0"]
    assert list(events.characters([b"", b""])) == []


def test_a_constant_answer_is_not_taken_for_a_seed() -> None:
    inputs = audit.questions(200, 20)
    found = judge([[b"x"] * bits.size for bits in inputs], inputs)
    assert found.restarts is not None
    assert (found.restarts.same, found.restarts.telling, found.outcome) == (8, False, "not refuted")
    assert "cannot be judged" in call("--trials", 200, "--command", python(MUTANTS, "always_zero", 1)).stdout


def test_an_answer_drawn_once_for_each_run_is_not_taken_for_a_seed() -> None:
    inputs = audit.questions(200, 20)
    answers = [[b"%d" % (run % 2)] * bits.size for run, bits in enumerate(inputs)]
    found = judge(answers, inputs)
    assert found.restarts is not None
    assert (found.restarts.same, found.restarts.telling) == (8, False)


def test_two_of_eight_runs_with_the_same_seed_are_found() -> None:
    inputs = audit.questions(4000, 200)
    streams = [np.frombuffer(os.urandom(1100), dtype=np.uint8) & 1 for _ in inputs]
    streams[5] = streams[2]
    answers = [
        [b"%d" % (bit ^ flip) for bit, flip in zip(bits, stream, strict=False)]
        for bits, stream in zip(inputs, streams, strict=True)
    ]
    found = audit.judged("", Fraction(0), 0.9999999, inputs, answers, 1, 200)
    assert found.restarts is not None
    assert (found.restarts.same, found.restarts.fixed) == (2, True)


# Mistakes, of the user and of the program

COPY = "sys.stdout.write(sys.stdin.read())"


def is_a_mistake(complaint: str) -> bool:
    """Whether the command is wrong; else the program was started, and failed."""
    return any(part in complaint for part in ("cannot be started", "cannot be read", "nothing to start"))


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (
            "no-such-program-anywhere",
            "--command: no-such-program-anywhere cannot be started: No such file or directory",
        ),
        ("/", "--command: / cannot be started: Permission denied"),
        ("", "--command: nothing to start: give a program and its arguments"),
        ("echo 'x", "cannot be read: No closing quotation"),
        ("a\0b", "cannot be started: embedded null byte"),
        (script("sys.exit('out of luck')"), "ended with exit code 1 after 0 of 24 lines: out of luck"),
        (script("print(sys.stdin.readline()); sys.exit(3)"), "ended with exit code 3 after 2 of 24 lines"),
        (script("os.kill(os.getpid(), 9)"), "was ended by signal 9"),
        (script("print(0)"), "the program wrote 1 lines for the 24 that it read: it must write one report for each"),
        (script(f"{COPY}; print(0)"), "the program wrote 25 lines for the 24 that it read"),
        (script("while True: print('0' * 100)"), "the program writes on and on"),
        (script("while True: print('0' * 100, file=sys.stderr)"), "the program writes on and on"),
        (script("print('0' * 300); print('0\\n' * 23, end='')"), "line 1 has 300 characters: a report may have 256"),
        (script("sys.stdout.buffer.write(b'\\xff\\n' * 24)"), "line 1 is not text in UTF-8"),
        (script(f"{COPY}; sys.stdout.flush(); time.sleep(100)"), "the program has not ended after 1 s"),
    ],
)
def test_programs_that_cannot_be_audited(command: str, complaint: str) -> None:
    started = time.monotonic()
    result = call("--trials", 100, "--timeout", 1, "--command", command)
    assert result.exit_code == (cli.USAGE if is_a_mistake(complaint) else cli.UNMADE), result.output
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert time.monotonic() - started < 20


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
        (["--confidence", "nan"], "Invalid value for '--confidence': nan is not in the range 0.5<=x<=0.9999999."),
        (["--timeout", "nan", "--command", "cat"], "Invalid value for '--timeout': nan is not in the range"),
        (["--exact", "--command", "cat"], "--exact is of our own randomiser, and draws nothing"),
        (["--retries", "2"], "--retries goes with --command"),
        (["--retries", "100", "--command", "cat"], "--trials 1000000 with --command: at most 10000000 lines"),
        (["--timeout", "0", "--command", "cat"], "Invalid value for '--timeout'"),
    ],
)
def test_mistakes_are_refused(options: list[str], complaint: str) -> None:
    result = call(*options)
    assert result.exit_code == cli.USAGE, result.output
    assert complaint in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has asked after yet counts as ended."""
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text(encoding="utf-8").rsplit(") ", 1)[1].startswith("Z")


def ended(pids: list[int], seconds: float = 5.0) -> bool:
    """Whether processes end soon: the operating system takes its time."""
    deadline = time.monotonic() + seconds
    while not all(map(gone, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return all(map(gone, pids))


def noted(note: Path) -> list[int]:
    return [int(pid) for pid in note.read_text(encoding="utf-8").split()] if note.exists() else []


def parent(note: Path, then: str) -> str:
    """A program that starts a child in its group, notes both, and goes on."""
    return shlex.join(["sh", "-c", f"sleep 100 & echo $$ $! >> {shlex.quote(str(note))}; {then}"])


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
def test_nothing_is_left_running(tmp_path: Path, then: str, code: int) -> None:
    note = tmp_path / "pids"
    assert call("--trials", 200, "--timeout", 1, "--command", parent(note, then)).exit_code == code
    assert len(noted(note)) == 2 * program.RUNS
    assert ended(noted(note))


@needs_proc
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 128 + 15), (signal.SIGHUP, 128 + 1), (signal.SIGINT, cli.INTERRUPTED)],
)
def test_a_signal_ends_the_programs_first(tmp_path: Path, number: signal.Signals, code: int) -> None:
    note = tmp_path / "pids"
    arguments = ["audit", "--trials", "200", "--command", parent(note, "wait")]
    with subprocess.Popen([sys.executable, "-m", "maskedbandits.cli", *arguments], stderr=subprocess.DEVNULL) as audit:
        try:
            deadline = time.monotonic() + 20
            while len(noted(note)) < 2 * program.RUNS and time.monotonic() < deadline:
                time.sleep(0.02)
            audit.send_signal(number)
            assert audit.wait(10) == code
        finally:
            audit.kill()
    assert len(noted(note)) == 2 * program.RUNS
    assert ended(noted(note))


def test_a_signal_between_the_start_of_a_program_and_its_note_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[subprocess.Popen[bytes]] = []

    class Interrupting(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            seen.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupting)
    before = [signal.getsignal(number) for number in program.ENDING]
    result = call("--trials", 200, "--command", script("time.sleep(100)"))
    assert result.exit_code == cli.INTERRUPTED
    assert [process.poll() for process in seen] == [-9]
    assert [signal.getsignal(number) for number in program.ENDING] == before


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with program.caught_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            with pytest.raises(SystemExit, match="143"):
                signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # a second one leaves the cleaning up alone
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is played by /dev/full")
@pytest.mark.parametrize("options", [["--exact"], ["--trials", "200", "--command", "cat"]])
def test_findings_that_nobody_gets_are_no_refutation(options: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "maskedbandits.cli", "audit", *options]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (result.returncode, result.stderr) == (cli.UNMADE, b"maskedbandits: error: No space left on device\n")


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (BrokenPipeError(32, "Broken pipe"), "error: Broken pipe"),
        (OSError(28, "No space left on device", "/tmp/x"), "/tmp/x: No space left on device"),  # noqa: S108 -- not used
        (MemoryError(), "the audit does not fit into memory: give fewer --trials"),
    ],
)
def test_an_audit_that_cannot_be_made_is_no_refutation(
    monkeypatch: pytest.MonkeyPatch, error: Exception, complaint: str
) -> None:
    def broken(*rest: object) -> None:
        raise error

    monkeypatch.setattr(program, "text_of", broken)
    result = call("--trials", 200, "--command", "cat")
    assert (result.exit_code, result.stderr) == (cli.UNMADE, f"maskedbandits: {complaint}\n")


def test_an_interrupt_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[program.Run] = []

    def interrupted(runs: list[program.Run], *rest: object) -> None:
        seen.extend(runs)
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "wait", interrupted)
    result = call("--trials", 100, "--command", script("time.sleep(100)"))
    assert result.exit_code == cli.INTERRUPTED
    assert len(seen) == program.RUNS
    assert {run.process.poll() for run in seen} == {-9}


def test_windows_line_ends_are_no_part_of_a_report() -> None:
    result = call("--trials", 2000, "--command", script("for line in sys.stdin: print(line.strip(), end='\\r\\n')"))
    assert "report 1\r" not in result.stdout
    assert "P(1 | 1) in" in result.stdout


def test_a_second_carriage_return_is_part_of_a_report() -> None:
    text = "for line in sys.stdin: print(0, end='\\r' * (1 + int(line)) + '\\n')"
    result, found = audited_command(script(text), 2000)
    assert (result.exit_code, found["outcome"]) == (cli.FAILED, "refuted")


def test_slow_work_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("--trials", 1000).stderr == ""
    monkeypatch.setattr(cli.Slow, "EVERY", 0.0)
    monkeypatch.setattr(audit, "CHUNK", 500)
    result = call("--trials", 1000)
    assert result.stderr == " 50% done\n"
    assert "done" not in result.stdout


def test_a_person_at_a_terminal_sees_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(cli.Slow, "EVERY", 0.0)
    watch = cli.Slow()
    watch(0.25)
    watch(0.5)
    watch(1.0)
    watch.end()
    assert capsys.readouterr().err == "\r 25% done\r 50% done\r         \r"
