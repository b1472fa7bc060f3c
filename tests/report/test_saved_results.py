"""Results on disk: they load exactly, and what is damaged is refused."""

from __future__ import annotations

import contextlib
import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from made_up import results
from maskedbandits.errors import UserError
from maskedbandits.experiments.canonical_json import to_plain
from maskedbandits.experiments.results import Results, load, save_manifest, save_outcome


def saved(folder: Path) -> Results:
    made = results(epsilons=(1.0,))
    save_manifest(folder, made.manifest)
    for cell in made.cells:
        save_outcome(folder, cell.label.key, cell.outcome)
    return made


def test_they_load_exactly(tmp_path: Path) -> None:
    made = saved(tmp_path)
    loaded = load(tmp_path)
    assert loaded.manifest == made.manifest
    assert loaded.complete
    for one, other in zip(made.cells, loaded.cells, strict=True):
        assert one.label == other.label
        assert one.outcome.spec == other.outcome.spec
        for name in ("times", "regret", "pulls", "suboptimal_pulls"):
            np.testing.assert_array_equal(getattr(one.outcome, name), getattr(other.outcome, name), strict=True)


def cell_file(folder: Path) -> Path:
    return min((folder / "cells").iterdir())


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda folder: (folder / "results.json").write_text("{"), "results.json: damaged"),
        (lambda folder: (folder / "results.json").write_text('{"format": 1}'), "results.json: damaged"),
        (lambda folder: (folder / "results.json").write_text("[]"), "results.json: damaged"),
        (
            lambda folder: (folder / "results.json").write_text('{"format": 99}'),
            "format 99, this version reads format 1",
        ),
        (lambda folder: (folder / "results.json").unlink(), "no results here"),
        (lambda folder: cell_file(folder).write_bytes(b"PK\x03\x04 rubbish"), ".npz: damaged"),
        (lambda folder: cell_file(folder).write_bytes(b""), ".npz: damaged"),
        (lambda folder: cell_file(folder).write_bytes(cell_file(folder).read_bytes()[:200]), ".npz: damaged"),
    ],
)
def test_damaged_results_are_refused_in_one_line(
    tmp_path: Path, damage: Callable[[Path], object], complaint: str
) -> None:
    saved(tmp_path)
    damage(tmp_path)
    with pytest.raises(UserError) as caught:
        load(tmp_path)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_more_is_unpacked_than_the_question_says(tmp_path: Path) -> None:
    """Zeros pack a thousand to one: 64 MiB of them would still be a small file."""
    saved(tmp_path)
    with np.load(cell_file(tmp_path)) as stored:
        arrays = {**stored, "regret": np.zeros((8, 1 << 20))}
    np.savez_compressed(cell_file(tmp_path), **arrays)
    with pytest.raises(UserError, match="damaged results file"):
        load(tmp_path)
    tracemalloc.start()
    with contextlib.suppress(UserError):
        load(tmp_path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 24


def test_plain_values_keep_infinity_and_lose_numpy() -> None:
    assert to_plain({"a": np.float64(math.inf), "b": np.arange(2), "c": (math.nan, -math.inf)}) == {
        "a": "inf",
        "b": [0, 1],
        "c": [None, "-inf"],
    }
