"""`maskedbandits backup`, `restore` and `upgrade`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from older_stores import build_older
from store_samples import create_sample, report

from commands import refused
from maskedbandits.cli import FAILED, Verbs
from maskedbandits.cli.backup import backup, restore
from maskedbandits.cli.upgrade import upgrade
from maskedbandits.service.storage import Store, open_store

pytest_plugins = ["store_fixtures"]

VERBS: dict[str, click.Command] = {"backup": backup, "restore": restore, "upgrade": upgrade}


def call(*arguments: object) -> Result:
    return CliRunner().invoke(Verbs("maskedbandits", VERBS), [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MASKEDBANDITS_STORAGE", raising=False)
    return tmp_path


@pytest.mark.parametrize("verb", VERBS)
def test_help_lists_options_and_examples(verb: str) -> None:
    shown = call(verb, "--help").stdout
    for parameter in VERBS[verb].params:
        if isinstance(parameter, click.Option):
            assert parameter.opts[0] in shown
    examples = [line.strip() for line in shown[shown.index("Examples:") :].splitlines() if line.strip()][1:]
    assert examples
    for example in examples:
        program, named, *arguments = shlex.split(example)
        assert (program, named) == ("maskedbandits", verb)
        VERBS[verb].make_context(verb, arguments)


def test_backup_verb_and_restore_verb_are_inverse(any_store: Store, any_url: str) -> None:
    create_sample(any_store)
    any_store.append([report() for _ in range(2000)])
    done = call("backup", "--storage", any_url, "b.backup")
    assert (done.exit_code, done.stdout) == (0, "Backed up: 1 experiment, 2,001 events. b.backup\n")
    done = call("restore", "b.backup", "--storage", "sqlite:///restored.db", "--json")
    result = json.loads(done.stdout)
    (fault,) = result.pop("faults")  # its configuration names no policy
    assert fault.startswith("headlines: its configuration is damaged")
    assert result == {"file": "b.backup", "experiments": 1, "events": 2001}
    with open_store("sqlite:///restored.db") as restored:
        assert restored.read_events(1, 0, 9999) == any_store.read_events(1, 0, 9999)
    refused(call("restore", "b.backup", "--storage", "sqlite:///restored.db"), "not empty")


def test_backup_verb_uses_the_service_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store("sqlite:///bandits.db", create=True) as store:
        create_sample(store)
    assert json.loads(call("backup", "one", "--json").stdout)["experiments"] == 1
    open_store("sqlite:///other.db", create=True).close()
    monkeypatch.setenv("MASKEDBANDITS_STORAGE", "sqlite:///other.db")
    assert json.loads(call("backup", "two", "--json").stdout)["experiments"] == 0


@pytest.mark.parametrize("version", [2, 3])
def test_upgrade_verb_reports_versions(version: int) -> None:
    build_older("sqlite:///bandits.db", version)
    if version == 2:
        refused(call("backup", "b"), "run maskedbandits upgrade")
    first, notice = call("upgrade").stdout.splitlines()
    assert first == f"Upgraded the tables from version {version} to 4."
    assert "the service removes events that are older than 365 days" in notice
    assert "retention_days = 0" in notice  # the remedy
    assert call("upgrade").stdout == "The tables already have version 4: nothing to do.\n"
    answer = {"from": 4, "to": 4, "retention_days": 365, "notice": notice}
    assert json.loads(call("upgrade", "--json").stdout) == answer
    assert json.loads(call("backup", "b", "--json").stdout)["events"] == 22


def test_upgrade_verb_says_that_events_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    build_older("sqlite:///bandits.db", 3)
    monkeypatch.setenv("MASKEDBANDITS_RETENTION_DAYS", "0")
    assert "keeps all events" in call("upgrade").stdout
    found = json.loads(call("upgrade", "--json").stdout)
    assert (found["retention_days"], "keeps all events" in found["notice"]) == (0, True)


def test_backup_verbs_reject_mistakes_in_one_line() -> None:
    refused(call("backup", "b"), "bandits.db: no such file")
    refused(call("backup", "b", "--storage", "nonsense"), "storage: give a URL such as sqlite:///bandits.db")
    refused(call("restore", "missing"), "missing: no such file")
    refused(call("upgrade", "--storage", "postgresql://u:hunter2@127.0.0.1:1/d"), "refused", FAILED)
    assert "hunter2" not in call("upgrade", "--storage", "postgresql://u:hunter2@127.0.0.1:1/d").output
    open_store("sqlite:///bandits.db", create=True).close()
    refused(call("backup", "missing/b"), "missing/b: No such file or directory", FAILED)
    assert sorted(path.name for path in Path().iterdir()) == ["bandits.db"]
