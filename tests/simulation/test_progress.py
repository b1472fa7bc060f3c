"""Progress of simulations in a notebook, and without a terminal."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from maskedbandits import Problem, RandomizedResponse, simulate
from maskedbandits._util import progress
from maskedbandits._util.progress import format_speed

PROBLEM = Problem([0.2, 0.7], [0], 500, RandomizedResponse.from_epsilon(1.0))


class Notebook:
    """What a notebook shows under its cell, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kernel: object = "one") -> None:
        self.lines: list[str] = []
        shell, output = ModuleType("IPython"), ModuleType("IPython.display")
        vars(shell)["get_ipython"] = lambda: SimpleNamespace(kernel=kernel)
        vars(output)["display"] = self.display
        monkeypatch.setitem(sys.modules, "IPython", shell)
        monkeypatch.setitem(sys.modules, "IPython.display", output)

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert (raw, display_id) == (True, True)
        return SimpleNamespace(update=lambda data, raw: self.lines.append(data["text/plain"]))


def test_long_simulation_writes_a_line_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch)
    monkeypatch.setattr(progress, "SHOW_AFTER_S", -1.0)  # every simulation is long
    simulate(PROBLEM, "uniform", runs=2)
    assert "100%" in notebook.lines[-2]
    assert "steps/s" in notebook.lines[-2]
    assert notebook.lines[-1] == ""  # nothing is left of it


def test_short_simulation_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch)
    monkeypatch.setattr(progress, "SHOW_AFTER_S", 1e9)
    simulate(PROBLEM, "uniform", runs=2)
    assert notebook.lines == []


def test_progress_false_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch)
    monkeypatch.setattr(progress, "SHOW_AFTER_S", -1.0)
    simulate(PROBLEM, "uniform", runs=2, progress=False)
    assert notebook.lines == []


def test_ipython_in_a_terminal_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    Notebook(monkeypatch, kernel=None)
    assert not progress.is_notebook()


@pytest.mark.parametrize(
    ("steps", "text"), [(12.0, "12"), (4321.0, "4.32 thousand"), (21e6, "21 million"), (3e9, "3 billion")]
)
def test_speed_is_never_zero_million(steps: float, text: str) -> None:
    assert format_speed(steps) == text
