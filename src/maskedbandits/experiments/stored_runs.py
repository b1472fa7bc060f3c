"""Stored runs of a results folder: finished cells, and the finished runs of cells that were interrupted.

    cells/<name>-<runs>.npz           a finished cell
    parts/<name>-<first>-<runs>.npz   some runs of a cell, until it is finished

The name is a digest of everything that determines the numbers of a cell, except the number of its runs. So more runs
continue a cell with fewer runs, and a cell that was killed continues its parts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from maskedbandits.errors import UserError
from maskedbandits.experiments.cache_key import CellSpec, hash_name
from maskedbandits.experiments.results import CellOutcome, load_outcome, save_outcome
from maskedbandits.simulation.results import Simulation

PART = re.compile(r"([0-9a-f]+)-(\d+)-(\d+)\.npz")
CELL = re.compile(r"([0-9a-f]+)()-(\d+)\.npz")


class Span(NamedTuple):
    """Consecutive runs of a cell, and the file that has them."""

    first: int
    runs: int
    place: str  # the folder within the results folder
    key: str  # the name of the file

    @property
    def end(self) -> int:
        """The number of the run after the last one."""
        return self.first + self.runs


class StoredRuns:
    """The stored runs of a results folder, as listed when it was opened."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spans: defaultdict[str, list[Span]] = defaultdict(list)
        for place, pattern in (("cells", CELL), ("parts", PART)):
            for file in _list_names(folder / place):
                if found := pattern.fullmatch(file):
                    name, first, runs = found[1], int(found[2] or 0), int(found[3])
                    self.spans[name].append(Span(first, runs, place, file.removesuffix(".npz")))

    def load_cell(self, spec: CellSpec) -> CellOutcome | None:
        """Return a finished cell; a missing or damaged one is None."""
        return self._load(spec, Span(0, spec.runs, "cells", spec.key))

    def load_parts(self, spec: CellSpec) -> dict[int, Simulation]:
        """Return stored runs of a cell that do not overlap, by the number of their first run."""
        parts: dict[int, Simulation] = {}
        end = 0
        for span in sorted(self.spans[spec.name], key=lambda each: (each.first, -each.runs)):
            if span.first < end or span.end > spec.runs:
                continue
            outcome = self._load(spec, span)
            if outcome is not None and outcome.pulls_over_time is not None:
                parts[span.first] = outcome.simulation(spec.facts["policy"])
                end = span.end
        return parts

    def _load(self, spec: CellSpec, span: Span) -> CellOutcome | None:
        """Return the runs of a file; None if it is missing or damaged, or has other runs than its name says."""
        try:
            outcome = load_outcome(self.folder, span.key, span.place)
        except UserError:
            return None
        if outcome is None or hash_name(outcome.spec) != spec.name:
            return None
        is_right = (outcome.spec.get("first", 0), len(outcome.regret)) == (span.first, span.runs)
        return outcome if is_right and outcome.spec["runs"] == span.runs else None

    def save_part(self, spec: CellSpec, first: int, part: Simulation) -> None:
        """Store some runs of a cell that is not finished."""
        span = Span(first, part.runs, "parts", f"{spec.name}-{first}-{part.runs}")
        (self.folder / span.place).mkdir(exist_ok=True)
        outcome = CellOutcome.join({**spec.facts, "runs": part.runs, "first": first}, [part])
        save_outcome(self.folder, span.key, outcome, place=span.place)
        self.spans[spec.name].append(span)

    def save_cell(self, spec: CellSpec, outcome: CellOutcome) -> None:
        """Store a finished cell, and delete its parts."""
        save_outcome(self.folder, spec.key, outcome, spec.text)
        for span in self.spans.pop(spec.name, ()):
            if span.place == "parts" and span.end <= spec.runs:
                (self.folder / span.place / f"{span.key}.npz").unlink(missing_ok=True)


def _list_names(folder: Path) -> list[str]:
    """Return the names of the files of a folder; none if it does not exist."""
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def list_gaps(parts: dict[int, Simulation], runs: int) -> list[tuple[int, int]]:
    """Return the first run and the number of the runs that no part has."""
    gaps, end = [], 0
    for first, part in sorted(parts.items()):
        if first > end:
            gaps.append((end, first - end))
        end = first + part.runs
    return [*gaps, (end, runs - end)] if end < runs else gaps
