"""`maskedbandits evaluate` and `maskedbandits export`: from a store and from files, as text and JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from log_samples import change, create_event, report, settings, simulate_log, with_probabilities

from commands import call, gives_no_orders, refused
from maskedbandits.service.arm_selection import WHOLE
from maskedbandits.service.evaluation import export
from maskedbandits.service.schemas import MILLION
from maskedbandits.service.storage import open_store
from maskedbandits.service.storage.models import Change, EventRow, NewArmRow, NewReport
from maskedbandits.service.tokens import FLAG_HELD_BACK

FORMATS = ("csv", "jsonl", "parquet")


def save_log(events: Sequence[EventRow], file: Path) -> Path:
    export.export(events, file)
    return file


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with two experiments: one with reports, changes and subsets, one without any."""
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'bandits.db'}"
    store = open_store(url, create=True)
    config = json.dumps(settings(MILLION, 0.25, 0.0))
    row = store.create_experiment(
        "headlines", config, [NewArmRow("red, 'hot'", '{"secret": 1}'), NewArmRow("blé")], 0, 480_000
    )
    store.create_experiment("empty", config, [NewArmRow("a"), NewArmRow("b")], 0, 480_000)

    def reports(first: int, hour: int, arms: int) -> None:
        given = [(place % arms, place % 3 == 0, place) for place in range(first, first + 300)]
        rows = [
            NewReport(
                row.id,
                arm,
                int(bit),
                MILLION,
                WHOLE // arms,
                4 * (place % 10 == 9),
                place.to_bytes(11, "big"),
                99,
                hour,
            )
            for arm, bit, place in given
        ]
        assert min(store.append(rows)) > 0

    reports(0, 480_000, 2)
    store.change(row.id, Change("arm", 480_001, name="green", payload='"secret"'))
    reports(1000, 480_001, 3)
    reports(2000, 480_003, 3)
    store.close()
    return url


@pytest.mark.parametrize("ending", FORMATS)
def test_export_has_held_back_reports(tmp_path: Path, ending: str) -> None:
    flags = [0, FLAG_HELD_BACK, FLAG_HELD_BACK | 1]
    events = [create_event(2, settings(MILLION, 0.25, 0.0))]
    events += [report(place + 2, 0, 0, 1, WHOLE // 2, flags=each) for place, each in enumerate(flags)]
    file = save_log(events, tmp_path / f"log.{ending}")
    assert [event.flags for event in export.read_export(file)][1:] == flags
    result = json.loads(call("evaluate", file, "--json").stdout)
    assert (result["reports"], result["held_back"]) == (1, 2)
    assert "Held back: 2 reports over the source limit." in " ".join(call("evaluate", file).stdout.split())


def test_store_and_exports_give_same_evaluation(storage: str, tmp_path: Path) -> None:
    result = json.loads(call("evaluate", "headlines", "--storage", storage, "--json", "--periods", 2).stdout)
    assert (result["reports"], result["left_out"]) == (810, 90)
    assert [arm["name"] for arm in result["arms"]] == ["red, 'hot'", "blé", "green"]
    assert [arm["of"] for arm in result["arms"]] == [810, 810, 270]
    assert [part["reports"] for part in result["periods"]] == [405, 405]
    for ending in FORMATS:
        file = tmp_path / f"log.{ending}"
        done = call("export", "headlines", file, "--storage", storage)
        assert (done.exit_code, done.stdout) == (0, f"902 events: {file}\n"), done.output
        again = json.loads(call("evaluate", file, "--json", "--periods", 2).stdout)
        assert again == {**result, "experiment": str(file)}


def test_exports_have_no_ids_and_payloads(storage: str, tmp_path: Path) -> None:
    for ending in FORMATS:
        file = tmp_path / f"log.{ending}"
        call("export", "headlines", file, "--storage", storage)
        content = file.read_bytes()
        assert b"secret" not in content
        assert b"decision" not in content
        assert b'expires"' not in content
        for place in (5, 1005, 2299):
            assert place.to_bytes(11, "big") not in content
            assert place.to_bytes(11, "big").hex().encode() not in content


@pytest.mark.parametrize("ending", FORMATS)
def test_exported_events_are_read_unchanged(ending: str, tmp_path: Path) -> None:
    events = [
        create_event(['a,b\n"c"', "ε"], settings(MILLION, 0.1, 0.2), hour=480_000),
        report(2, 480_000, 1, 0, 12_345, 123_457, 5),
        change(3, 480_001, "retire", 1, name="ε"),
        change(4, 480_001, "status", status="paused"),
        report(5, 480_002, 0, 1, WHOLE, 7 * MILLION),
    ]
    found = list(export.read_export(save_log(events, tmp_path / f"log.{ending}")))
    for before, after in zip(events, found, strict=True):
        assert after._replace(detail=None) == before._replace(detail=None)
        result = json.loads(before.detail or "{}")
        for arm in result.get("arms", ()):
            del arm["payload"]
        assert json.loads(after.detail or "{}") == result


# Words


def words(file: Path, *options: object, encoding: str = "utf-8") -> str:
    done = call("evaluate", file, *options, encoding=encoding)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_text_fits_eighty_columns(tmp_path: Path) -> None:
    events = simulate_log([0.2, 0.5, 0.4], 600, seed=1, holdout=0.1)
    events[0] = create_event(["a" * 200, "\x1b[2J", "ordinary"], settings(MILLION, 0.05, 0.1))
    tried = ("--policy", "klucb-cf", "--policy", f"klucb-cf:c=0.5{'0' * 60}", "--repeats", 2)
    text = words(save_log(events, tmp_path / "log.csv"), "--periods", 2, *tried)
    assert max(map(len, text.splitlines())) <= 80
    assert gives_no_orders(text)
    assert "aaaaaaaaaaaaaa..." in text
    assert "\\x1b[2J" in text
    assert text.count("One choice ") == 3
    assert "Period 2 of 2: events" in text
    assert "in the order in which they came" in " ".join(text.split())
    for name in ("as it was", "the policy's own choices", "holdout, the default arm", "uniform"):
        assert text.count(f"\n{name} ") == 3
    assert "–" in text
    assert words(tmp_path / "log.csv", encoding="ascii").isascii()


def test_text_clips_means(tmp_path: Path) -> None:
    """Few noisy reports give estimates beyond 0 and 1, which the JSON has unclipped."""
    events = [create_event(2, settings(MILLION // 10, 0.25, 0.0))]
    events += [report(place + 2, 0, place % 2, place % 2, WHOLE // 2, MILLION // 10) for place in range(20)]
    file = save_log(events, tmp_path / "log.csv")
    shown = {line.split("  ")[0]: line for line in words(file).splitlines()}
    low, high = json.loads(words(file, "--json"))["arms"]
    assert low["ips"]["value"] < 0.0 < 1.0 < high["ips"]["value"]
    assert "0.000 (0.000–" in shown["arm 0"]
    assert "1.000 (" in shown["arm 1"]
    assert "-" not in shown["arm 0"]


def test_text_shows_best_of_many_arms(tmp_path: Path) -> None:
    events = [create_event(100, settings(MILLION, 0.009, 0.0))]
    events += [report(place + 2, 0, place % 100, int(place % 100 > 69), WHOLE // 100) for place in range(1000)]
    text = words(save_log(events, tmp_path / "log.csv"))
    assert "and 70 more arms, which --json shows" in text
    assert "\narm 99 " in text
    assert "\narm 5 " not in text
    assert len(json.loads(words(tmp_path / "log.csv", "--json"))["arms"]) == 100


def test_text_explains_missing_estimates(tmp_path: Path) -> None:
    text = words(
        save_log(simulate_log([0.2, 0.5], 500, seed=1, floor=0.0), tmp_path / "log.csv"), "--policy", "klucb-cf"
    )
    assert "not judged: about 100 % of decisions could not have shown it;" in text
    assert " give arms a floor; it is between 0.000 and 1.000\n" in text
    assert "klucb-cf" in text
    assert "not judged: give arms a floor" in text
    assert max(map(len, text.splitlines())) <= 80


def test_text_warns_of_wrong_probabilities(tmp_path: Path) -> None:
    events = with_probabilities(
        simulate_log([0.2, 0.9], 4000, seed=1), lambda event: max(3328, (event.probability or 0) / 2)
    )
    text = " ".join(words(save_log(events, tmp_path / "log.csv")).split())
    assert "DO NOT TRUST 'arm 1': its reports are" in text
    result = json.loads(words(tmp_path / "log.csv", "--json"))
    assert result["arms"][1]["shown"]["fits"] is False


def test_approximate_intervals_need_many_reports(tmp_path: Path) -> None:
    file = save_log(simulate_log([0.2, 0.9], 1500, seed=1), tmp_path / "log.csv")
    result = json.loads(words(file, "--json"))["arms"]
    assert result[0]["doubly_robust"]["approximate"] is None  # it has fewer than a hundred
    low, high = result[1]["doubly_robust"]["approximate"]
    assert f"({low:.3f}–{high:.3f})" in words(file, "--approximate")
    assert high - low < result[1]["doubly_robust"]["interval"][1] - result[1]["doubly_robust"]["interval"][0]
    assert "With fewer than 100 reports" in " ".join(words(file, "--approximate").split())
    assert "hold for any number of reports" in " ".join(words(file).split())


def test_text_describes_changes(storage: str) -> None:
    text = " ".join(call("evaluate", "headlines", "--storage", storage).stdout.split())
    assert "Left out: 90 reports of decisions among eligible arms." in text
    assert "Arm 'green' was added later: judged by the 270 reports of that time." in text
    assert "2024-10-04 00:00 to 2024-10-04 03:00 UTC; epsilon 1." in text


# Mistakes


def test_evaluate_uses_service_storage(storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable or the file that the service itself goes by; a log with a dot in its name is a file."""
    monkeypatch.chdir(tmp_path)
    result = call("evaluate", "headlines", "--storage", storage, "--json").stdout
    refused(call("evaluate", "headlines"), "bandits.db: no such file")
    with monkeypatch.context() as patch:
        patch.setenv("MASKEDBANDITS_STORAGE", storage)
        assert call("evaluate", "headlines", "--json").stdout == result
        assert call("export", "headlines", "log.csv").exit_code == 0
        assert json.loads(call("evaluate", "log.csv", "--json").stdout)["reports"] == json.loads(result)["reports"]
    Path("service.toml").write_text(f"storage = '{storage}'\nport = 9000\n", encoding="utf-8")
    assert call("evaluate", "headlines", "--config", "service.toml", "--json").stdout == result
    assert call("export", "headlines", "other.csv", "--config", "service.toml").exit_code == 0
    assert Path("other.csv").read_bytes() == Path("log.csv").read_bytes()


def test_export_replaces_file_with_force_only(storage: str, tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("mine", encoding="utf-8")
    refused(call("export", "headlines", file, "--storage", storage), "log.csv: already exists")
    assert file.read_text(encoding="utf-8") == "mine"
    done = call("export", "headlines", file, "--storage", storage, "--force", "--json")
    result = json.loads(done.stdout)
    assert (result["file"], result["experiment"]) == (str(file), "headlines")
    assert len(file.read_text(encoding="utf-8").splitlines()) == result["events"] + 1


def test_missing_logs_are_rejected(storage: str, tmp_path: Path) -> None:
    refused(call("evaluate", "headline", "--storage", storage), "no experiment is called 'headline'; did you mean")
    refused(call("export", "headline", tmp_path / "a.csv", "--storage", storage), "did you mean 'headlines'?")
    refused(call("evaluate", "empty", "--storage", storage), "empty: no reports to evaluate with; wait for some")
    refused(call("evaluate", "headlines.txt"), "headlines.txt: unknown format: use a name that ends in .csv, .jsonl or")
    refused(call("evaluate", tmp_path / "none.csv"), "cannot be read: No such file")
    refused(call("evaluate", tmp_path / "none.parquet"), "cannot be read")
    refused(call("export", "headlines", tmp_path / "a.txt", "--storage", storage), "unknown format")
    refused(call("export", "headlines", tmp_path / "no" / "a.csv", "--storage", storage), "No such file", code=1)
    refused(call("evaluate", "headlines", "--storage", f"sqlite:///{tmp_path}/none.db"), "none.db")
    refused(call("evaluate", "headlines", "--storage", "mysql://x"), "storage")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("lost", "complaint"),
    [("= 400", "the log has a gap: 399 is followed by 401"), ("> 899", "the log ends at event 899")],
)
def test_log_with_gap_is_rejected(storage: str, tmp_path: Path, lost: str, complaint: str) -> None:
    """Nothing is written of it; and other experiments are replayed all the same."""
    url, file = f"sqlite:///{tmp_path}/gap.db", tmp_path / "log.csv"
    copyfile(storage.removeprefix("sqlite:///"), tmp_path / "gap.db")
    with closing(sqlite3.connect(tmp_path / "gap.db")) as connection, connection:
        connection.execute(f"DELETE FROM event WHERE experiment = 1 AND seq {lost}")  # noqa: S608 -- one of two
    for verb in (("evaluate", "headlines"), ("export", "headlines", file)):
        refused(call(*verb, "--storage", url), f"headlines: {complaint}")
    assert not file.exists()
    done = call("replay", "--storage", url)
    assert done.exit_code == 1
    assert "a log is damaged" in done.stderr
    assert [each.partition(":")[0] for each in done.stdout.splitlines()] == ["headlines", "empty"]
    assert complaint in done.stdout
    result = json.loads(call("replay", "--storage", url, "--json").stdout)
    assert [(each["experiment"], each["holds"]) for each in result] == [("headlines", False), ("empty", True)]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--periods", 0), "periods = 0"),
        (("--periods", 811), "periods = 811"),
        (("--repeats", 0), "repeats = 0"),
        (("--policy", "klucb-cf", "--seed", -1), "seed = -1"),
        (("--policy", "oracle"), "not supported"),
        (("--policy", "sw-klucb-cf:window"), "NAME:key=value"),
    ],
)
def test_invalid_options_are_rejected(storage: str, options: tuple[object, ...], complaint: str) -> None:
    refused(call("evaluate", "headlines", "--storage", storage, *options), complaint)


GOOD = {"seq": 2, "hour": 0, "kind": "report", "arm": 0, "bit": 1, "epsilon": 1.0, "probability": 0.5, "flags": 0}


def line(**others: Any) -> str:
    return json.dumps({**GOOD, **others})


START = json.dumps(
    {
        "seq": 1,
        "hour": 0,
        "kind": "create",
        "detail": json.dumps({"config": settings(MILLION, 0.25, 0.0), "default_arm": 0, "arms": [{"name": "a"}]}),
    }
)


INVALID_LOGS: dict[str, list[list[str]]] = {  # by what the error must name
    "line 1": [["nonsense"], ["[1]"]],
    "line 2": [[START, "\udcff"]],
    "row 2": [
        [START, "{}"],
        [START, line(seq="x")],
        *([START, line(**{name: 0.5})] for name in ("seq", "hour", "arm", "bit", "flags")),
        [START, line(bit=True)],
        [START, line(seq=None)],
        [START, line(probability=0.1234567)],
        [START, line(probability=1e308)],
    ],
    "1 is followed by 5": [[START, line(seq=5)]],
    "first event": [[line(seq=1)], [START, START.replace('"seq": 1', '"seq": 2')]],
    "event 2": [
        [START, line(kind="rumour")],
        [START, line(arm=1)],
        [START, line(arm=None)],
        [START, line(bit=2)],
        [START, line(epsilon=0.0)],
        [START, line(probability=0.125)],
        [START, line(probability=2.0)],
        [START, line(kind="retire")],
        [START, line(kind="retire", arm=7, detail="{}")],
        [START, line(kind="arm", arm=1, detail="{}")],
        [START, line(kind="config", detail='{"config": 3}')],
    ],
    "event 1": [[START.replace("0.25", "-1")], [START.replace("0.25", "1e999")]],
    "eligible_arms": [[START, line(flags=4)]],
    "no reports": [[]],
}


def test_invalid_events_are_rejected(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    for named, logs in INVALID_LOGS.items():
        for lines in logs:
            file.write_bytes("\n".join(lines).encode(errors="surrogateescape"))
            done = call("evaluate", file)
            refused(done, named)
            assert len(done.stderr.splitlines()) == 1
            assert str(file) in done.stderr


@pytest.mark.parametrize(
    ("ending", "content", "complaint"),
    [
        (".csv", b"seq,hour\n1,2\n", "no column 'kind'"),
        (".csv", b"\xff\xfe\x00", "cannot be read as a table"),
        (".csv", b"", "no heading"),
        (".parquet", b"PAR1 and no more", "cannot be read"),
    ],
)
def test_invalid_files_are_rejected(ending: str, content: bytes, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / f"log{ending}"
    file.write_bytes(content)
    done = call("evaluate", file)
    refused(done, complaint)
    assert len(done.stderr.splitlines()) == 1


def test_lost_store_is_reported(storage: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from maskedbandits.service.storage import StoreUnavailable
    from maskedbandits.service.storage.store import Store

    def gone(*_: Any) -> list[EventRow]:
        raise StoreUnavailable("bandits.db: the connection is lost")

    monkeypatch.setattr(Store, "read_events", gone)
    complaint = "bandits.db: the connection is lost: try again"
    refused(call("evaluate", "headlines", "--storage", storage), complaint, code=1)
    refused(call("export", "headlines", tmp_path / "log.csv", "--storage", storage), complaint, code=1)
    assert list(tmp_path.iterdir()) == []
