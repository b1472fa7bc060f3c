"""User tables: rounds, logs, periods, and invalid files."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maskedbandits.data import Log, Rounds, read_csv
from maskedbandits.errors import UserError
from naive import data as naive

shares = st.floats(0, 1)
names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=5)  # commas and quotes, too
few = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


def text_of(rows: Sequence[Sequence[object]]) -> str:
    made = io.StringIO(newline="")
    csv.writer(made).writerows(rows)
    return made.getvalue()


def saved(folder: Path, text: str, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


@few
@given(st.lists(names, min_size=3, max_size=5, unique=True), st.data())
def test_rounds_match_twin(tmp_path: Path, columns: list[str], data: st.DataObject) -> None:
    time = data.draw(st.sampled_from(columns))
    whens = data.draw(st.lists(st.integers(-3, 9), min_size=1, max_size=25))
    rows = [[when if column == time else data.draw(shares) for column in columns] for when in whens]
    text = text_of([columns, *rows])
    table = read_csv(saved(tmp_path, text), time=time)
    assert isinstance(table, Rounds)
    arms, outcomes = naive.own_rounds(text, time)
    assert list(table.arms) == arms
    assert table.outcomes.tolist() == outcomes
    assert len(table.starts) == min(10, len(rows))


@few
@given(st.data())
def test_log_matches_twin(tmp_path: Path, data: st.DataObject) -> None:
    days = st.dates(datetime(2020, 1, 30).date(), datetime(2020, 2, 5).date())
    drawn = data.draw(st.lists(st.tuples(shares, days, names), max_size=20))
    rows = [(0.5, "2020-01-01", "x"), (1, "2020-01-02", "y"), (0, "2020-02-09", "x"), *drawn]
    text = text_of([("reward", "when", "arm"), *rows])
    table = read_csv(saved(tmp_path, text), time="when", arm="arm", reward="reward")
    assert isinstance(table, Log)
    twin = naive.own_log(text, "when")
    assert [(table.arms[arm], reward) for arm, reward in zip(table.chosen, table.rewards, strict=True)] == [
        (arm, reward) for _, arm, reward in twin
    ]
    assert table.labels == tuple(dict.fromkeys(day for day, _, _ in twin))
    assert [twin[start][0] for start in table.starts] == list(table.labels)


def test_untimed_rows_keep_order_in_tenths(tmp_path: Path) -> None:
    table = read_csv(saved(tmp_path, "a,b\n" + "1,0\n0,1\n" * 12))
    assert isinstance(table, Rounds)
    assert table.outcomes[:2].tolist() == [[1, 0], [0, 1]]
    assert table.starts.tolist() == [0, 2, 4, 7, 9, 12, 14, 16, 19, 21]
    assert (table.period, table.labels[0], table.labels[-1]) == ("a tenth", "1 of 10", "10 of 10")


def test_numeric_arms_sort_as_numbers(tmp_path: Path) -> None:
    long = "9" * 5000
    text = "arm,reward\n" + "".join(f"{arm},1\n" for arm in ("10", "x", "2", "0", long, "007"))
    assert read_csv(saved(tmp_path, text), arm="arm", reward="reward").arms == ("0", "2", "007", "10", long, "x")


@pytest.mark.parametrize(
    ("apart", "period", "last"),
    [
        (timedelta(minutes=50), "an hour", "2019-12-31 23:00"),
        (timedelta(days=1), "a day", "2020-01-02"),
        (timedelta(days=31), "a month", "2020-03"),
    ],
)
def test_periods_fit_the_range_of_times(tmp_path: Path, apart: timedelta, period: str, last: str) -> None:
    times = [datetime(2019, 12, 31, 22) + step * apart for step in range(3)]
    rows = [(when.isoformat(), 1, 0) for when in reversed(times)]
    table = read_csv(saved(tmp_path, text_of([("t", "a", "b"), *rows])), time="t")
    assert (table.period, table.labels[-1]) == (period, last)


def test_time_zones_are_put_in_one_order(tmp_path: Path) -> None:
    text = "t,a,b\n2020-01-01T00:30:00+02:00,1,0\n2019-12-31T22:00:00Z,0,1\n"
    table = read_csv(saved(tmp_path, text), time="t")
    assert isinstance(table, Rounds)
    assert table.outcomes.tolist() == [[0, 1], [1, 0]]
    assert table.labels == ("2019-12-31 22:00",)


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    assert read_csv(saved(tmp_path, "\ufeffa,b\n1,0\n")).arms == ("a", "b")


def test_blanks_and_empty_lines_are_ignored(tmp_path: Path) -> None:
    table = read_csv(saved(tmp_path, "a , b\n\n1,0\n\n0, 1 \n\n"))
    assert isinstance(table, Rounds)
    assert (table.arms, table.outcomes.tolist()) == (("a", "b"), [[1, 0], [0, 1]])
    log = read_csv(saved(tmp_path, "arm, reward\nx,1\n x ,0\ny,1\n"), arm="arm", reward="reward")
    assert isinstance(log, Log)
    assert (log.arms, log.chosen.tolist()) == (("x", "y"), [0, 0, 1])


def test_truth_values_are_outcomes(tmp_path: Path) -> None:
    table = read_csv(saved(tmp_path, "a,b\nTrue,FALSE\nfalse,1\n"))
    assert isinstance(table, Rounds)
    assert table.outcomes.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_line_end_is_read(tmp_path: Path, end: str) -> None:
    table = read_csv(saved(tmp_path, end.join(["a,b", "1,0", "0,1", ""])))
    assert isinstance(table, Rounds)
    assert table.outcomes.tolist() == [[1, 0], [0, 1]]


def test_long_numbers_sort_exactly(tmp_path: Path) -> None:
    nanoseconds = 1_577_836_800_000_000_000
    rows = [(nanoseconds + later, later % 2, 0) for later in (3, 1, 2, 0)]
    table = read_csv(saved(tmp_path, text_of([("t", "a", "b"), *rows])), time="t")
    assert isinstance(table, Rounds)
    assert table.outcomes[:, 0].tolist() == [0, 1, 0, 1]


def test_pipe_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_text("a,b\n1,0\n"))
    writer.start()
    assert read_csv(path).arms == ("a", "b")
    writer.join(timeout=60)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (gzip.compress(b"a,b\n1,0\n", mtime=0), r"compressed \(gzip\): unpack it"),
        (lzma.compress(b"a,b\n1,0\n"), r"compressed \(xz\)"),
        (b"PK\x03\x04\xff\xff", r"compressed \(zip, or a spreadsheet\)"),
        ("a,b\n1,0\n".encode("utf-16"), "not UTF-8: save it as CSV in UTF-8"),
        ("é,b\n1,0\n".encode("latin-1"), "not UTF-8"),
        (b"a,b\n" + b"1,0\n" * 5000 + b"\xff,1\n", "not UTF-8"),
    ],
)
def test_packed_or_binary_file_names_the_remedy(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"{path}: .*{complaint}"):
        read_csv(path)


@pytest.mark.parametrize(
    ("text", "columns", "complaint"),
    [
        ("", {}, "no heading: write the names"),
        ("\n\n", {}, "no heading"),
        ("a,b\n", {}, "no rows below the heading"),
        ("a\n1\n", {}, "1 is too few: give at least two"),
        ("a,b\n1\n", {}, "row 1 has 1 fields, but the heading has 2"),
        ("a,b\n1,0\n\n1\n", {}, "row 3 has 1 fields"),
        ("a;b|c\n1;0\n", {}, "seem to be separated by ';': separate them by commas"),
        ("a\tb\n1\t0\n", {}, r"seem to be separated by '\\t'"),
        ("a,b\n0_1,0\n", {}, "row 1: a = '0_1': give a number"),
        ("a, a\n1,0\n", {}, "two columns are called 'a'"),
        ("a,b\n1,0\n1,x\n", {}, "row 2: b = 'x': give a number"),
        ("a,b\n1,0\n1,nan\n", {}, "row 2: b = 'nan': give a number in"),
        ("a,b\n1,0\n1.1,1\n", {}, "row 2: a = '1.1': give a number in"),
        ("a,b\n1,\n", {}, "row 1: b = '': give a number"),
        ("a,b,b\n1,0,1\n", {}, "two columns are called 'b'"),
        ("a,b,\n1,0,1\n", {}, "column 3 has no name: give it one, or leave it out"),
        ("a,b\n1,0\n", {"time": "day"}, "no column 'day'; known are a, b"),
        ("a,b\n1,0\n", {"arm": "a"}, "name both columns"),
        ("a,b\n1,0\n", {"arm": "a", "reward": "a"}, "must be different columns"),
        ("a,b\n1,0\n", {"arm": "a", "reward": "b"}, "1 is too few"),
        ("a,b\nx,0\n ,1\n", {"arm": "a", "reward": "b"}, "row 2: a = '': give a text"),
        ('a,b\nx,0\n"y\nz",1\n', {"arm": "a", "reward": "b"}, "row 2: a = .*: give a text on one line"),
        ("a,b\nx,0\ny,2\n", {"arm": "a", "reward": "b"}, "row 2: b = '2': give a number in"),
        ("t,a,b\n1,1,0\nnoon,1,0\n", {"time": "t"}, "row 1: t = '1': give a time such as"),
        ("t,a,b\nnan,1,0\n", {"time": "t"}, "row 1: t = 'nan': give a time"),
        ("t,a,b\n2020-01-01,1,0\n2020-01-01T00:00Z,1,0\n", {"time": "t"}, "with and without a time zone"),
        ("t,a,b\n0001-01-01T00:00+05:00,1,0\n", {"time": "t"}, "end of the calendar"),
        ("a,b\n" + "1" * 200_000 + ",0\n", {}, "field larger than"),
    ],
)
def test_invalid_table_is_one_line(tmp_path: Path, text: str, columns: dict[str, Any], complaint: str) -> None:
    path = saved(tmp_path, text)
    with pytest.raises(UserError, match=complaint) as caught:
        read_csv(path, **columns)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    for where, complaint in ((tmp_path, "Is a directory"), (tmp_path / "none.csv", "No such file")):
        with pytest.raises(UserError, match=f"{where}: .*{complaint}"):
            read_csv(where)


@few
@given(st.binary(max_size=60))
def test_any_bytes_are_a_table_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.csv"
    path.write_bytes(b"a,b\n" + content)
    with suppress(UserError):  # and nothing else
        assert read_csv(path).horizon >= 1


def test_slow_reading_reports_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maskedbandits.data.readers.PROGRESS_INTERVAL_S", -1.0)
    messages: list[str] = []
    read_csv(saved(tmp_path, "a,b\n" + "1,0\n" * 2500), progress=messages.append)
    assert messages == ["1,000 rows read ...", "2,000 rows read ..."]
