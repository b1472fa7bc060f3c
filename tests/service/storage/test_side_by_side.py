"""Processes of this release beside those of the one before, by its own code: no report is lost or counted twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from older_stores import rewrite_nothing, unpack_release

import maskedbandits
from maskedbandits.errors import UserError
from maskedbandits.service.storage import open_store
from maskedbandits.service.storage.models import Change, NewReport

pytest_plugins = ["store_fixtures"]
pytestmark = pytest.mark.slow

BEFORE = "b1609bf"  # the last commit with version 3 of the tables
THIS = Path(maskedbandits.__file__).parents[1]
WRITER = Path(__file__).with_name("release_writer.py")
FIRST, SECOND, LATE, LONGEST = 700, 1400, 5000, 300.0

Process = subprocess.Popen[str]


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the release before this one."""
    return unpack_release(BEFORE, tmp_path_factory.mktemp("older"))


class Release:
    """Runs processes of a release, which end with the test."""

    def __init__(self, source: Path, url: str, folder: Path, stack: ExitStack) -> None:
        signals = {name: str(folder / name) for name in ("STARTED", "UPGRADED", "BACKUP")}
        self.url, self.env, self.stack = url, {**os.environ, **signals, "PYTHONPATH": str(source)}, stack

    def start(self, command: str, number: int = 0) -> Process:
        line = [sys.executable, str(WRITER), self.url, command, str(number)]
        process = subprocess.Popen(line, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.stack.enter_context(process)
        self.stack.callback(process.kill)
        return process

    def run(self, command: str, number: int = 0) -> Any:
        return finish(self.start(command, number))


def wait_until_ready(processes: Sequence[Process]) -> None:
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"


def finish(process: Process) -> Any:
    """Return what a process has printed at its end."""
    output, errors = process.communicate(timeout=LONGEST)
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


@pytest.fixture
def releases(older: Path, any_url: str, tmp_path: Path) -> Iterator[tuple[Release, Release]]:
    with ExitStack() as stack:
        yield Release(older, any_url, tmp_path, stack), Release(THIS, any_url, tmp_path, stack)


def check_log(url: str, *accepted: dict[str, int]) -> None:
    """Check that each accepted report is in the log once, under its number, and that there are no others."""
    numbers = {int(decision): seq for each in accepted for decision, seq in each.items()}
    assert len(numbers) == sum(map(len, accepted))
    with open_store(url) as store:
        log = store.read_events(1, 1, 100_000)
        assert [event.seq for event in log] == list(range(2, len(log) + 2))
        assert {event.epsilon: event.seq for event in log} == numbers


def test_earlier_processes_receive_new_payloads(releases: tuple[Release, Release], any_url: str) -> None:
    before, now = releases
    before.run("create")
    with open_store(any_url) as store:
        store.change(1, Change("payload", 1, place=1, payload="[1, 2]"))
        store.change(1, Change("arm", 1, name="c"))
    assert before.run("fold") == now.run("fold") == [3, 3, ["null", "[1, 2]", "null"]]


def test_backup_by_an_earlier_process_is_restored(
    releases: tuple[Release, Release], any_url: str, tmp_path: Path
) -> None:
    """It has the additions of this release in no table, and copies all of `meta`."""
    before, now = releases
    before.run("create")
    with open_store(any_url) as store:
        store.append([NewReport(1, 0, 1, 1_000_000, 60_000, 0, bytes(11), 30_000_000, 480_000)])
    assert before.run("backup") == [1, 2]
    for release, version in ((before, 3), (now, 4)):
        release.url = f"sqlite:///{tmp_path}/{version}.db"
        assert release.run("restore") == [1, 2]
        with open_store(release.url) as restored:
            assert restored.read_version() == version
            assert not restored.list_audit()
            assert restored.read_heads() == {1: 2}
            restored.upgrade(rewrite_nothing)
            assert sum(count for _, _, count in restored.count_reports(1, 0, 9)) == 1


def test_two_releases_share_a_store_and_one_upgrades_it(
    releases: tuple[Release, Release], any_url: str, tmp_path: Path
) -> None:
    before, now = releases
    assert before.run("create") == 1
    writers = [release.start("write", FIRST) for release in (before, now, before, now)]
    wait_until_ready(writers)
    (tmp_path / "STARTED").touch()
    accepted = [finish(writer) for writer in writers]
    check_log(any_url, *accepted)
    assert set().union(*accepted) == set(map(str, range(1, FIRST)))
    assert all(accepted)  # everyone took part
    digest = before.run("digest", FIRST)
    assert now.run("digest", FIRST) == digest

    forgotten = before.start("try", LATE)  # a process that was not restarted
    if "postgresql" in any_url:  # which knows it by its name
        wait_until_ready([forgotten])
        with open_store(any_url) as store, pytest.raises(UserError, match="earlier release"):
            store.upgrade(rewrite_nothing)
        forgotten.kill()
        before.url += "&application_name=unknown"
        forgotten = before.start("try", LATE)
    wait_until_ready([forgotten])
    writers = [now.start("write", SECOND) for _ in range(2)]
    with open_store(any_url) as store:
        while store.read_heads()[1] < FIRST + 100:
            pass
        assert store.upgrade(rewrite_nothing) == (3, 4)
    (tmp_path / "UPGRADED").touch()
    accepted += [finish(writer) for writer in writers]
    assert "column" in finish(forgotten)
    check_log(any_url, *accepted)
    assert set().union(*accepted) == set(map(str, range(1, SECOND)))
    assert now.run("digest", FIRST) == digest
    with pytest.raises(AssertionError, match="install a newer one"):
        before.run("digest", FIRST)
