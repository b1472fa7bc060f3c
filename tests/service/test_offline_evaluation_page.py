"""docs/offline_evaluation.md matches the command's output and its own table."""

from __future__ import annotations

import re

import pytest
from docs import blocks
from docs import offline_evaluation as page


def shown() -> str:
    return " ".join(blocks.read(page.PAGE, "example").split())


def test_example_has_documented_means() -> None:
    prose = " ".join(blocks.prose(page.PAGE).split())
    before, after = ([f"{100 * mean:.0f}" for mean in means] for means in page.MEANS)
    assert f"the arms succeed with {before[0]}, {before[1]} and {before[2]} %" in prose
    assert f"after the middle with {after[0]}, {after[1]} and {after[2]} %" in prose
    assert blocks.names(page.PAGE) == list(page.BLOCKS)
    assert f"{page.LOGS} logs of each size" in prose
    assert "here one report in twenty" in prose
    assert "learns from one report in 20," in shown()


def test_example_intervals_contain_truth() -> None:
    lines = blocks.read(page.PAGE, "example").splitlines()
    means = [[(first + second) / 2 for first, second in zip(*page.MEANS, strict=True)], *page.MEANS]
    for place, name in enumerate(page.NAMES):
        rows = [line for line in lines if line.startswith(f"{name} ")]
        for row, truths in zip(rows, means, strict=True):
            found = re.findall(r"\((\d\.\d+)–(\d\.\d+)\)", row)
            assert len(found) == 3
            assert all(float(low) <= truths[place] <= float(high) for low, high in found)
    assert max(map(len, lines)) <= 80


def test_interval_table_supports_the_text() -> None:
    rows = [line.strip("| ").split(" | ") for line in blocks.read(page.PAGE, "coverage").splitlines()[2:]]
    assert [(row[0], row[1]) for row in rows] == [(f"{reports:,}", f"{floor:g}") for reports, floor in page.SIZES]
    for _, _, sure, approximate, wide, narrow in rows:
        assert float(sure.rstrip(" %")) < 5
        assert 4 < float(approximate.rstrip(" %")) < 6
        assert float(narrow) < float(wide)


@pytest.mark.slow
def test_example_is_command_output() -> None:
    assert blocks.read(page.PAGE, "example") == page.example()
