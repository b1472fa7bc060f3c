"""The service's secret: outside its database, created once, and rejected for another store."""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from older_stores import build_older
from store_samples import report

from commands import call, refused
from helpers.private import read_tables, signing_keys
from maskedbandits.errors import UserError
from maskedbandits.service.secret import load_secret, load_secrets, seal, unseal, upgrade_store
from maskedbandits.service.server.main import prepare_store
from maskedbandits.service.server.settings import Settings, load_settings
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.backup import backup, restore
from maskedbandits.service.storage.models import DUPLICATE
from maskedbandits.service.tokens import ForgedToken, Token

pytest_plugins = ["service_fixtures", "store_fixtures"]

PLAIN, FIRST_ID = bytes(range(32)), bytes.fromhex("c83d080000000000000003")  # in the store of version 2

TOKEN = Token(1, 1, 0, 0, 1, 1, 2_000_000_000, b"0" * 11)
OTHER = "another secret that is long enough, too"


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MASKEDBANDITS_SECRET")
    monkeypatch.chdir(tmp_path)


@given(st.binary(max_size=100), st.binary(max_size=1100))
def test_seal_matches_naive_stream_and_unseals(key: bytes, plain: bytes) -> None:
    sealed = seal(key, plain)
    stream = b"".join(
        hmac.new(key, sealed[:16] + block.to_bytes(4, "big"), hashlib.sha256).digest() for block in range(40)
    )
    assert sealed[16:] == bytes(a ^ b for a, b in zip(plain, stream, strict=False))
    assert unseal(key, sealed) == plain
    assert seal(key, plain) != sealed


def test_key_file_is_created_once_and_private(store: Store, tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        first, path = load_secrets(store), tmp_path / "bandits.db.key"
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_secrets(store).ring.read(first.ring.sign(TOKEN)) == TOKEN
    assert not list(tmp_path.glob(".*"))  # no draft is left


def test_key_file_location_by_backend(any_store: Store, tmp_path: Path) -> None:
    load_secret(any_store)
    assert [path.name for path in tmp_path.glob("*.key")] == [any_store.key_file.name]


def test_machines_share_secret_by_variable(any_url: str, any_store: Store, tmp_path: Path) -> None:
    environment = {"MASKEDBANDITS_SECRET": OTHER}
    with open_store(any_url) as second:
        assert load_secret(any_store, environment) == load_secret(second, environment) == OTHER.encode()
        with pytest.raises(UserError, match="not the secret of"):
            load_secret(second, {"MASKEDBANDITS_SECRET": OTHER[::-1]})
    assert not list(tmp_path.glob("*.key"))


def test_secret_file_can_be_named(store: Store, tmp_path: Path) -> None:
    environment = {"MASKEDBANDITS_SECRET_FILE": str(tmp_path / "credential")}
    (tmp_path / "credential").write_text(f"{OTHER}\n")
    (tmp_path / "credential").chmod(0o600)
    assert load_secret(store, environment) == OTHER.encode()
    assert load_settings({}, {**environment, "MASKEDBANDITS_SECRET": OTHER}) == Settings()  # neither is a setting


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "no such key file, but the store was created with one: restore it"),
        (b"short", "a secret needs at least 32 characters"),
        (b"\xff" * 40, "not a key file"),
        (OTHER.encode(), "not the secret of"),
    ],
)
def test_lost_or_wrong_secret_is_rejected(
    store: Store, storage: str, tmp_path: Path, content: bytes | None, why: str
) -> None:
    old = load_secrets(store).ring.sign(TOKEN)
    path = tmp_path / "bandits.db.key"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(UserError, match=why) as caught:
        prepare_store(Settings(storage=storage))
    assert "\n" not in str(caught.value)
    if content in (None, OTHER.encode()):
        call("key", "rotate", "--keep", "0", "--storage", storage)  # to go on without it
        with pytest.raises(ForgedToken):
            load_secrets(store).ring.read(old)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o602])
def test_key_file_open_to_others_is_rejected(store: Store, storage: str, tmp_path: Path, mode: int) -> None:
    load_secrets(store)
    path = tmp_path / "bandits.db.key"
    path.chmod(mode)
    refused(call("key", "rotate", "--storage", storage), f"(mode {mode:04o}): run chmod 600 {path}")
    path.chmod(0o600)
    assert load_secrets(store)


@pytest.mark.parametrize("why", ["writable by nobody", "of another owner", "mounted read-only"])
def test_mounted_secret_is_accepted_with_warning(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], why: str
) -> None:
    environment, path = {"MASKEDBANDITS_SECRET_FILE": str(tmp_path / "credential")}, tmp_path / "credential"
    path.write_text(OTHER)
    path.chmod(0o444 if why == "writable by nobody" else 0o644)
    if why == "of another owner":
        monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    if why == "mounted read-only":
        found = list(os.statvfs(path))
        found[8] |= os.ST_RDONLY  # f_flag
        monkeypatch.setattr(os, "fstatvfs", lambda handle: os.statvfs_result(found))
    for _ in range(2):  # it is said once
        assert load_secret(store, environment) == OTHER.encode()
    assert capsys.readouterr().err.count("key file is open to others") == 1


def test_unwritable_key_file_is_reported(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASKEDBANDITS_SECRET_FILE", "/nowhere/at/all.key")
    refused(call("key", "rotate", "--storage", storage), "all.key")


def test_restored_store_needs_original_key_file(store: Store, tmp_path: Path) -> None:
    old = load_secrets(store).ring.sign(TOKEN)
    backup(store, tmp_path / "saved")
    restore(tmp_path / "saved", "sqlite:///restored.db")
    with open_store("sqlite:///restored.db") as restored:
        with pytest.raises(UserError, match=r"restored\.db\.key"):
            load_secrets(restored)
        shutil.copy(tmp_path / "bandits.db.key", tmp_path / "restored.db.key")
        assert load_secrets(restored).ring.read(old) == TOKEN


def test_upgrade_from_version_2_keeps_tokens_valid(any_url: str) -> None:
    """That version stored secrets, ids that begin with a minute, and minutes of expiry."""
    build_older(any_url, 2)
    with open_store(any_url, any_version=True) as store:
        assert upgrade_store(store) == (2, 4)
    with open_store(any_url) as store:
        secrets = load_secrets(store)
        assert signing_keys(secrets.ring) == {0: PLAIN}
        assert store.list_signing_keys()[0][1] != PLAIN
        expected = hmac.new(secrets.decision, FIRST_ID, hashlib.sha256).digest()[:11]
        assert store.append([report(decision=expected)]) == [DUPLICATE]
        with read_tables(store) as tx:
            assert sorted(tx.query("SELECT seq, expires FROM report_id WHERE experiment = 1"))[:2] == [
                *((5, 29_901_480), (6, 29_901_540)),
            ]
            assert tx.query("SELECT expires, count FROM issued ORDER BY expires") == [(29_901_480, 9), (29_901_540, 5)]
            assert not tx.query("SELECT * FROM visitor")
        assert store.read_meta("visitor_secret") is None
        assert upgrade_store(store) == (4, 4)
