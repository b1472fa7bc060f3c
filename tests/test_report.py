"""Reports: the same results give the same bytes, and the table says what the numbers say."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from rich.console import Console

from maskedbandits import report
from maskedbandits.errors import UserError
from maskedbandits.experiments.results import (
    Cell,
    Label,
    Outcome,
    Plan,
    Results,
    load,
    plain,
    save_outcome,
    save_plan,
    write_whole,
)
from maskedbandits.report import figures, page, tables

HORIZON = 1000
NO_PRIVACY = math.inf


def outcome(scale: float, runs: int = 8, window: int | None = None) -> Outcome:
    """A made-up cell whose regret grows like a square root."""
    rng = np.random.default_rng(int(scale * 100))
    times = np.arange(100, HORIZON + 1, 100)
    regret = scale * np.sqrt(times) * rng.uniform(0.9, 1.1, size=(runs, 1))
    question = {
        "means": [[0.9, 0.1], [0.1, 0.9]],
        "starts": [0, 400],
        "horizon": HORIZON,
        "policy": "sw-klucb-cf" if window else "klucb-cf",
        "parameters": {"window": window} if window else {},
        "seed": 7,
    }
    pulls = np.full((runs, 2), HORIZON // 2)
    return Outcome(question, times, regret, pulls, np.full((runs, 2), 50), 0.5)


def results(
    epsilons: tuple[float | None, ...] = (0.5, 1.0, NO_PRIVACY), problems: tuple[str, ...] = ("one",)
) -> Results:
    cells = []
    for problem in problems:
        for place, epsilon in enumerate(epsilons):
            for policy, window, slow in (("with window", 50, 1.0), ("without <window>", None, 2.0)):
                label = Label(f"{problem}{place}{policy[:5]}", problem, policy, epsilon, "paper" if window else None)
                label = dataclasses.replace(label, published=40.0 if slow == 1.0 else None)
                cells.append(Cell(label, outcome(slow * (5 - place), window=window)))
    labels = tuple(cell.label for cell in cells)
    plan = Plan("A <title>", "0.1.0", "maskedbandits run a.toml", "a.toml", 'title = "A <title>"\n', labels)
    return Results(plan, tuple(cells))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> report.Report:
    return report.write(results(), tmp_path_factory.mktemp("report"))


def table_text(made: Results) -> str:
    console = Console(width=160, record=True, file=io.StringIO())
    for problem, groups in tables.problems(made.cells):
        console.print(tables.as_table(problem, groups))
    return console.export_text()


def test_interval_is_students() -> None:
    cell = Cell(Label("k", "p", "a", 1.0), outcome(1.0, runs=3))
    last = cell.outcome.regret[:, -1]
    assert cell.mean[-1] == pytest.approx(last.mean())
    # 4.302653 is the 97.5 % point of Student's t with two degrees of freedom
    assert cell.half_width[-1] == pytest.approx(4.302653 * last.std(ddof=1) / math.sqrt(3), rel=1e-6)


def test_one_run_has_a_mean_and_no_interval(tmp_path: Path) -> None:
    made = results(epsilons=(1.0,))
    single = tuple(Cell(cell.label, outcome(1.0, runs=1)) for cell in made.cells)
    made = dataclasses.replace(made, cells=single)
    assert "±" not in table_text(made)
    assert tables.as_json(made)["cells"][0]["regret"]["low"] is None
    assert report.write(made, tmp_path).page.exists()


def test_table_names_every_policy_and_its_distance_from_the_best() -> None:
    text = table_text(results())
    assert text.count("with window") == 3
    assert "50 (paper)" in text
    assert text.count("1.00×") == 3
    assert text.count("1.98×") == 1
    assert "∞" in text
    assert "changes at 400" in text


def test_table_leaves_out_columns_that_say_nothing() -> None:
    made = results()
    cells = tuple(
        Cell(dataclasses.replace(cell.label, published=None), cell.outcome)
        for cell in made.cells
        if cell.window is None
    )
    text = table_text(dataclasses.replace(made, cells=cells))
    assert "published" not in text
    assert "window (" not in text
    assert "of best" not in text


def test_json_is_strict_and_round_trips() -> None:
    document = tables.as_json(results())
    text = json.dumps(document, allow_nan=False)
    assert json.loads(text) == document
    assert document["cells"][-1]["epsilon"] == "inf"
    assert float(document["cells"][-1]["epsilon"]) == math.inf
    low, mean, high = (document["cells"][0]["regret"][key] for key in ("low", "mean", "high"))
    assert low < mean < high


def test_files_are_what_their_names_say(written: report.Report) -> None:
    starts = {path.name: path.read_bytes()[:4] for path in written.figures}
    assert starts == {
        "regret.png": b"\x89PNG",
        "regret.pdf": b"%PDF",
        "epsilon.png": b"\x89PNG",
        "epsilon.pdf": b"%PDF",
    }


def test_a_single_epsilon_has_no_figure_against_epsilon() -> None:
    made = results(epsilons=(None,))
    [(problem, groups)] = tables.problems(made.cells)
    drawn = figures.looks([label.policy for label in made.plan.labels])
    pictures = page.pictures_of("", problem, groups, drawn)
    assert [picture.name for picture in pictures] == ["regret"]


def test_problems_do_not_overwrite_each_others_figures() -> None:
    assert page.prefixes(["only"]) == [""]
    assert page.prefixes(["A b", "a-b", "ε", "S 1"]) == ["a-b-1-", "a-b-2-", "problem-3-", "s-1-"]


def test_page_is_self_contained_and_escapes_what_people_write(written: report.Report) -> None:
    class Checker(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.outside: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            for name, value in attrs:
                if name in ("src", "href") and not (value or "").startswith("data:"):
                    self.outside.append(f"{tag} {name}={value}")

    text = written.page.read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(text)
    assert checker.outside == []
    assert "A &lt;title&gt;" in text
    assert "without &lt;window&gt;" in text
    assert "<window>" not in text
    assert "maskedbandits run a.toml" in text


def test_page_says_what_is_not_finished(tmp_path: Path) -> None:
    made = results(epsilons=(1.0,))
    text = report.write(dataclasses.replace(made, cells=made.cells[:-1]), tmp_path).page.read_text(encoding="utf-8")
    assert "1 of 2 cells are not finished" in text


def test_drawing_leaves_matplotlib_as_it_was(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    report.write(results(epsilons=(1.0,)), tmp_path)
    assert dict(mpl.rcParams) == before


def test_pyplot_is_not_imported() -> None:
    script = "import sys, maskedbandits.report; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_many_policies_look_different() -> None:
    drawn = figures.looks([f"policy {number}" for number in range(20)])
    assert len(set(drawn.values())) == 20


@pytest.mark.parametrize(
    ("epsilons", "places"),
    [
        ([0.5, 1, 2, math.inf], [0.5, 1, 2, 4]),
        ([1, math.inf], [1, 2]),
        ([math.inf], [2]),
        ([0.5, 1], [0.5, 1]),
    ],
)
def test_infinity_stands_one_step_beyond_the_last_epsilon(epsilons: list[float], places: list[float]) -> None:
    assert list(figures.epsilon_places(epsilons).values()) == pytest.approx(places)


def test_saved_results_load_and_draw_exactly(written: report.Report, tmp_path: Path) -> None:
    made = results()
    save_plan(tmp_path, made.plan)
    for cell in made.cells:
        save_outcome(tmp_path, cell.label.key, cell.outcome)
    loaded = load(tmp_path)
    assert loaded.plan == made.plan
    assert loaded.complete
    for one, other in zip(made.cells, loaded.cells, strict=True):
        assert one.label == other.label
        assert one.outcome.question == other.outcome.question
        for name in ("times", "regret", "pulls", "suboptimal_pulls"):
            np.testing.assert_array_equal(getattr(one.outcome, name), getattr(other.outcome, name), strict=True)
    again = report.write(loaded, tmp_path)  # the same results give the same report, byte for byte
    assert again.page.read_bytes() == written.page.read_bytes()
    assert len(again.figures) == 4
    for drawn, redrawn in zip(written.figures, again.figures, strict=True):
        assert drawn.name == redrawn.name
        assert drawn.read_bytes() == redrawn.read_bytes()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    page.save(path, b"old")

    def fail(stream: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_whole(path, fail)
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    assert path.read_bytes() == b"old"


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
    made = results(epsilons=(1.0,))
    save_plan(tmp_path, made.plan)
    for cell in made.cells:
        save_outcome(tmp_path, cell.label.key, cell.outcome)
    damage(tmp_path)
    with pytest.raises(UserError) as caught:
        load(tmp_path)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def cell_file(folder: Path) -> Path:
    return min((folder / "cells").iterdir())


def test_plain_values_keep_infinity_and_lose_numpy() -> None:
    assert plain({"a": np.float64(math.inf), "b": np.arange(2), "c": (math.nan, -math.inf)}) == {
        "a": "inf",
        "b": [0, 1],
        "c": [None, "-inf"],
    }
