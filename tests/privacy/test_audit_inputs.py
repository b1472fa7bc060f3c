"""The inputs of an audit."""

from __future__ import annotations

import numpy as np
import pytest

from maskedbandits.privacy.audit import inputs, program, seeds, statistics

# What is asked


def test_runs_share_opening_and_balance_bits() -> None:
    runs = inputs.draw_bit_inputs(1003, 40)
    assert len(runs) == statistics.RUNS
    assert sum(bits.size for bits in runs) == 2006
    for bits in runs:
        assert bits[:40].tolist() == runs[0][:40].tolist()
        assert bits.sum() * 2 == bits.size
        assert bits[:40].sum() == 20
    assert len({bits[40:].tobytes() for bits in runs}) == statistics.RUNS


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0])
def test_opening_is_long_enough(epsilon: float) -> None:
    truth = 1 / (1 + np.exp(-epsilon))
    assert 28 * truth ** inputs.choose_opening_length(epsilon, 10**6) < seeds.MAX_CHANCE
    assert inputs.choose_opening_length(epsilon, 800) <= 200
    assert inputs.choose_opening_length(16, 800) == 100


def test_retried_decision_has_its_own_name() -> None:
    lines = (
        program.format_bits(np.array([0, 1, 1], dtype=np.uint8), b"first   second  third   ", 2).decode().splitlines()
    )
    assert [line.split()[0] for line in lines] == ["0", "1", "1", "0", "1", "1"]
    assert lines[:3] == lines[3:]
    assert len({line.split()[1] for line in lines}) == 3
    assert program.format_bits(np.array([0, 1, 1], dtype=np.uint8), b"", 1) == b"0\n1\n1\n"


@pytest.mark.parametrize("retries", [1, 2, 3, 5])
def test_retries_come_in_a_row_and_at_the_end(retries: int) -> None:
    lines = program.format_bits(np.array([0, 1, 1, 0], dtype=np.uint8), bytes(range(32)), retries).splitlines()
    first = program.select_first(lines, retries)
    assert len(first) == len(set(first)) == 4 if retries > 1 else first == lines
    assert program.join_repeats(lines, retries) == [b",".join([line] * retries) for line in first]
    if retries > 1:
        assert lines[-1] == first[-1] != lines[-1 - retries // 2]
