"""An export taken before retention can still be checked, and says so in one line."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aged import NOW, append_reports, create_aged, find
from click.testing import CliRunner, Result

from helpers.private import write_tables
from maskedbandits.cli import main
from maskedbandits.service import evaluation
from maskedbandits.service.compaction import compact
from maskedbandits.service.evaluation.export import read_export
from maskedbandits.service.evaluation.log import read_log, read_stored_events
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.retention import LOG_HASH

CUTOFF = NOW - 24 * 5
Call = Callable[..., Result]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}?durable=no"


@pytest.fixture
def store(url: str) -> Any:
    with open_store(url, create=True) as opened:
        create_aged(opened)
        create_aged(opened, "grouped", 60, ["new", "known"])
        yield opened


@pytest.fixture
def call(url: str, store: Store) -> Call:
    return lambda verb, *words: CliRunner().invoke(main, [verb, *map(str, words), "--storage", url])


def edit(file: Path, place: int, old: str, new: str) -> None:
    """Edit a row of a CSV file."""
    lines = file.read_text().splitlines(keepends=True)
    assert old in lines[place]
    lines[place] = lines[place].replace(old, new, 1)
    file.write_text("".join(lines))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("name", ["headlines", "grouped"])
def test_honest_export_is_confirmed(name: str, ending: str, store: Store, call: Call, tmp_path: Path) -> None:
    file = tmp_path / f"log.{ending}"
    assert call("export", name, file).exit_code == 0
    row = find(store, name)
    for cutoff in (0, CUTOFF, NOW - 24 * 2, NOW + 24):  # ever more is removed
        compact(store, row, cutoff)
        done = call("replay", name, "--export", file)
        assert (done.exit_code, done.stdout) == (0, f"{file}: events 1 to {row.seq} are those of the log of {name}.\n")
    found = json.loads(call("replay", name, "--export", file, "--json").stdout)
    assert found == {"file": str(file), "experiment": name, "first": 1, "last": row.seq, "confirmed": row.seq}


@pytest.mark.parametrize("cutoff", [0, CUTOFF, NOW + 24])
def test_edited_export_is_refused_in_one_line(cutoff: int, store: Store, call: Call, tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    call("export", "headlines", file)
    compact(store, find(store, "headlines"), cutoff)
    honest = file.read_text()
    for place, old, new in ((5, ",report,", ",status,"), (17, ",1,", ",3,"), (-1, "0.05", "0.06"), (1, "red", "tan")):
        rows = honest.splitlines()
        if old not in rows[place]:
            old, new = rows[place].split(",")[1], "7"
        file.write_text(honest)
        edit(file, place, old, new)
        done = call("replay", "headlines", "--export", file)
        assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
        assert "differs from the log" in done.stderr or "is not an event" in done.stderr
    for altered in ([*rows[:-1], rows[-1].replace(str(len(rows) - 1), "9999", 1)], rows[:9] + rows[10:]):
        file.write_text("\n".join(altered) + "\n")
        assert "differs from the log" in call("replay", "headlines", "--export", file).stderr


def test_edited_name_of_an_arm_is_refused(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    call("export", "headlines", file)
    edit(file, 5, ",red," if ",red," in file.read_text().splitlines()[5] else ",green,", ",blue,")
    done = call("replay", "headlines", "--export", file)
    assert (done.exit_code, "row 5 is not an event" in done.stderr) == (1, True)


def test_export_of_cut_log_can_be_checked(store: Store, call: Call, tmp_path: Path) -> None:
    compact(store, find(store, "headlines"), CUTOFF)
    row, file = find(store, "headlines"), tmp_path / "log.csv"
    done = call("export", "headlines", file)
    assert f"The log starts at event {row.first_seq}: earlier events were removed by retention." in done.stdout
    compact(store, row, NOW + 24)
    text = call("replay", "headlines", "--export", file).stdout
    assert text == f"{file}: events {row.first_seq} to {row.seq} are those of the log of headlines.\n"
    edit(file, 1, '""hash"": ""', '""hash"": ""0')
    assert "its first row" in call("replay", "headlines", "--export", file).stderr


def test_grouped_export_of_cut_log_has_questions(store: Store, call: Call, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    call("export", "grouped", whole)
    compact(store, find(store, "grouped"), CUTOFF)
    assert call("export", "grouped", cut).exit_code == 0
    rows = cut.read_text().splitlines()
    assert json.loads(rows[0])["kind"] == "base"
    assert rows[1:] == whole.read_text().splitlines()[-len(rows) + 1 :]


def test_export_without_known_hash_is_not_called_honest(store: Store, call: Call, tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    call("export", "headlines", file)
    with write_tables(store) as tx:  # as if the store had been restored from a backup from before the export
        tx.execute("DELETE FROM snapshot WHERE kernel = ?", (LOG_HASH,))
    append_reports(store, find(store, "headlines"), 5, NOW, NOW + 1)
    assert call("replay", "headlines", "--export", file).exit_code == 0
    compact(store, find(store, "headlines"), NOW + 24)
    done = call("replay", "headlines", "--export", file)
    assert (done.exit_code, "cannot be checked" in done.stderr) == (1, True)
    longer = tmp_path / "longer.csv"
    call("export", "headlines", longer)
    assert call("replay", "headlines", "--export", longer).exit_code == 0


def test_check_needs_an_experiment(call: Call, tmp_path: Path) -> None:
    assert "requires the EXPERIMENT" in call("replay", "--export", tmp_path / "log.csv").stderr


def test_replay_says_where_it_starts(store: Store, call: Call) -> None:
    compact(store, find(store, "headlines"), CUTOFF)
    row = find(store, "headlines")
    text = call("replay", "headlines").stdout
    assert f"from the snapshot at event {row.first_seq - 1} (earlier events were removed)" in text
    (found,) = json.loads(call("replay", "headlines", "--json").stdout)
    assert (found["start"], found["events"], found["holds"]) == (row.first_seq - 1, row.seq, True)


def test_backup_says_where_a_log_starts(store: Store, call: Call, tmp_path: Path) -> None:
    file, copy = tmp_path / "b.backup", f"sqlite:///{tmp_path / 'copy.db'}"
    assert "starts" not in call("backup", file).stdout
    compact(store, find(store, "headlines"), CUTOFF)
    first = find(store, "headlines").first_seq
    line = f"headlines: the log starts at event {first}: earlier events were removed by retention.\n"
    assert call("backup", file).stdout.endswith(line)
    assert json.loads(call("backup", file, "--json").stdout)["starts"] == {"headlines": first}
    assert CliRunner().invoke(main, ["restore", str(file), "--storage", copy]).stdout.endswith(line)


def test_evaluation_says_where_the_log_starts(store: Store, call: Call, tmp_path: Path) -> None:
    whole = read_log("headlines", read_stored_events(store, find(store, "headlines")))
    compact(store, find(store, "headlines"), CUTOFF)
    row, file = find(store, "headlines"), tmp_path / "log.csv"
    call("export", "headlines", file)
    text = " ".join(call("evaluate", "headlines").stdout.split())
    assert f"The log starts at event {row.first_seq}: earlier events were removed by retention." in text
    assert json.loads(call("evaluate", "headlines", "--json").stdout)["first_seq"] == row.first_seq
    stored = read_log("headlines", read_stored_events(store, row))
    exported = read_log("headlines", read_export(file))
    assert stored.seq.tolist() == exported.seq.tolist() == [seq for seq in whole.seq if seq in set(stored.seq)]
    # The reports of the first hour may be of decisions under settings that were removed.
    assert 0 <= stored.seq[0] - row.first_seq < 20
    assert evaluation.evaluate(stored, ()).whole.log.first_seq == row.first_seq


def test_compact_verb_prints_what_it_removed(store: Store, call: Call) -> None:
    row = find(store, "headlines")
    done = call("compact", "headlines", "--days", 10)
    assert done.stdout == f"headlines: {row.seq} events removed; the log starts at {row.seq + 1}.\n"
    found = json.loads(call("compact", "--days", 10, "--json").stdout)
    assert [each["removed"] > 0 for each in found["experiments"]] == [False, True]
    assert found["faults"] == []


def test_compact_verb_uses_the_setting(store: Store, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASKEDBANDITS_RETENTION_DAYS", "0")
    assert "give --days" in call("compact").stderr
    monkeypatch.setenv("MASKEDBANDITS_RETENTION_DAYS", "30")
    assert call("compact").exit_code == 0
    assert store.read_first(1) is None


def test_compact_verb_names_damaged_logs_and_goes_on(store: Store, call: Call) -> None:
    with write_tables(store) as tx:
        tx.execute("DELETE FROM event WHERE experiment = 1 AND seq = 9")
    done = call("compact", "--days", 10)
    assert done.exit_code == 1
    assert "gap" in done.stdout
    assert store.read_first(2) is None


def test_commands_for_privacy_officers_work(store: Store, url: str, tmp_path: Path) -> None:
    """As the page has them: what is older is gone, states are proved, and the export is confirmed."""
    page = (Path(__file__).parents[3] / "docs" / "privacy_officer.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^<!-- run -->\n```bash\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    row, printed = find(store, "headlines"), []
    for line in block.splitlines():
        words = [url if word == "sqlite:///bandits.db" else word for word in shlex.split(line)]
        words = [str(tmp_path / word) if word == "headlines.csv" else word for word in words]
        done = CliRunner().invoke(main, words[1:])
        assert (words[0], done.exit_code) == ("maskedbandits", 0), done.output
        printed.append(done.stdout)
    assert f"headlines: {row.seq} events removed" in printed[1]
    assert store.read_first(row.id) is None
    assert f"from the snapshot at event {row.seq}" in printed[2]
    assert f"events 1 to {row.seq} are those of the log" in printed[3]
