"""A small experiment for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from maskedbandits import experiments
from maskedbandits.experiments import results, runner
from maskedbandits.experiments.progress_bar import SilentWatcher

GOOD = """
title = "Small"
runs = 4
seed = 5
checkpoints = 10
epsilons = [1, inf]

[[problems]]
name = "swap"
horizon = 600
starts = [0, 300]
means = [[0.9, 0.1, 0.2], [0.1, 0.9, 0.2]]

[[problems]]
name = "still"
horizon = 400
means = [0.8, 0.3]
p00 = 0.9
p11 = [0.8, 0.7]

[[policies]]
name = "sw-klucb-cf"
window = "paper"

[[policies]]
name = "klucb-cf"
label = "plain"
c = 0
"""


def write(folder: Path, text: str = GOOD) -> Path:
    path = folder / "x.toml"
    path.write_text(text, encoding="utf-8")
    return path


def run(path: Path, out: Path, watcher: runner.Watcher | None = None, **options: object) -> results.Results:
    fresh, threads = bool(options.pop("fresh", False)), options.pop("threads", None)
    experiment = experiments.load(path, **options)  # type: ignore[arg-type]
    return experiments.run(
        experiment,
        out,
        watcher or SilentWatcher(),
        command="run it",
        fresh=fresh,
        threads=threads,  # type: ignore[arg-type]
    )


def same_numbers(one: results.CellOutcome, other: results.CellOutcome) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in results.ARRAYS)
