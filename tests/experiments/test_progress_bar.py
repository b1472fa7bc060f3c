"""What is shown during a wait."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from maskedbandits.experiments.progress_bar import BarWatcher, LogWatcher, SilentWatcher, choose_watcher, shorten
from maskedbandits.experiments.results import Label
from small_experiment import run, write


def test_log_has_a_line_for_each_cell_of_long_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick, slow = LogWatcher(), LogWatcher()
    quick.started += 3600  # as if it had begun an hour later, or earlier
    run(write(tmp_path), tmp_path / "a", quick)
    slow.started -= 3600
    run(write(tmp_path), tmp_path / "b", slow)
    said = capsys.readouterr()
    assert said.out == ""
    lines = [line for line in said.err.splitlines() if "regret" in line]
    assert len(lines) == 6
    assert min(lines).startswith("1/6 swap · ε = 1 · sw-klucb-cf (window=paper): regret ")


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # a dumb one has 80 columns, whatever one says


LABEL = Label("k", "Five arms: a quiet rise, a collapse, a quiet rise", "SW-KLUCB-CF, corrected window", 0.5)


def drawn(width: int, label: Label = LABEL, *, played: bool = True) -> str:
    """The one line that a terminal of so many columns shows, while the fourth of twelve cells runs."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False)
    bar = BarWatcher(console)
    bar.start(12, 0)
    bar.finished = 3
    bar.begin(3, label)
    if played:
        bar.steps(1, 4)
        bar.steps(2, 4)
    with console.capture() as shown:
        console.print(bar.progress.get_renderable())
    lines = shown.get().rstrip("\n").split("\n")
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize("width", [160, 100, 80, 72, 71, 60, 40, 30])
def test_bar_percentage_and_time_left_always_show(width: int) -> None:
    line = drawn(width)
    assert cell_len(line) <= width
    assert line.startswith("4/12" if width >= 40 else "4/")
    assert re.search(
        r" ━[━╸ ]{8,} \d+% .*(\d+:\d\d|--:--)$", line
    )  # what is still to do is drawn in colour, here as blanks
    assert ("steps/s" in line) == (width >= 72)


def test_long_names_are_shortened_and_epsilon_stays() -> None:
    assert f"4/12 {LABEL.problem} · ε = 0.5 · {LABEL.policy}" in drawn(160)
    for width in (100, 80, 72, 60, 50):
        line = drawn(width)
        assert "ε = 0.5" in line
        assert "…" in line
    assert drawn(80).startswith("4/12 Fiv")
    short = Label("k", LABEL.problem, "auto", 0.5)
    assert "… · ε = 0.5 · auto ━" in re.sub(r"\S+ · ε", "… · ε", drawn(80, short))  # a short name stays whole


def test_percentage_and_epsilon_show_before_the_first_step() -> None:
    line = drawn(80, played=False)  # as while a policy is compiled
    assert "ε = 0.5" in line
    assert " 0% " in line


def test_wide_letters_take_two_columns() -> None:
    line = drawn(60, Label("k", "五つの選択肢、静かな上昇と崩壊、そして静かな上昇", "窓付き", 1.0))
    assert cell_len(line) <= 60
    assert "%" in line


@pytest.mark.parametrize("text", ["", "short", "a long name of a problem", "五つの選択肢、静かな上昇"])
@pytest.mark.parametrize("room", range(-1, 30))
def test_shortened_texts_fit(text: str, room: int) -> None:
    for mark in ("…", "..."):
        made = shorten(text, room, mark)
        assert cell_len(made) <= max(room, 0)
        assert made == text or room < cell_len(text)
        assert made == text or room < len(mark) or mark in made


def test_brackets_in_names_are_no_markup() -> None:
    assert "[red]a[/red]" in drawn(160, Label("k", "[red]a[/red]", "b", 1.0))


@pytest.mark.parametrize(
    ("quiet", "watched", "term", "expected"),
    [
        (True, True, "xterm", SilentWatcher),
        (False, True, "xterm", BarWatcher),
        (False, True, "dumb", LogWatcher),
        (False, False, "xterm", LogWatcher),
    ],
)
def test_watcher_suits_standard_error(
    monkeypatch: pytest.MonkeyPatch, quiet: bool, watched: bool, term: str, expected: type[SilentWatcher]
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: watched)
    assert type(choose_watcher(quiet)) is expected
