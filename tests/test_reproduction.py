"""Published numbers, reproduced: Gajane, Urvoy and Kaufmann (2018), main problem; Ren et al. (2020); Besson (2019)."""

from __future__ import annotations

import dataclasses
import math
import shutil
import sys
from pathlib import Path

import pytest
from docs import blocks
from docs import reproduction as page

from maskedbandits import experiments
from maskedbandits.experiments.progress_bar import SilentWatcher

FOLDER = Path(__file__).parent.parent / "experiments"


@pytest.mark.slow
@pytest.mark.parametrize(("label", "cells"), [("klUCB-CF", 8), ("UCB-CF", 1), ("TS-CF", 8)])
def test_regrets_match_gajane_2018(tmp_path: Path, label: str, cells: int) -> None:
    check("gajane2018", label, cells, tmp_path)  # panel a, and seven epsilons of panel b where they are published


@pytest.mark.slow
@pytest.mark.parametrize(("label", "cells"), [("klUCB", 2), ("SW-klUCB", 2), ("TS", 1)])
def test_regrets_match_besson_2019(tmp_path: Path, label: str, cells: int) -> None:
    check("published", label, cells, tmp_path)


@pytest.mark.slow
def test_regrets_match_ren_2020(tmp_path: Path) -> None:
    check("ren2020", "LDP-UCB-B", 3, tmp_path)


def test_page_has_a_block_for_every_table() -> None:
    assert blocks.names(page.PAGE) == list(page.TABLES)


def test_command_writes_named_block_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def few(name: str, command: str) -> experiments.Results:
        experiment = experiments.load(FOLDER / f"{name}.toml")
        cheap = tuple(task for task in experiment.tasks if task.label == "LDP-UCB-B")
        small = dataclasses.replace(experiment, runs=2, tasks=cheap)
        return experiments.run(small, tmp_path / name, SilentWatcher(), command=command)

    copy = tmp_path / "reproduction.md"
    shutil.copy(page.PAGE, copy)
    before = {name: blocks.read(copy, name) for name in page.TABLES}
    monkeypatch.setattr(page, "PAGE", copy)
    monkeypatch.setattr(page, "results", few)
    monkeypatch.setattr(sys, "argv", ["reproduction", "ren2020"])
    page.main()
    after = {name: blocks.read(copy, name) for name in page.TABLES}
    assert {name for name in after if after[name] != before[name]} == {"ren2020"}
    facts, _, *table = after["ren2020"].splitlines()
    assert facts.startswith("2 runs of 100,000 steps")
    assert len(table) == 2 + 3
    assert "| Twenty arms | 0.5 | LDP-UCB-B | 12,598 |" in table[2]


def check(name: str, label: str, cells: int, tmp_path: Path) -> None:
    experiment = experiments.load(FOLDER / f"{name}.toml")
    published = tuple(task for task in experiment.tasks if task.published is not None and task.label == label)
    assert len(published) == cells
    distant = [task for task in published if distance(experiment, task, tmp_path / "few") > 1.0]
    # a mean that 1,000 runs leave at the edge is decided by more of them
    more = dataclasses.replace(experiment, runs=3 * experiment.runs)
    assert [str(task) for task in distant if distance(more, task, tmp_path / "more") > 1.0] == []


def distance(experiment: experiments.ExperimentConfig, task: experiments.Task, folder: Path) -> float:
    """How far a cell is from what is published, in what is allowed.

    That is 5 % of the published value, or the 95 % interval of a difference where that is wider: published, too, are
    means of 1,000 runs.
    """
    alone = dataclasses.replace(experiment, tasks=(task,))
    (cell,) = experiments.run(alone, folder, SilentWatcher(), command="this test").cells
    assert cell.label.published is not None
    allowed = max(0.05 * cell.label.published, math.sqrt(2) * float(cell.half_width[-1]))
    return abs(float(cell.mean[-1]) - cell.label.published) / allowed
