"""The store that verbs work with is the one that a service with the same flags, variables and file would use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import call, refused
from maskedbandits.service.auth import create_key
from maskedbandits.service.storage import open_store


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the file of a service, whose store has a key."""
    monkeypatch.chdir(tmp_path)
    for variable in ("MASKEDBANDITS_STORAGE", "MASKEDBANDITS_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    Path("maskedbandits.toml").write_text('storage = "sqlite:///of-file.db"\nworkers = 2\n', encoding="utf-8")
    for name in ("of-file", "of-variable", "of-flag"):
        with open_store(f"sqlite:///{name}.db", create=True) as store:
            create_key(store, "read", name, 0)
    return tmp_path


CONFIG = ("--config", "maskedbandits.toml")


def names(*flags: str) -> list[str]:
    return [each["name"] for each in json.loads(call("key", "list", "--json", *flags).stdout)]


def test_flag_overrides_environment_and_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert names(*CONFIG) == ["of-file"]
    monkeypatch.setenv("MASKEDBANDITS_STORAGE", "sqlite:///of-variable.db")
    assert names(*CONFIG) == ["of-variable"]
    assert names(*CONFIG, "--storage", "sqlite:///of-flag.db") == ["of-flag"]


def test_every_verb_reads_the_config_file(folder: Path) -> None:
    assert call("key", "create", "--role", "admin", "--name", "ops", *CONFIG).exit_code == 0
    assert names(*CONFIG) == ["of-file", "ops"]
    assert call("key", "revoke", "ops", *CONFIG).exit_code == 0
    assert call("key", "rotate", *CONFIG).exit_code == 0
    assert call("backup", "all.backup", *CONFIG).exit_code == 0
    assert call("replay", *CONFIG).exit_code == 0
    assert call("upgrade", *CONFIG).exit_code == 0
    refused(call("restore", "all.backup", *CONFIG), "of-file.db: not empty")
    refused(call("export", "none", "none.csv", *CONFIG), "no experiment is called 'none'")
    refused(call("evaluate", "none", *CONFIG), "no experiment is called 'none'")
    assert not (folder / "bandits.db").exists()


def test_bad_config_file_is_a_one_line_error(folder: Path) -> None:
    (folder / "maskedbandits.toml").write_text("storge = 1", encoding="utf-8")
    refused(call("backup", "all.backup", *CONFIG), "no setting is called 'storge'; did you mean 'storage'?")
    refused(call("key", "list", "--config", "none.toml"), "none.toml: no such file")


def test_replay_of_empty_store() -> None:
    assert call("replay", *CONFIG).stdout == "No experiments: nothing to replay.\n"
    assert json.loads(call("replay", "--json", *CONFIG).stdout) == []


def test_rotate_says_when_services_follow() -> None:
    call("key", "rotate", *CONFIG)
    said = call("key", "rotate", "--keep", "0", *CONFIG).stdout
    assert "within seconds" in said
    assert "from now on" not in said
