"""Results on disk: loaded exactly, and a one-line error if a file is damaged or edited."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import made_up
from maskedbandits.errors import UserError
from maskedbandits.experiments import results
from maskedbandits.experiments.canonical_json import to_plain
from maskedbandits.experiments.results import (
    Cell,
    CellOutcome,
    Label,
    Manifest,
    Results,
    load,
    save_manifest,
    save_outcome,
)

KEY = "0123456789abcdef01234567"
SPEC: dict[str, Any] = {
    "means": [[0.9, 0.1, 0.5], [0.1, 0.9, 0.5]],
    "starts": [0, 40],
    "horizon": 100,
    "p00": [0.8, 0.8, 0.8],
    "p11": [0.8, 0.8, 0.8],
    "policy": "sw-klucb-cf",
    "parameters": {"window": 50},
    "runs": 4,
    "seed": 7,
    "checkpoints": 5,
    "code": "none",
}
OVER_TIME = np.arange(1, 6)[:, None] * [40, 24, 16]


def outcome(**changes: Any) -> CellOutcome:
    rng = np.random.default_rng(0)
    wasted = rng.integers(0, 20, size=(4, 3))
    made = {
        "spec": SPEC,
        "times": np.arange(20, 101, 20),
        "regret": np.cumsum(rng.random((4, 5)), axis=1),
        "pulls": np.array([[50, 30, 20]] * 4),
        "suboptimal_pulls": wasted,
        "seconds": 0.5,
        "pulls_over_time": OVER_TIME,
    }
    return CellOutcome(**{**made, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    label = Label(KEY, "swap", "sw-klucb-cf", 1.0, "paper", 12.5)
    results.save_manifest(tmp_path, Manifest("A title", "0.1.0", "run it", "x.toml", 'title = "A title"\n', (label,)))
    results.save_outcome(tmp_path, KEY, outcome())
    return tmp_path


def complaint_about(folder: Path) -> str:
    """Return the error of a folder, which is one line; nothing if the folder loads."""
    complaint = ""
    try:
        results.load(folder)
    except UserError as error:
        complaint = str(error)
    assert "\n" not in complaint
    assert complaint.isprintable()
    return complaint


def refused(folder: Path) -> str:
    complaint = complaint_about(folder)
    assert complaint
    return complaint


def test_results_load_exactly(folder: Path) -> None:
    [cell] = results.load(folder).cells
    assert cell.label == Label(KEY, "swap", "sw-klucb-cf", 1.0, "paper", 12.5)
    for name in (*results.ARRAYS, *results.OPTIONAL_ARRAYS):
        np.testing.assert_array_equal(getattr(cell.outcome, name), getattr(outcome(), name), strict=True)
    assert cell.outcome.spec == SPEC


def test_folder_of_earlier_version_loads(folder: Path) -> None:
    results.save_outcome(folder, KEY, outcome(pulls_over_time=None))
    [cell] = results.load(folder).cells
    assert cell.outcome.pulls_over_time is None
    assert cell.outcome.pulls.tolist() == good.pulls.tolist()


GONE = "(gone)"  # a text, so that tests have the same names in every process
OTHER_VALUES: tuple[Any, ...] = (GONE, None, True, 3, 0.5, "text", [], ["text"], {}, {"text": 3})
Place = tuple[str | int, ...]


def edited(document: Any, where: Place, value: Any) -> Any:
    """Return a copy of a document with another value somewhere within it, or without what is there."""
    changed = within = copy.deepcopy(document)
    for step in where[:-1]:
        within = within[step]
    if value is GONE:
        del within[where[-1]]
    else:
        within[where[-1]] = value
    return changed


def list_places(document: Any, where: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield every place within a document, and what is there."""
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        yield (*where, key), value
        if isinstance(value, dict | list):
            yield from list_places(value, (*where, key))


def is_of_another_kind(value: Any, other: Any) -> bool:
    """Tell whether a value cannot stand for another one in JSON, whose numbers are of one kind."""
    kinds: list[Any] = [float if type(each) is int else type(each) for each in (value, other)]
    return other is GONE or kinds[0] is not kinds[1]


def list_edits(document: Any) -> list[tuple[Place, Any]]:
    """Return every place with each value of another kind."""
    return [
        (where, other)
        for where, value in list_places(document)
        for other in OTHER_VALUES
        if is_of_another_kind(value, other)
    ]


def edit_manifest(folder: Path, where: Place, value: Any) -> None:
    path = folder / results.MANIFEST_FILE
    path.write_text(json.dumps(edited(json.loads(path.read_text(encoding="utf-8")), where, value)), encoding="utf-8")


def test_value_of_another_kind_in_manifest_is_an_error(folder: Path) -> None:
    path, accepted = folder / results.MANIFEST_FILE, []
    before = path.read_text(encoding="utf-8")
    for where, value in list_edits(json.loads(before)):
        path.write_text(before, encoding="utf-8")
        edit_manifest(folder, where, value)
        complaint = complaint_about(folder)
        assert not complaint or f"{results.MANIFEST_FILE}: " in complaint
        accepted += [(where, value)] * (not complaint)
    assert accepted == [
        (("format",), True),
        (("labels", 0, "epsilon"), None),
        (("labels", 0, "window"), None),
        (("labels", 0, "published"), None),
        (("provenance",), GONE),  # of earlier versions
        (("arms",), GONE),
    ]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("title",), "\x1b[2J"),
        (("title",), ""),
        (("extra",), 1),
        (("labels",), []),
        (("labels", 0, "key"), "../../etc/passwd"),
        (("labels", 0, "key"), "cells/other"),
        (("labels", 0, "key"), "a\0b"),
        (("labels", 0, "problem"), "\x1b[31m"),
        (("labels", 0, "policy"), ""),
        (("labels", 0, "epsilon"), -1),
        (("labels", 0, "epsilon"), 0),
        (("labels", 0, "published"), 0),
        (("labels", 0, "published"), -12.5),
        (("labels", 0, "extra"), 1),
        (("arms",), {"swap": "two"}),
        (("arms",), {"swap": []}),
        (("arms",), {"swap": ["a", 3]}),
        (("arms",), {"swap": ["a", "\x1b[2J"]}),
        (("arms",), {"swap": ["a"]}),
    ],
    ids=str,
)
def test_edited_manifest_is_an_error(folder: Path, where: Place, value: Any) -> None:
    edit_manifest(folder, where, value)
    assert f"{results.MANIFEST_FILE}: damaged results file" in refused(folder)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        "{}",
        '{"format": 1}',
        "[" * 10_000,
        '{"format": 1, "title": ' + "9" * 5000 + "}",
        "\udcff",
    ],
    ids=range(10),
)
def test_malformed_manifest_is_an_error(folder: Path, text: str) -> None:
    (folder / results.MANIFEST_FILE).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert f"{results.MANIFEST_FILE}: damaged results file" in refused(folder)


def test_infinite_numbers_in_manifest_are_errors(folder: Path) -> None:
    path = folder / results.MANIFEST_FILE
    path.write_text(path.read_text(encoding="utf-8").replace("12.5", "1e999"), encoding="utf-8")
    assert "published = inf: give a number above 0" in refused(folder)
    path.write_text(path.read_text(encoding="utf-8").replace("1e999", "NaN"), encoding="utf-8")
    assert "published = nan: give a number above 0" in refused(folder)


def test_folder_in_place_of_manifest_is_an_error(folder: Path) -> None:
    (folder / results.MANIFEST_FILE).unlink()
    (folder / results.MANIFEST_FILE).mkdir()
    assert "cannot be read: Is a directory" in refused(folder)


def test_folder_in_place_of_cell_is_an_error(folder: Path) -> None:
    path = folder / "cells" / f"{KEY}.npz"
    path.unlink()
    path.mkdir()
    assert "cannot be read: Is a directory" in refused(folder)


UNREAD = ("runs", "checkpoints", "code")  # facts of a specification that results are not read by


def test_value_of_another_kind_in_specification_is_an_error(folder: Path) -> None:
    accepted = []
    for where, value in list_edits({key: value for key, value in SPEC.items() if key not in UNREAD}):
        results.save_outcome(folder, KEY, outcome(spec=edited(SPEC, where, value)))
        complaint = complaint_about(folder)
        assert not complaint or f"{KEY}.npz: damaged results file" in complaint
        accepted += [(where, value)] * (not complaint)
    assert accepted == [
        *((("means", segment, arm), True) for segment in range(2) for arm in range(3)),
        (("starts", 1), True),
        (("parameters", "window"), GONE),
        (("parameters", "window"), None),
    ]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("means",), []),
        (("means",), [0.5, 0.4, 0.3]),
        (("means",), [[]]),
        (("means",), [[0.9, 0.1, 0.5]]),
        (("means", 0), [0.9, 0.1]),
        (("means", 0, 0), 1.5),
        (("means", 0, 0), -0.1),
        (("starts",), []),
        (("starts",), [0]),
        (("starts",), [0, 40.5]),
        (("starts",), [40, 0]),
        (("starts",), [0, 100]),
        (("starts",), [0, 10**30]),
        (("starts",), [[0, 40]]),
        (("horizon",), 0),
        (("horizon",), -100),
        (("horizon",), 99),
        (("horizon",), 10**30),
        (("p00",), [0.8, 0.8]),
        (("p11",), [0.8, 0.8, 1.2]),
        (("policy",), "\x1b[31m"),
        (("parameters", "window"), -1),
        (("seed",), -7),
    ],
    ids=str,
)
def test_edited_specification_is_an_error(folder: Path, where: Place, value: Any) -> None:
    results.save_outcome(folder, KEY, outcome(spec=edited(SPEC, where, value)))
    assert f"{KEY}.npz: damaged results file" in refused(folder)


def test_specification_must_be_a_table(folder: Path) -> None:
    nothings: list[Any] = [None, [], "why", 3]
    for spec in nothings:
        results.save_outcome(folder, KEY, outcome(spec=spec))
        assert "damaged results file" in refused(folder)


good = outcome()
UNEVEN = np.array([[50, 30, 20]] * 3 + [[50, 30, 21]])


CHANGES: dict[str, Callable[[Any], Any]] = {
    "whole numbers": lambda array: array.astype(np.int64),
    "fractions": lambda array: array.astype(float),
    "complex numbers": lambda array: array.astype(complex),
    "texts": lambda array: array.astype(str),
    "a row less": lambda array: array[:-1],
    "a column less": lambda array: array[..., :-1],
    "no rows": lambda array: array[:0],
    "one row": lambda array: array[0],
    "one number": lambda array: np.array(array.flat[0]),
    "another axis": lambda array: array[None],
    "transposed": lambda array: array.T.copy(),
    "below 0": lambda array: -array - 1,
    "reversed": lambda array: array[..., ::-1].copy(),
    "above the others": lambda array: array + 100,
}


# Nothing else in the file contradicts these.
ACCEPTED = {"regret": ["above the others"], "suboptimal_pulls": ["reversed"]}


@pytest.mark.parametrize("name", ["times", "regret", "pulls", "suboptimal_pulls", "pulls_over_time"])
def test_array_of_another_kind_is_an_error(folder: Path, name: str) -> None:
    before, accepted = getattr(good, name), []
    for change, apply in CHANGES.items():
        after = apply(before)
        if after.dtype == before.dtype and np.array_equal(after, before):
            continue
        results.save_outcome(folder, KEY, outcome(**{name: after}))
        complaint = complaint_about(folder)
        assert not complaint or f"{KEY}.npz: damaged results file" in complaint
        accepted += [change] * (not complaint)
    assert accepted == ACCEPTED.get(name, [])


@pytest.mark.parametrize(
    "changes",
    [
        {"seconds": "soon"},
        {"seconds": -1.0},
        {"seconds": None},
        {"times": good.times - 20},
        {"times": good.times + 1},
        {"times": np.array([], dtype=np.int64), "regret": np.empty((4, 0))},
        {"regret": good.regret[:0], "pulls": good.pulls[:0], "suboptimal_pulls": good.pulls[:0]},
        {"regret": np.where(good.regret > 1, np.nan, good.regret)},
        {"regret": np.where(good.regret > 1, np.inf, good.regret)},
        {"pulls": UNEVEN},
        {"suboptimal_pulls": good.pulls + 1},
        {"pulls_over_time": OVER_TIME + np.array([1, 0, 0])},
        {"pulls_over_time": OVER_TIME + np.array([1, -1, 0])},
        {"pulls_over_time": OVER_TIME + np.array([[-50, 50, 0], *[[0, 0, 0]] * 4])},
    ],
    ids=range(14),
)
def test_inconsistent_arrays_are_errors(folder: Path, changes: dict[str, Any]) -> None:
    results.save_outcome(folder, KEY, outcome(**changes))
    assert f"{KEY}.npz: damaged results file" in refused(folder)


def without_an_array(path: Path) -> None:
    with zipfile.ZipFile(path) as stored:
        kept = {name: stored.read(name) for name in stored.namelist() if name != "regret.npy"}
    with zipfile.ZipFile(path, "w") as stored:
        for name, content in kept.items():
            stored.writestr(name, content)


def with_a_header_that_lies(path: Path) -> None:
    with zipfile.ZipFile(path) as stored:
        kept = {name: stored.read(name) for name in stored.namelist()}
    kept["regret.npy"] = kept["regret.npy"].replace(b"(4, 5), }" + b" " * 12, b"(9999999999999, 5), }")
    with zipfile.ZipFile(path, "w") as stored:
        for name, content in kept.items():
            stored.writestr(name, content)


def an_array_alone(path: Path) -> None:
    with path.open("wb") as stream:
        np.save(stream, good.regret)


def with_a_pickle(path: Path) -> None:
    np.savez(path, **{name: np.array([{}], dtype=object) for name in ("facts", *results.ARRAYS)})  # type: ignore[arg-type]


def with_facts(facts: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        np.savez(path, facts=np.array(facts), **{name: getattr(good, name) for name in results.ARRAYS})

    return write


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"rubbish"),
        lambda path: path.write_bytes(b"PK\x03\x04 rubbish"),
        lambda path: path.write_bytes(path.read_bytes()[:300]),
        lambda path: path.write_bytes(path.read_bytes()[300:]),
        lambda path: path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes())),
        an_array_alone,
        without_an_array,
        with_a_header_that_lies,
        with_a_pickle,
        with_facts(""),
        with_facts("{}"),
        with_facts("[]"),
        with_facts('{"format": 1}'),
        with_facts('{"format": 1, "question": {}, "seconds": 1}'),
        with_facts("[" * 10_000),
    ],
    ids=range(16),
)
def test_damaged_cell_is_an_error(folder: Path, damage: Callable[[Path], object]) -> None:
    damage(folder / "cells" / f"{KEY}.npz")
    assert f"{KEY}.npz: damaged results file" in refused(folder)


def test_other_format_is_named_in_error(folder: Path) -> None:
    with_facts('{"format": 99}')(folder / "cells" / f"{KEY}.npz")
    assert "format 99, this version reads format 1" in refused(folder)


def test_cell_has_means_and_drift() -> None:
    label = Label(KEY, "p", "a", 1.0)
    assert Cell(label, outcome()).means.tolist() == SPEC["means"]
    assert not Cell(label, outcome()).drifts
    slow = np.linspace(0.1, 0.9, 50)[:, None] * [1.0, 0.5, 0.2]
    drifting = {**SPEC, "means": slow.tolist(), "starts": list(range(0, 100, 2))}
    assert Cell(label, outcome(spec=drifting)).drifts


def test_reading_results_imports_no_policies() -> None:
    script = "import sys, maskedbandits.experiments.results; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def saved(folder: Path) -> Results:
    made = made_up.results(epsilons=(1.0,))
    save_manifest(folder, made.manifest)
    for cell in made.cells:
        save_outcome(folder, cell.label.key, cell.outcome)
    return made


def test_manifest_and_cells_load_exactly(tmp_path: Path) -> None:
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
def test_damaged_results_are_one_line_errors(tmp_path: Path, damage: Callable[[Path], object], complaint: str) -> None:
    saved(tmp_path)
    damage(tmp_path)
    with pytest.raises(UserError) as caught:
        load(tmp_path)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_oversized_arrays_are_not_unpacked(tmp_path: Path) -> None:
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
