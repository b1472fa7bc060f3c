"""docs/data.md matches its tables, and those that need no download match the code."""

from __future__ import annotations

import numpy as np
import pytest
from docs import blocks
from docs import data as page

from maskedbandits import data


def rows(which: str) -> dict[str, list[str]]:
    lines = blocks.read(page.PAGE, which).splitlines()[2:]
    cells = [[cell.strip(" *`") for cell in line.strip("|").split("|")] for line in lines]
    return {first: others for first, *others in cells}


def test_page_names_all_data_sets() -> None:
    assert blocks.read(page.PAGE, "names") == page.names()
    assert list(rows("names")) == data.names()
    assert blocks.names(page.PAGE) == ["names", "worth", *page.SHOWN]


def test_page_text_matches_its_tables() -> None:
    worth = rows("worth")
    assert worth["retail"][0] == "40,077 rounds"
    assert worth["movielens-100k"][3] == "0"  # one genre is the best in every month
    assert float(worth["open-bandit-small"][4]) < 0.01  # fewer than one row in a hundred is a click
    assert worth["open-bandit-small"][0] == "10,000 rows of a log"
    for name in page.SHOWN:
        assert len(rows(name)) == int(worth[name][2])
        assert {len(row) for row in rows(name).values()} == {int(worth[name][1])}


def test_best_arm_is_bold_and_periods_are_weighted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcomes = [[1, 0], [1, 0], [0, 0], [0, 1]]
    table = data.Rounds(("a", "b"), np.array(outcomes), np.array([0, 3]), "a month", ("May", "June"))
    monkeypatch.setattr(page, "got", lambda name: table)
    assert page.months("x").splitlines()[2:] == ["| May | **0.667** | 0.000 |", "| June | 0.000 | **1.000** |"]
    assert page.worth_of("x") == ["`x`", "4 rounds", "2", "2", "1", "0.3750", "0.5000", "0.7500"]
