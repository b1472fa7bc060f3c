"""Damage of one experiment is reported in one line and leaves the others alone."""

from __future__ import annotations

import json
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from registries import build_registry
from web import SMALL, Served

from commands import call, refused
from maskedbandits import cli
from maskedbandits.service.evaluation import evaluate, intervals, log
from maskedbandits.service.server import warmup
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.models import EventRow

pytest_plugins = ["service_fixtures"]

DEEP = "[" * 100_000
BROKEN = ["{", "[]", "null", "{}", '{"policy": 7}', DEEP, '{"epsilon": "x"}']  # whole configurations


@pytest.fixture
def two_experiments(storage: str, served: Served) -> Iterator[Path]:
    """A store with two experiments, in the current folder; its service has ended."""
    assert served.post("/v1/experiments", {**SMALL, "name": "other"}).status == 201
    for name in ("headline", "other"):
        token = served.post(f"/v1/experiments/{name}/decisions").json["token"]
        assert served.post("/v1/reports", {"token": token, "bit": 1}).json == {"status": "accepted"}
    served.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(Path(storage.removeprefix("sqlite:///").partition("?")[0]).parent)
        yield Path("bandits.db")


def change(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


def back_up(path: Path, statement: str, *values: object) -> Path:
    """Return a backup with a change."""
    backup = path.with_name("saved")
    assert call("backup", backup, "--storage", f"sqlite:///{path}").exit_code == 0
    change(backup, statement, *values)
    return backup


UNFIT_VALUES: dict[str, list[Any]] = {
    "expires_after": [None, "x", [1], 1e300, 86_400.0, 10**20, -5, 60],
    "report_after": [None, "x", -1],
    "floor": [5, -1, "x", float("nan")],
    "holdout": [5, -1, "x", float("nan")],
    "parameters": [{"contamination": "x"}, {"nope": 1}, [1], None],
    "groups": [["a", "b"], ["a", "a"], 5],
    "policy": ["nope", "oracle", ["auto"]],
}
UNFIT = [{name: value} for name, values in UNFIT_VALUES.items() for value in values]
UNFIT_ROWS = {
    "arms": "DELETE FROM arm WHERE experiment = {}",
    "first": "DELETE FROM arm WHERE experiment = {} AND place = 0",
    "last": "DELETE FROM arm WHERE experiment = {} AND place = 1",
    "payload": "UPDATE arm SET payload = '{{' WHERE experiment = {}",
    "arm-status": "UPDATE arm SET status = 'odd' WHERE experiment = {} AND place = 1",
    "default": "UPDATE experiment SET default_arm = 77 WHERE id = {}",
    "negative": "UPDATE experiment SET default_arm = -1 WHERE id = {}",
    "status": "UPDATE experiment SET status = 'odd' WHERE id = {}",
    "hour": "UPDATE experiment SET created_hour = 99999999999 WHERE id = {}",
    "forgotten": "UPDATE experiment SET forgotten = 99999999999 WHERE id = {}",
    "letters": "UPDATE experiment SET config = CAST(X'7BFF' AS TEXT) WHERE id = {}",
    "letters-within": "UPDATE experiment SET config = CAST(rtrim(config, '}}') || ', \"x\": \"' || X'FF227D' AS TEXT) "
    "WHERE id = {}",
}
ONLY_THE_LOG_TELLS = {"last", json.dumps({"groups": ["a", "b"]})}  # so restore does not


def test_invalid_rows_are_quarantined(served: Served, storage: str) -> None:
    """Restore and replay report each of them, and the service goes on with the sound experiment."""
    path = Path(storage.removeprefix("sqlite:///").partition("?")[0])
    configs = [json.dumps(members) for members in UNFIT]
    names = {what: f"damaged-{index}" for index, what in enumerate([*configs, *BROKEN, *UNFIT_ROWS])}
    for name in names.values():
        assert served.post("/v1/experiments", {**SMALL, "name": name}).status == 201
    served.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        stored = dict(connection.execute("SELECT name, config FROM experiment"))
        ids = dict(connection.execute("SELECT name, id FROM experiment"))
        for members, text in zip(UNFIT, configs, strict=True):
            config = json.dumps({**json.loads(stored[names[text]]), **members})
            connection.execute("UPDATE experiment SET config = ? WHERE name = ?", (config, names[text]))
        for text in BROKEN:
            connection.execute("UPDATE experiment SET config = ? WHERE name = ?", (text, names[text]))
        for what, statement in UNFIT_ROWS.items():
            connection.execute(statement.format(ids[names[what]]))
    backup, url = path.with_name("saved"), f"sqlite:///{path.with_name('restored.db')}"
    assert call("backup", backup, "--storage", f"sqlite:///{path}").exit_code == 0
    restored = call("restore", backup, "--storage", url, "--json")
    assert restored.exit_code == 0, restored.output
    reported = {
        fault.partition(": its configuration is damaged (")[0] for fault in json.loads(restored.stdout)["faults"]
    }
    assert reported == {name for what, name in names.items() if what not in ONLY_THE_LOG_TELLS}
    replayed = call("replay", "--storage", url)
    assert replayed.exit_code == cli.FAILED
    sound = [line for line in replayed.stdout.splitlines() if ": its configuration is damaged (" not in line]
    assert [line.partition(":")[0] for line in sound] == ["headline"]
    assert warmup.list_store_code(url)
    with Served(build_registry(url)) as service:
        assert service.post("/v1/experiments/headline/decisions").status == 200
        refusals = {name: service.post(f"/v1/experiments/{name}/decisions").status for name in names.values()}
        assert refusals == dict.fromkeys(names.values(), 503)
        assert abs(service.registry.clock.now() - time.time()) < 5.0


def test_broken_first_event_is_reported(two_experiments: Path) -> None:
    change(two_experiments, "UPDATE event SET detail = '{}' WHERE seq = 1 AND experiment = 1")
    replayed = call("replay", "--storage", "sqlite:///bandits.db")
    assert replayed.stdout.splitlines()[0].startswith("headline: event 1 or one soon after it is damaged (KeyError)")
    assert replayed.stdout.splitlines()[1].startswith("other: 2 events")
    assert replayed.exit_code == cli.FAILED


def test_invalid_versions_are_reported(two_experiments: Path) -> None:
    backup = back_up(two_experiments, "SELECT 1")
    for value in ("", "three", "3.5", "-1", "1" * 5000, b"\xff", "\u0663"):
        for path in (backup, two_experiments):
            change(path, "UPDATE meta SET value = ? WHERE key = 'schema'", value)
        refused(call("restore", backup, "--storage", "sqlite:///restored.db"), "saved: damaged")
        refused(call("backup", "again", "--storage", "sqlite:///bandits.db"), "bandits.db: damaged")


def test_values_of_wrong_type_are_damage(two_experiments: Path) -> None:
    for statement in (
        "UPDATE event SET bit = 'x' WHERE seq = 2",
        "UPDATE experiment SET config = X'00'",
        "UPDATE arm SET name = X'ff'",
    ):
        refused(
            call("restore", back_up(two_experiments, statement), "--storage", "sqlite:///restored.db"), "saved: damaged"
        )


def test_deep_json_is_reported(two_experiments: Path) -> None:
    Path("deep.jsonl").write_text(DEEP)
    refused(call("evaluate", "deep.jsonl"), "deep.jsonl: line 1 is not a JSON object")
    assert call("export", "headline", "log.jsonl", "--storage", "sqlite:///bandits.db").exit_code == 0
    rows = [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()]
    for detail in (DEEP, f'{{"groups": {DEEP}'):
        Path("log.jsonl").write_text("\n".join(json.dumps({**row, "detail": detail}) for row in rows))
        refused(call("evaluate", "log.jsonl"), "restore a backup")
    change(two_experiments, "UPDATE event SET detail = ? WHERE seq = 1 AND experiment = 1", DEEP)
    refused(call("evaluate", "headline", "--storage", "sqlite:///bandits.db"), "restore a backup")


def test_export_is_readable_by_owner_only(two_experiments: Path) -> None:
    for kind in ("csv", "jsonl", "parquet"):
        file = Path(f"log.{kind}")
        file.touch(0o666)
        done = call("export", "headline", file, "--force", "--storage", "sqlite:///bandits.db")
        assert done.exit_code == 0, done.output
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_damaged_store_is_not_exported(store: Store, two_experiments: Path) -> None:
    change(two_experiments, "UPDATE event SET detail = ? WHERE seq = 1 AND experiment = 1", DEEP)
    refused(call("export", "headline", "log.csv", "--storage", "sqlite:///bandits.db"), "damaged")
    with open_store("sqlite:///bandits.db") as again:
        assert again.read_heads() == store.read_heads()


def many_arms(arms: int, *, added: bool) -> list[EventRow]:
    """Return a log of 20 reports on the first two of many arms, which exist from the start or are added later."""
    first = 2 if added else arms
    about = {"config": {"epsilon": 1.0, "report_after": 60, "floor": 0.0, "holdout": 0.0}, "default_arm": 0}
    about["arms"] = [{"name": f"arm {place}"} for place in range(first)]
    nothing = (None,) * 6
    events = [EventRow(1, "create", *nothing, 1, json.dumps(about))]
    for place in range(first, arms):
        name = json.dumps({"name": f"arm {place}"})
        events.append(EventRow(len(events) + 1, "arm", place, *nothing[1:], 1, name))
    for turn in range(20):
        events.append(EventRow(len(events) + 1, "report", turn % 2, 1, 1_000_000, 60_000, 0, None, 1, None))
    return events


@pytest.mark.parametrize("added", [False, True], ids=["there at first", "added later"])
def test_arms_without_reports_cost_no_work(monkeypatch: pytest.MonkeyPatch, added: bool) -> None:
    """The number of interval searches, and of checks for arms to open, is that of a log with few arms."""
    work: dict[int, tuple[int, int]] = {}
    real_radius, real_looks = intervals.EmpiricalBernstein.radius, log._LogReader._end_waits
    for arms in (10, 400):
        counted = [0, 0]

        def radius(method: intervals.EmpiricalBernstein, squares: float, counted: list[int] = counted) -> float:
            counted[0] += 1
            return real_radius(method, squares)

        def look(self: log._LogReader, counted: list[int] = counted) -> None:
            counted[1] += 1
            real_looks(self)

        monkeypatch.setattr(intervals.EmpiricalBernstein, "radius", radius)
        monkeypatch.setattr(log._LogReader, "_end_waits", look)
        found = evaluate(log.read_log("log", many_arms(arms, added=added)))
        assert len(found.whole.arms) == (2 if added else arms)
        work[arms] = counted[0], counted[1]
    assert work[10] == work[400]
    assert work[10][1] <= 1
