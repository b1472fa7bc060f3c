"""Failures of a ledger's file: one error, nothing spent, and no report."""

import os
import shutil
import stat
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import ledger_children as children
import pytest
from ledgers import DAMAGES, change, content, refused, used

from helpers.private import connection_of
from maskedbandits.privacy.ledger import Ledger, LedgerError, storage

pytest_plugins = ["ledger_fixtures"]

# What can go wrong with a file


def test_full_disk_spends_nothing(file: Path) -> None:
    sent, end = children.call(children.fill_the_disk, str(file), 64 * 1024)
    assert end == 0
    paid, error, reports = sent
    assert 50 < paid == reports < 2000
    assert "so no report is made" in error
    assert "\n" not in error
    with Ledger(10**6, file) as ledger:
        assert ledger.spent == paid
        ledger.reserve("more", 1)
        assert ledger.report("more", 1).bit in (0, 1)


def test_full_database_is_reported_as_full_disk(file: Path) -> None:
    used(file)
    before = content(file)
    with Ledger(1000, file) as ledger:
        connection_of(ledger).execute("PRAGMA max_page_count = 1")  # that is: no more than there are
        with refused("the disk is full", "make room"):
            for decision in range(200):
                ledger.reserve(f"{decision:0>200}", 0)
        reports = ledger.reports
        assert reports > 0
        spent = ledger.spent
        ledger.report("decision number 1", 1)  # needs no room
    assert (content(file)[1], spent) == (before[1], before[1])


def test_flipped_byte_is_refused_or_harmless(file: Path) -> None:
    used(file)
    whole, before = file.read_bytes(), content(file)
    noticed = 0
    indices = [*range(100), *range(100, len(whole), 97)]
    for index in indices:
        damaged = bytearray(whole)
        damaged[index] ^= 1 << index % 8
        file.write_bytes(damaged)
        try:
            found = content(file)
        except LedgerError:
            noticed += 1
        else:
            assert found == before, index
    assert noticed > 100


def test_undecodable_text_is_refused(file: Path) -> None:
    whole = used(file).read_bytes()
    for before, after in (
        (b"CREATE TABLE dec", b"CREATE \x8cABLE dec"),
        (b"decision number 77", b"decision number \xff7"),
    ):
        assert before in whole
        file.write_bytes(whole.replace(before, after))
        with refused("damaged, or not a ledger"):
            Ledger(1000, file)


def test_truncated_file_is_refused(file: Path) -> None:
    used(file)
    whole = file.read_bytes()
    for length in [0, 1, 50, 99, 100, 4095, 4096, 4097, *range(5000, len(whole), 1500), len(whole) - 1]:
        file.write_bytes(whole[:length])
        with refused("damaged, or not a ledger", "no report is made", str(file)):
            Ledger(1000, file)


@pytest.mark.parametrize("statement", DAMAGES.values(), ids=DAMAGES)
def test_changed_file_is_refused(file: Path, statement: str) -> None:
    change(used(file), statement)
    with refused("damaged, or not a ledger", "no report is made", str(file)):
        Ledger(1000, file)


def test_forged_entries_are_refused(file: Path) -> None:
    for epsilon, reports in (("-1/2", 1), ("17", 1), ("much", 1), ("1/2", -1), ("1/2", 0)):
        with Ledger(1000, file):
            pass
        row = (0, epsilon, reports)
        change(file, "INSERT INTO spending VALUES (?, ?, ?, ?)", *row, storage.compute_checksum(*row))
        if reports == 1:
            seal = storage.compute_checksum("a", epsilon, None)
            change(file, "INSERT INTO decisions VALUES (?, ?, ?, ?)", "a", epsilon, None, seal)
        with refused("damaged, or not a ledger"):
            Ledger(1000, file)
        file.unlink()


def test_forged_terms_are_refused(file: Path) -> None:
    used(file)
    for terms in (
        ("much", "0.0", 0, 200),
        ("1000", "2", 0, 200),
        ("1000", "0.0", -1, 200),
        ("1000", "0.0", "month", 200),
        ("1000", "0.0", 0, "many"),
    ):
        change(file, "DELETE FROM terms")
        change(file, "INSERT INTO terms VALUES (?, ?, ?, ?, ?)", *terms, storage.compute_checksum(*terms))
        with refused("damaged, or not a ledger"):
            Ledger(1000, file)


UNDONE: dict[str, Callable[[Ledger], object]] = {
    "reserve": lambda ledger: ledger.reserve("b", 0.5),
    "report": lambda ledger: ledger.report("a", 1),
    "both": lambda ledger: (UNDONE["reserve"](ledger), UNDONE["report"](ledger)),
}


@pytest.mark.parametrize("work", UNDONE.values(), ids=UNDONE)
def test_older_copy_is_refused_while_in_use(work: Callable[[Ledger], object], file: Path) -> None:
    older, newest = file.with_name("older"), file.with_name("newest")
    with Ledger(1, file) as ledger:
        ledger.reserve("a", 0)
        shutil.copyfile(file, older)
        work(ledger)
        shutil.copyfile(file, newest)
        shutil.copyfile(older, file)
        for use in (
            lambda: ledger.report("a", 1),
            lambda: ledger.recall("a"),
            lambda: ledger.reserve("c", 0.5),
            lambda: ledger.spent,
        ):
            for _ in range(2):  # it is not forgotten
                with refused("an older copy was restored", "no report is made", "restore the newest copy"):
                    use()
        shutil.copyfile(newest, file)
        assert ledger.spent == Fraction(work is not UNDONE["report"], 2)


def test_undone_write_of_another_process_is_seen(file: Path) -> None:
    with Ledger(1, file) as ledger, Ledger(1, file) as other:
        older = file.read_bytes()
        other.reserve("a", 0.5)
        assert ledger.spent == Fraction(1, 2)  # seen by reading, not written
        file.write_bytes(older)
        with refused("an older copy was restored"):
            ledger.reserve("a", 0.5)


@pytest.mark.parametrize("damage", ["nothing spent", "a missing decision"])
def test_rows_deleted_while_in_use_are_seen(damage: str, file: Path) -> None:
    with Ledger(1000, used(file)) as ledger:
        change(file, DAMAGES[damage])
        for use in (
            lambda: ledger.reserve("another", 0.5),
            lambda: ledger.spent,
            lambda: ledger.reports,
        ):
            with refused("damaged, or not a ledger"):
                use()
        if damage == "a missing decision":  # it would be drawn twice
            with refused("damaged, or not a ledger"):
                ledger.reserve("decision number 1", 0.5)


def test_damage_while_in_use_is_reported(file: Path) -> None:
    used(file)
    with Ledger(1000, file) as ledger:
        change(file, DAMAGES["a bit"])
        with refused("damaged, or not a ledger"):
            ledger.report("decision number 1", 1)
        change(file, DAMAGES["fewer reports"])
        with refused("damaged, or not a ledger"):
            ledger.reserve("another", 1)
        change(file, DAMAGES["no table"])
        with refused("no such table", "so no report is made"):
            ledger.report("decision number 2", 1)


def test_other_format_is_refused(file: Path) -> None:
    change(used(file), "PRAGMA user_version = 3")
    with refused("format 3 instead of 2", "use the version that wrote it"):
        Ledger(1000, file)


def test_text_file_is_refused(file: Path) -> None:
    file.write_text("decision,epsilon,bit\n" * 100)
    with refused("damaged, or not a ledger"):
        Ledger(1, file)


def test_missing_or_blocking_folder_is_refused(folder: Path) -> None:
    with refused("No such file or directory", "check the path"):
        Ledger(1, folder / "missing" / "ledger")
    with refused("cannot be opened"):
        Ledger(1, folder)
    assert not list(folder.iterdir())


def test_read_only_file_makes_no_report(folder: Path, file: Path) -> None:
    with Ledger(1, file) as ledger:
        ledger.reserve("a", 0.5)
    file.chmod(0o444)
    folder.chmod(0o555)
    sent, end = children.call(children.as_nobody, str(file))
    folder.chmod(0o755)
    errors, spent, drawn = sent
    assert end == 0
    assert (spent, drawn) == (Fraction(1, 2), None)
    assert len(errors) == 2
    assert all("read-only, so no report is made" in error for error in errors)


def test_file_replaced_while_in_use_is_refused(file: Path) -> None:
    with Ledger(1, file) as ledger:
        ledger.reserve("a", 0.5)
        file.rename(file.with_name("elsewhere"))
        with refused("No such file", "no report is made"):
            ledger.report("a", 1)
        with Ledger(1, file) as other, refused("replaced while in use"):
            assert other.spent == 0
            ledger.report("a", 1)


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_new_file_is_private(file: Path) -> None:
    before = os.umask(0)
    try:
        with Ledger(1, file):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_memory_name_is_an_ordinary_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name in (":memory:", "what? 50 % #1"):
        with Ledger(1, name) as ledger:
            ledger.reserve("a", 0.5)
        with Ledger(1, name) as ledger:
            assert ledger.spent == Fraction(1, 2)
        assert (folder / name).exists()


def test_file_has_durable_settings(file: Path) -> None:
    with Ledger(1, file) as ledger:
        pragmas = {
            name: connection_of(ledger).execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode", "secure_delete")
        }
    assert pragmas == {"synchronous": 3, "journal_mode": "delete", "secure_delete": 1}
