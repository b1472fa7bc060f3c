"""The noise: reports that are right one by one and wrong together are refuted, sound ones are not."""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audits import MUTANTS, audited, call, judge_mutant, python, script
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits import cli
from maskedbandits.privacy.audit import contexts, inputs, noise, program, result, statistics, text
from maskedbandits.privacy.audit.contexts import RunLines
from maskedbandits.privacy.audit.run import judge_reports
from naive import audit_noise as naive

SHARE = 1 / (1 + math.e)  # of flips at epsilon = 1
runs_of_lines = st.integers(12, 60).flatmap(
    lambda size: st.tuples(*[st.lists(st.integers(0, 1), min_size=size, max_size=size)] * 2)
)


def lines(bits: list[int], flips: list[int]) -> RunLines:
    return RunLines(np.array(bits, dtype=np.uint8), np.array(flips, dtype=np.uint8))


# Mutants


@pytest.mark.parametrize(
    ("name", "trials", "where"),
    [
        ("every_second_raw", 2000, "on lines 2, 4, 6, ..."),
        pytest.param("odd_lines_reveal_more", 20_000, "on lines 1, 3, 5, ...", marks=pytest.mark.slow),
        ("one_noise_for_two", 5000, "after "),
        pytest.param("one_noise_for_twenty", 5000, "after ", marks=pytest.mark.slow),
        pytest.param("table_read_again_and_again", 20_000, "lines after ", marks=pytest.mark.slow),
        ("warms_up", 20_000, "on lines 32 to 63"),
        ("dealt_from_a_hundred", 20_000, ""),
        pytest.param("dealt_from_a_thousand", 200_000, "", marks=pytest.mark.slow),
    ],
)
def test_shared_dealt_or_varying_noise_is_refuted(name: str, trials: int, where: str) -> None:
    result, found = audited(name, 1, trials, "--confidence", "0.99")
    assert result.exit_code == cli.FAILED
    assert found["outcome"] in ("refuted", "uneven noise")
    assert not found["noise"]["holds"]
    if where:
        known = max(one["epsilon_at_least"] for one in found["events"])  # of all reports alike: about 1
        worst = max(found["noise"]["contexts"], key=lambda one: float(one["epsilon_at_least"]))
        assert where in worst["context"]
        assert found["outcome"] == "refuted"
        assert known < 1.2 < worst["epsilon_at_least"]
    else:
        assert any(block["too_even"] for block in found["noise"]["blocks"])


@pytest.mark.slow
def test_noise_from_hash_of_decision_is_refuted() -> None:
    # With 256 values of the hash, runs flip with a deviation of 0.028; each of 8 shows 0.0085. All hide once in 10^5.
    result, found = audited("noise_by_a_hash_of_the_decision", 1, 200_000, "--retries", 2, "--confidence", "0.99")
    assert result.exit_code == cli.FAILED
    uneven = [one["context"] for one in found["noise"]["contexts"] if not one["holds"]]
    assert any(context.startswith("in run ") for context in uneven)


def test_noise_from_name_is_refuted() -> None:
    result, found = audited("noise_from_the_name", 1, 5000, "--retries", 2)
    assert (result.exit_code, found["outcome"]) == (cli.FAILED, "uneven noise")
    names = found["noise"]["names"]
    assert names["followed"]
    assert names["same"] == names["decisions"] >= 200
    assert found["verdict"].endswith("anyone who knows the name can undo the mask.")


def test_stored_decisions_are_not_refuted(tmp_path: Path) -> None:
    command = python(MUTANTS, "stored_on_disk", 1, tmp_path)
    options = ("--retries", 2, "--confidence", "0.9999999", "--timeout", 600)
    result = call("--trials", 800, "--command", command, *options)
    assert result.exit_code == 0, result.output
    assert "Not refuted" in result.stdout
    assert len(list(tmp_path.iterdir())) < 1600 + 8 * 100  # names that several runs were asked


@pytest.mark.parametrize("end", ["\\r", "\\r\\r"])
def test_partial_line_ends_belong_to_report(end: str) -> None:
    result, found = audited("tells_by_the_end_of_the_line", 1, 2000)
    assert (result.exit_code, found["outcome"]) == (cli.FAILED, "refuted")
    text = f"for line in sys.stdin: print(line.strip() == '1' and '0' or '0', end='{end}' * int(line) + '\\n')"
    assert call("--trials", 200, "--command", script(text)).exit_code == cli.FAILED


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ([[b"0\r", b"1\r"], [b"1\r"]], [[b"0", b"1"], [b"1"]]),
        ([[b"0\r", b"1\r"], [b"1"]], [[b"0\r", b"1\r"], [b"1"]]),
        ([[b"0\r\r", b"1\r"]], [[b"0\r", b"1"]]),
        ([[b"0", b"1"]], [[b"0", b"1"]]),
    ],
)
def test_common_line_end_is_removed(written: list[list[bytes]], read: list[list[bytes]]) -> None:
    assert program.strip_line_ends(written) == read


def test_last_line_may_lack_its_end() -> None:
    text = "sys.stdout.write('\\r\\n'.join(line.strip() for line in sys.stdin))"
    assert "g                     P(1 | 0) in" in call("--trials", 200, "--command", script(text)).stdout
    assert "'1\\r'" not in call("--trials", 200, "--command", script(text)).stdout


# False alarms


@pytest.mark.slow
def test_sound_noise_is_rarely_refuted() -> None:
    # At a confidence of 0.5, noise has an eighth of chance for itself: 60 audits of 6,000 lines refute 7.5 times at
    # most on average, and more than 25 times once in 10^8. Were contexts tested by who chose them, most would.
    rng = np.random.default_rng(8)
    level, refuted = statistics.allocate_error(0.5).noise, 0
    for _ in range(60):
        bit_runs = inputs.draw_bit_inputs(3000, 20)
        runs = [RunLines(bits, (rng.random(bits.size) < SHARE).astype(np.uint8)) for bits in bit_runs]
        again = [RunLines(bits, (rng.random(20) < SHARE).astype(np.uint8)) for bits in (inputs.draw_bits(20),) * 8]
        refuted += not noise.judge_noise(runs, again, Fraction(1), level).holds
    assert refuted <= 25


@pytest.mark.slow
def test_sound_program_is_rarely_refuted() -> None:
    # All bounds together: of 80 audits at a confidence of 0.9, 8 refute at most on average; over 25 once in 10^7.
    rng = np.random.default_rng(9)
    refuted = 0
    for _ in range(80):
        bit_runs = inputs.draw_bit_inputs(1000, 60)
        reports = [[b"%d" % bit for bit in bits ^ (rng.random(bits.size) < SHARE)] for bits in bit_runs]
        refuted += judge_reports("", Fraction(1), 0.9, bit_runs, reports, 1, 60).outcome != "not refuted"
    assert refuted <= 25


@pytest.mark.parametrize("epsilon", [0, 1, 4, 16])
@pytest.mark.parametrize("trials", [100, 3000])
def test_sound_noise_of_any_size_can_be_judged(epsilon: int, trials: int) -> None:
    rng = np.random.default_rng(epsilon)
    share = 1 / (1 + math.exp(epsilon))
    runs = [
        RunLines(bits, (rng.random(bits.size) < share).astype(np.uint8)) for bits in inputs.draw_bit_inputs(trials, 10)
    ]
    assert noise.judge_noise(runs, [], Fraction(epsilon), statistics.allocate_error(0.9999999).noise).holds


def test_error_budget_is_not_exceeded() -> None:
    level = statistics.allocate_error(0.99)
    known, chosen = 4 * statistics.KNOWN_EVENTS * level.known, 4 * statistics.CHOSEN_EVENTS * level.chosen
    noisy = level.noise * (4 * statistics.TESTED_CONTEXTS + statistics.BLOCK_LENGTHS + 1)
    assert known + chosen + noisy + level.side == pytest.approx(0.01)
    runs = [lines([0, 1] * 600, [0, 0, 1, 1] * 300)] * statistics.RUNS
    seen = noise.judge_noise(runs, runs, Fraction(0), level.noise)
    assert len(seen.contexts) <= statistics.TESTED_CONTEXTS
    assert len(seen.blocks) <= statistics.BLOCK_LENGTHS
    assert len(list(noise.judge_evenness([lines([0, 1] * 10**6, [0, 1] * 10**6)], 0.5))) == statistics.BLOCK_LENGTHS


def test_choosing_runs_do_not_test_contexts() -> None:
    # Half of the runs leave every second line as it is and choose this context; the others, which test it, do not.
    rng = np.random.default_rng(4)
    runs = [RunLines(*(rng.random((2, 2000)) < 0.4).astype(np.uint8)) for _ in range(8)]
    for run in runs[::2]:
        run.flips[1::2] = 0
    found = {one.name: one for one in noise.judge_contexts(runs, Fraction(0), 1e-6)}
    seen = found["on lines 2, 4, 6, ..."]
    for bit in (0, 1):
        reports = [(run.bits ^ run.flips)[1::2][run.bits[1::2] == bit] for run in runs[1::2]]
        assert seen.one.trials[bit] == sum(part.size for part in reports)
        assert seen.one.hits[bit] == sum(int(part.sum()) for part in reports)


def test_flip_contexts_count_a_fixed_number_of_lines() -> None:
    rng = np.random.default_rng(3)
    runs = [
        RunLines(bits, (rng.random(bits.size) < SHARE).astype(np.uint8)) for bits in inputs.draw_bit_inputs(4000, 20)
    ]
    [candidate] = contexts.count_contexts(runs[::2], [contexts.build_at_distance(1, 0)])
    limits = noise.compute_limits(candidate, 1.0)
    members = [candidate.context.members(run) for run in runs[1::2]]
    [seen] = noise.judge_context("", runs[1::2], members, Fraction(1), 0.01, limits)
    assert seen.one.trials == tuple(limits) == tuple(int(0.9 * count) for count in candidate.lines)
    assert not list(
        noise.judge_context("", runs[1::2], members, Fraction(1), 0.01, 2 * limits)
    )  # fewer: nothing is said


# Against the obvious


@given(runs_of_lines, st.integers(2, 9), st.integers(1, 5), st.integers(0, 31))
def test_context_members_match_naive_ones(
    run: tuple[list[int], list[int]], period: int, length: int, code: int
) -> None:
    bits, flips = run
    run_lines, code = lines(bits, flips), code % 2**length
    pattern = [code >> index & 1 for index in reversed(range(length))]
    for context, obvious in [
        (contexts.build_every_nth(period, period - 1), naive.every(flips, period, period - 1)),
        (contexts.build_stretch(4), naive.stretch(flips, 4)),
        (contexts.build_after_flips(code, length), naive.after(flips, pattern)),
        (contexts.build_after_line(1, 0), naive.after_line(bits, flips, 1, 0)),
        (contexts.build_at_distance(length, 1), naive.back(flips, length, 1)),
        (contexts.build_count(length, 1, few=True, of_flips=True), naive.flipped(flips, length, 1, few=True)),
        (contexts.build_count(length, 1, few=False, of_flips=True), naive.flipped(flips, length, 1, few=False)),
    ]:
        assert context.members(run_lines).tolist() == obvious, context.name
        seen = contexts.count_members([run_lines], context.members)
        assert tuple(part.tolist() for part in seen) == naive.tally(bits, flips, obvious)


def test_candidate_counts_match_naive_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "MAX_PERIOD_LINES", 12)
    monkeypatch.setattr(contexts, "MIN_CONTEXT_LINES", 1)
    rng = np.random.default_rng(1)
    runs = [RunLines(*(rng.random((2, size)) < 0.4).astype(np.uint8)) for size in (301, 300, 299)]
    rates = contexts.compute_flip_rates(runs)
    kinds = (
        contexts.search_positions(runs, rates),
        contexts.search_last_lines(runs, rates),
        contexts.search_distances(runs, rates),
    )
    found = [one for kind in (*kinds, contexts.search_counts(runs, of_flips=True)) for one in kind]
    assert len({one.context.name for one in found}) > 50
    for one in found:
        counted = [
            naive.tally(run.bits.tolist(), run.flips.tolist(), one.context.members(run).tolist()) for run in runs
        ]
        assert one.lines.tolist() == np.sum([part[0] for part in counted], axis=0).tolist(), one.context.name
        assert one.flips.tolist() == np.sum([part[1] for part in counted], axis=0).tolist(), one.context.name


def test_correlated_distance_of_flips_is_found() -> None:
    rng = np.random.default_rng(2)
    runs = []
    for _ in range(3):
        bits, flips = (rng.random((2, 400)) < 0.4).astype(np.uint8)
        flips[37:] = np.where(rng.random(363) < 0.5, flips[:-37], flips[37:])
        runs.append(RunLines(bits, flips))
    rates = contexts.compute_flip_rates(runs)
    apart = [
        sum(naive.together(run.bits.tolist(), run.flips.tolist(), rates.tolist(), distance) for run in runs)
        / math.sqrt(400 - distance)
        for distance in range(1, 201)
    ]
    best = sorted(range(1, 201), key=lambda distance: -abs(apart[distance - 1]))[: contexts.TRIED_DISTANCES]
    named = [one.context.name.split()[0] for one in contexts.search_distances(runs, rates)]
    assert named == [str(distance) for distance in best for _ in (0, 1)]
    assert best[0] == 37


@pytest.mark.parametrize(("length", "rate", "blocks"), [(8, SHARE, 500), (64, 0.5, 20), (100, 0.02, 4), (50, SHARE, 1)])
def test_evenness_p_value_is_binomial(length: int, rate: float, blocks: int) -> None:
    low, high = noise.find_close_range(length, rate, blocks)
    assert low <= length * rate + 0.5
    assert high >= length * rate - 0.5
    share = naive.binomial(length, rate, low, high)
    flips = np.zeros(length * blocks, dtype=np.uint8)
    for block in range(blocks // 2):
        flips[block * length : block * length + round(length * rate)] = 1
    found = [one for one in noise.judge_evenness([RunLines(flips, flips)], rate) if one.lines == length]
    for one in found:
        assert one.blocks == blocks
        assert one.chance == pytest.approx(naive.binomial(blocks, share, one.close, blocks), rel=1e-6)
    assert found or length not in (8, 64)


# Words


def test_runs_with_one_seed_are_not_independent() -> None:
    found = judge_mutant("same_seed", 2000)
    assert found.noise is None
    assert "noise                 not checked: runs with one seed are not independent" in text.format_findings(found)


def sound_reports(bit_runs: list[Any]) -> list[list[bytes]]:
    """Return reports of epsilon = 1: 69 of 256 bytes flip."""
    drawn = [os.urandom(bits.size) for bits in bit_runs]
    return [
        [b"%d" % (bit ^ (byte < 69)) for bit, byte in zip(bits, some, strict=True)]
        for bits, some in zip(bit_runs, drawn, strict=True)
    ]


def test_table_lists_uneven_contexts_only() -> None:
    bit_runs = inputs.draw_bit_inputs(3000, 40)
    reports = sound_reports(bit_runs)
    printed = text.format_findings(judge_reports("", Fraction(1), 0.9999999, bit_runs, reports, 1, 40))
    [noise_line] = [line for line in printed if line.startswith("noise")]
    assert re.fullmatch(
        r"noise +as stated in \d\d contexts: by position, after earlier inputs and flips, and in each run", noise_line
    )
    assert not any("on lines" in line for line in printed)
    for bits, run in zip(bit_runs, reports, strict=True):
        run[1::2] = [b"%d" % bit for bit in bits[1::2]]
    printed = text.format_findings(judge_reports("", Fraction(2), 0.9999999, bit_runs, reports, 1, 40))
    assert any(line.startswith("report 1 on lines 2, 4, 6, ...") for line in printed)
    assert printed[-1].startswith("REFUTED: epsilon is at least")


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (
            result.NoiseFindings((), (result.EvenBlocks(64, 100, 99, 1e-20),), None, 1e-6),
            "REFUTED: 99 of 100 blocks of 64 lines are flipped as often as stated, or almost (by chance: 1e-20): "
            "noise is dealt, not drawn, so some reports tell of others.",
        ),
        (
            result.NoiseFindings((), (), result.NameNoise(200, 200, 0.6, 0.9), 1e-6),
            "REFUTED: two runs mask 200 of 200 decisions of one name alike, stated 60 %: "
            "anyone who knows the name can undo the mask.",
        ),
    ],
)
def test_verdict_of_noise_is_one_line(seen: result.NoiseFindings, verdict: str) -> None:
    bit_runs = inputs.draw_bit_inputs(3000, 40)
    found = judge_reports("", Fraction(1), 0.9999999, bit_runs, sound_reports(bit_runs), 1, 40)
    uneven = replace(found, noise=seen)
    assert uneven.outcome == "uneven noise"
    assert text.format_verdict(uneven) == verdict
    assert text.as_json(uneven)["noise"]["holds"] is False
