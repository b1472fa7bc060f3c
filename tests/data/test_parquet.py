"""Parquet files are read like CSV files, with any types of columns."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from helpers.boundaries import hide_packages
from maskedbandits.data import Log, Rounds, read_csv
from maskedbandits.errors import UserError


def saved(folder: Path, columns: dict[str, Any], name: str = "own.parquet") -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), folder / name)
    return folder / name


def typed(values: list[Any], kind: str, *arguments: Any) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.array(values, getattr(pyarrow, kind)(*arguments))


def test_parquet_equals_csv(tmp_path: Path) -> None:
    days = [datetime(2020, 1, day) for day in (9, 1, 5)]
    path = saved(tmp_path, {"day": days, "a": [1.0, 0.5, 0.0], "b": [True, False, True]})
    table = read_csv(path, time="day")
    assert isinstance(table, Rounds)
    assert table.arms == ("a", "b")
    assert table.outcomes.tolist() == [[0.5, 0.0], [0.0, 1.0], [1.0, 1.0]]
    assert table.labels == ("2020-01-01", "2020-01-05", "2020-01-09")
    log = read_csv(path, time="day", arm="a", reward="b")
    assert isinstance(log, Log)
    assert (log.arms, log.rewards.tolist()) == (("0.0", "0.5", "1.0"), [0.0, 1.0, 1.0])
    with pytest.raises(UserError, match="no column 'c'"):
        read_csv(path, time="c")


def test_categories_and_bytes_are_names(tmp_path: Path) -> None:
    for arms in (["y", "x", "y"], typed(["y", "x", "y"], "string").dictionary_encode(), [b"y", b"x", b"y"]):
        log = read_csv(saved(tmp_path, {"arm": arms, "r": [0, 1, 1]}), arm="arm", reward="r")
        assert isinstance(log, Log)
        assert (log.arms, log.chosen.tolist()) == (("x", "y"), [1, 0, 1])


def test_times_have_any_unit(tmp_path: Path) -> None:
    second = 1_577_836_800
    for unit, size in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        times = typed([(second + 5) * size + (unit == "ns"), second * size], "timestamp", unit)
        table = read_csv(saved(tmp_path, {"t": times, "a": [1, 0], "b": [0, 1]}), time="t")
        assert isinstance(table, Rounds)
        assert table.outcomes.tolist() == [[0, 1], [1, 0]]
        assert table.labels == ("2020-01-01 00:00",)


def test_content_decides_the_format(tmp_path: Path) -> None:
    for name in ("own.csv", "OWN.PARQUET"):
        assert read_csv(saved(tmp_path, {"a": [1], "b": [0]}, name)).arms == ("a", "b")


def test_other_columns_may_have_anything(tmp_path: Path) -> None:
    columns = {"arm": ["x", "y"], "r": [0, 1], "s": [{"u": 1}, None], "t": typed([1, 1 << 50], "timestamp", "s")}
    assert read_csv(saved(tmp_path, columns), arm="arm", reward="r").arms == ("x", "y")


@pytest.mark.parametrize(
    ("columns", "named", "complaint"),
    [
        ({"a": [0, None], "b": [1, 0]}, {}, "row 2: a = '': give a number"),
        ({"a": [[0], [1]], "b": [1, 0]}, {}, r"row 1: a = '\[0\]': give a number"),
        ({"a": [{"x": 0}, {"x": 1}], "b": [1, 0]}, {}, "row 1: a = .*: give a number"),
        ({"a": ["x", None], "b": [1, 0]}, {"arm": "a", "reward": "b"}, "row 2: a = '': give a text"),
        ({"a": [], "b": []}, {}, "no rows below the heading"),
    ],
)
def test_invalid_parquet_table_is_one_line(
    tmp_path: Path, columns: dict[str, Any], named: dict[str, Any], complaint: str
) -> None:
    path = saved(tmp_path, columns)
    with pytest.raises(UserError, match=f"{path}: {complaint}") as caught:
        read_csv(path, **named)
    assert "\n" not in str(caught.value)


def test_time_beyond_calendar_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, {"t": typed([1, 1 << 50], "timestamp", "s"), "a": [1, 0], "b": [0, 1]})
    with pytest.raises(UserError, match="column 't'"):
        read_csv(path, time="t")


def test_damaged_parquet_is_one_line(tmp_path: Path) -> None:
    path = saved(tmp_path, {"a": [1, 0], "b": [0, 1]})
    whole = path.read_bytes()
    damaged = whole[:8] + b"\xff" * 30 + whole[38:]
    for content in (b"no parquet", b"", whole[: len(whole) // 2], damaged):
        path.write_bytes(content)
        with pytest.raises(UserError, match=f"{path}: .*Parquet") as caught:
            read_csv(path)
        assert "\n" not in str(caught.value)


def test_missing_parquet_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "folder.parquet").mkdir()
    for name, complaint in (("folder.parquet", "Is a directory"), ("none.parquet", "No such file")):
        with pytest.raises(UserError, match=f"{name}: .*{complaint}"):
            read_csv(tmp_path / name)


def test_slow_parquet_reports_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maskedbandits.data.readers.PROGRESS_INTERVAL_S", -1.0)
    messages: list[str] = []
    read_csv(saved(tmp_path, {"a": [0] * 2500, "b": [1] * 2500}), progress=messages.append)
    assert messages == ["1,000 rows read ...", "2,000 rows read ..."]


def test_missing_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_packages(monkeypatch, "pyarrow")
    with pytest.raises(UserError, match="pyarrow"):
        read_csv(os.fspath(tmp_path / "x.parquet"))
