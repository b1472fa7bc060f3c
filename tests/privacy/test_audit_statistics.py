"""The statistics of an audit: bounds, events that reports choose, seeds."""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import pytest
from audits import MUTANTS, call, judge, python

from maskedbandits.privacy.audit import events, inputs, statistics
from maskedbandits.privacy.audit import run as judging
from naive import audit_statistics as naive

# The statistics


@pytest.mark.parametrize("level", [0.05, 1e-4])
@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (1, 10), (7, 10), (10, 10), (3, 60), (30, 60)])
def test_bounds_are_clopper_pearson(hits: int, trials: int, level: float) -> None:
    one, of = np.array(hits), np.array(trials)
    assert statistics.clopper_pearson_lower(one, of, level) == pytest.approx(
        naive.lowest_share(hits, trials, level), abs=1e-9
    )
    highest = 1 - naive.lowest_share(trials - hits, trials, level)
    assert statistics.clopper_pearson_upper(one, of, level) == pytest.approx(highest, abs=1e-9)


def test_epsilon_bound_is_larger_ratio() -> None:
    seen = statistics.Event("", (30, 80), (100, 100), 0.01)
    low = naive.lowest_share(80, 100, 0.01)
    high = 1 - naive.lowest_share(70, 100, 0.01)
    assert seen.epsilon == pytest.approx(np.log(low / high), abs=1e-8)
    assert statistics.Event("", (80, 30), (100, 100), 0.01).epsilon == pytest.approx(seen.epsilon, abs=1e-12)
    assert statistics.Event("", (50, 50), (100, 100), 0.01).epsilon == 0
    assert statistics.Event("", (0, 0), (100, 100), 0.01).epsilon == 0


@pytest.mark.parametrize(("claimed", "trials"), [(1.0, 10_000), (0.1, 2000), (3.0, 100_000)])
def test_smallest_excess_has_stated_power(claimed: float, trials: int) -> None:
    level = statistics.allocate_error(0.99).known
    excess = statistics.find_smallest_excess(claimed, trials, level)
    assert excess is not None
    rng = np.random.default_rng(1)
    rates = []
    for factor in (1.0, 0.5):
        false = 1 / (1 + np.exp(claimed + factor * excess))
        hits = np.stack([rng.binomial(trials, 1 - false, 4000), rng.binomial(trials, false, 4000)], axis=1)
        rates.append(np.mean(statistics.epsilon_lower_bound(hits, np.full(2, trials), level) > claimed))
    # 4000 draws with a fixed seed: the true rates are above 0.95 and far below it
    assert rates[0] >= 0.95
    assert rates[1] < 0.9


def test_trials_needed_are_minimal() -> None:
    level = statistics.allocate_error(0.99).known
    needed = statistics.count_trials_needed(5.0, level)
    assert statistics.find_smallest_excess(5.0, needed, level) is not None
    assert statistics.find_smallest_excess(5.0, needed - 1, level) is None


def test_events_are_tested_on_independent_half() -> None:
    # Words that say nothing of the input, so many that each comes once or twice: some fit any half by chance.
    rng = np.random.default_rng(2)
    refuted = 0
    for _ in range(20):
        runs = inputs.draw_bit_inputs(400, 20)
        words = [[f"{rng.integers(300):04}".encode() for _ in bits] for bits in runs]
        refuted += judge(words, runs).outcome == "refuted"
    assert refuted <= 12  # at most 2 on average: more than 12 come once in 10^8 times


def test_report_of_position_is_no_leak() -> None:
    # All runs have the same opening: there, a place tells the input, but only to one who has several runs.
    opening = inputs.choose_opening_length(1, 2000)
    runs = inputs.draw_bit_inputs(2000, opening)
    rng = np.random.default_rng(6)
    words = [[b"%d %d" % (index, bit ^ (rng.random() < 0.27)) for index, bit in enumerate(bits)] for bits in runs]
    found = judging.judge_reports("", Fraction(1), 0.9999999, runs, words, 1, opening)
    assert found.outcome == "not refuted"


def test_leak_in_many_words_is_found_by_score() -> None:
    # Even words for a 0, odd ones for a 1, in a code whose characters say nothing.
    rng = np.random.default_rng(3)
    code = [f"{word:03}" for word in rng.permutation(200)]
    runs = inputs.draw_bit_inputs(2000, 20)
    words = [[code[2 * rng.integers(100) + bit].encode() for bit in bits] for bits in runs]
    found = judge(words, runs, 0.9999999)
    assert found.outcome == "refuted"
    assert max(found.events, key=lambda one: one.epsilon).name.startswith("score of reports")


def test_reports_are_compared_by_position() -> None:
    runs = inputs.draw_bit_inputs(2000, 20)
    words = [[b"noo" if bit else b"no" for bit in bits] for bits in runs]
    found = judge(words, runs, 0.9999999)
    assert found.outcome == "refuted"
    assert {"report noo", "report no", "character 3 is o", "no character 3"} <= {one.name for one in found.events}


def test_every_character_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    # No report comes twice, the bit is the last of 17 characters, and memory holds no more than three of each at once.
    runs = inputs.draw_bit_inputs(2000, 20)
    monkeypatch.setattr(events, "MAX_CELLS", 3 * 4000 + 1)
    words = [[f"{os.urandom(8).hex()}{bit}".encode() for bit in bits] for bits in runs]
    found = judge(words, runs, 0.9999999)
    assert found.outcome == "refuted"
    assert max(found.events, key=lambda one: one.epsilon).name.startswith("character 17 is ")


@pytest.mark.parametrize("cells", [1, 7, 12, 1 << 28])
def test_columns_do_not_depend_on_memory_limit(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    monkeypatch.setattr(events, "MAX_CELLS", cells)
    columns = [column.tobytes() for column in events.iterate_characters([b"abcde", b"", b"xyz"])]
    assert columns == [b"a\0x", b"b\0y", b"c\0z", b"d\0\0", b"e\0\0"]
    assert list(events.iterate_characters([b"", b""])) == []


def test_constant_answer_is_no_seed() -> None:
    runs = inputs.draw_bit_inputs(200, 20)
    found = judge([[b"x"] * bits.size for bits in runs], runs)
    assert found.seeds is not None
    assert (found.seeds.same, found.seeds.is_conclusive, found.outcome) == (8, False, "not refuted")
    assert "cannot be judged" in call("--trials", 200, "--command", python(MUTANTS, "always_zero", 1)).stdout


def test_answer_fixed_per_run_is_no_seed() -> None:
    runs = inputs.draw_bit_inputs(200, 20)
    answers = [[b"%d" % (run % 2)] * bits.size for run, bits in enumerate(runs)]
    found = judge(answers, runs)
    assert found.seeds is not None
    assert (found.seeds.same, found.seeds.is_conclusive) == (8, False)


def test_two_runs_with_one_seed_are_found() -> None:
    runs = inputs.draw_bit_inputs(4000, 200)
    streams = [np.frombuffer(os.urandom(1100), dtype=np.uint8) & 1 for _ in runs]
    streams[5] = streams[2]
    answers = [
        [b"%d" % (bit ^ flip) for bit, flip in zip(bits, stream, strict=False)]
        for bits, stream in zip(runs, streams, strict=True)
    ]
    found = judging.judge_reports("", Fraction(0), 0.9999999, runs, answers, 1, 200)
    assert found.seeds is not None
    assert (found.seeds.same, found.seeds.is_fixed) == (2, True)
