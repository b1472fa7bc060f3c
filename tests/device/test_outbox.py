"""The device's files: permissions, damage and sharing."""

import contextlib
import logging
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import device_children as children
import pytest
from device_fakes import START, Clock, Service, opened, pass_time, serving

from helpers.boundaries import set_delays, shorten_ledger_waits
from helpers.private import next_due, outbox_of, stop_flag, wake_flag
from maskedbandits.device import outbox, reporter
from maskedbandits.device.outbox import DONE, DRAWN, WAITING, Outbox, PendingReport
from maskedbandits.privacy.ledger import Ledger, LedgerError

pytest_plugins = ["device_fixtures"]
ROW = PendingReport("token-of-some-length", "http://a", WAITING, START + 60, 3.0, START + 600)


def test_files_are_private_to_their_owner(url: str, folder: Path) -> None:
    with opened(url, path=folder / "ledger") as device:
        device.decide().report(1)
        files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert files == {"ledger": 0o600, "ledger.outbox": 0o600}


def test_reward_is_never_stored(url: str, folder: Path) -> None:
    """A reward of 1, of 0 and none leave the same outbox; the ledger has masked bits alone."""
    kinds = []
    for reward in (1.0, 0.0, 0.123456789):
        path = folder / str(reward)
        with opened(url, path=path, jitter=0) as device:
            device.decide().report(reward)
        with contextlib.closing(sqlite3.connect(f"{path}.outbox")) as connection:
            [(_, _, *rest)] = connection.execute("SELECT * FROM reports").fetchall()
        kinds.append(rest)
        assert b"0.123456789" not in path.read_bytes() + Path(f"{path}.outbox").read_bytes()
    assert kinds[0] == kinds[1] == kinds[2] == [WAITING, START + 60, 0.0, START + 86_400, 0, "", "", 0, ""]


def test_row_takes_each_step_once(folder: Path) -> None:
    one, other = Outbox(folder / "outbox"), Outbox(folder / "outbox")
    with contextlib.closing(one), contextlib.closing(other):
        assert one.secret == other.secret
        assert one.next_due("http://a") is None
        assert one.find_ready("http://a", START) == []
        assert one.add(ROW, START)
        assert other.add(ROW._replace(due=0.0), START)  # as it was
        assert other.find_ready("http://a", START + 59.9) == []
        assert other.find_ready("http://a", START + 60) == [ROW]
        drawn = one.move(ROW, DRAWN, START + 63)
        assert drawn == ROW._replace(state=DRAWN, due=START + 63)
        assert other.move(ROW, DRAWN, START + 64) is None
        assert drawn is not None
        assert one.next_due("http://a") == START + 63
        assert one.next_due("http://b") == START + 600 + outbox.FOREIGN_RETENTION_S  # which may only see it off
        done = other.move(drawn, DONE, START + 63)
        assert done is not None
        assert not one.has_token(ROW.token)
        assert not one.add(ROW, START)
        one.drop(done)
        other.drop(done)
        assert one.next_due("http://a") is None


@pytest.mark.parametrize("content", [b"", b"hello", b"x" * 5000])
def test_damaged_outbox_is_refused(content: bytes, folder: Path) -> None:
    path = folder / "outbox"
    path.write_bytes(content)
    if not content:  # made and not laid out yet: a crash at the very first moment
        Outbox(path).close()
        return
    with pytest.raises(LedgerError, match="damaged, or not"):
        Outbox(path)
    assert path.read_bytes() == content


def test_files_of_other_programs_are_refused(folder: Path) -> None:
    Ledger(1, folder / "ledger").close()
    with pytest.raises(LedgerError, match="damaged, or not"):
        Outbox(folder / "ledger")
    Outbox(folder / "outbox").close()
    with contextlib.closing(sqlite3.connect(folder / "outbox")) as connection:
        connection.execute(f"PRAGMA user_version = {outbox.VERSION + 1}")
    with pytest.raises(LedgerError, match="format 5"):
        Outbox(folder / "outbox")


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("which", ["ledger", "ledger.outbox"])
def test_damaged_file_prevents_participation(
    which: str, url: str, service: Service, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / which).write_bytes(b"something else")
    with opened(url, path=folder / "ledger") as device:
        decisions = [device.decide() for _ in range(3)]
        assert device.ledger is None
        assert "does not participate" in repr(device)
    assert [decision.arm for decision in decisions] == ["plain"] * 3
    assert not any(decision.participate or decision.report(1) for decision in decisions)
    assert "damaged" in decisions[0].why
    assert len(said(caplog)) == 1
    assert said(caplog)[0].startswith("this device does not participate: ")


def test_missing_folder_prevents_participation(url: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(url, path=folder / "none" / "ledger") as device:
        assert not device.decide().participate
    assert len(said(caplog)) == 1


def test_read_only_files_prevent_participation(url: str, service: Service, folder: Path) -> None:
    with opened(url, path=folder / "ledger") as device:
        device.decide()
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)  # where nobody may look, and not write
    (shown, messages), code = children.call(children.as_nobody, url, str(folder / "ledger"))
    assert code == 0
    assert shown == [("plain", False, False)] * 3
    assert len(messages) == 1
    assert "read-only" in messages[0]
    assert not service.arrivals


def test_full_disk_only_prevents_participation(url: str, folder: Path) -> None:
    (part, arms, why), code = children.call(children.fill_the_disk, url, str(folder / "ledger"), 24_000)
    assert code == 0
    assert arms == {"plain"}
    assert any(part)
    assert not part[-1]
    assert "no report is made" in why


def test_problem_is_logged_once(
    url: str,
    service: Service,
    clock: Clock,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shorten_ledger_waits(monkeypatch, 0.02)
    path = folder / "ledger"
    with opened(url, path=path) as device, contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        first = device.decide()
        for times in (1, 2):
            other.execute("BEGIN EXCLUSIVE")
            assert [device.decide().participate for _ in range(2)] == [False, False]
            assert not first.report(1)
            clock.at += 100
            device.send_due()
            other.execute("ROLLBACK")
            assert device.decide().participate
            assert len(said(caplog)) == times
        pass_time(device, clock, 1000)
    assert len(service.taken) == 3


@pytest.mark.parametrize("where", ["memory", "file"])
def test_forked_copy_does_not_participate(where: str, url: str, folder: Path) -> None:
    path = None if where == "memory" else str(folder / "ledger")
    (child, parent), code = children.call(children.use_after_fork, url, path)
    assert child[:2] == ("plain", False)
    assert "opened by another process" in child[2]
    assert child[3:] == (False, 0)
    assert parent == (True, True)
    assert code == 0


def test_processes_share_cap_and_outbox(folder: Path) -> None:
    service = Service()
    service.report_after, service.expires_after = 0.1, 3600.0
    with serving(service) as address:
        started = [children.start(children.spend, address, str(folder / "ledger"), 12) for _ in range(3)]
        results = [children.finish(one) for one in started]
    assert [code for _, code in results] == [0, 0, 0]
    assert sum(paid for (paid,), _ in results) == 12
    assert len(service.taken) == len(service.arrivals) == 12  # none sent by two


def test_failed_writes_are_not_retried_at_once(url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def full(*_: object) -> None:
        raise LedgerError("the disk is full")

    def wait(seconds: float) -> None:
        waits.append(seconds)
        stop_flag(device).set()

    with opened(url) as device:
        device.decide()
        clock.at += 61
        monkeypatch.setattr(outbox_of(device), "move", full)
        monkeypatch.setattr(wake_flag(device), "wait", wait)
        device.run()
    assert waits == [60.0]


def test_bit_is_stored_before_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    set_delays(monkeypatch, lambda: 0.0)
    assert [reporter.draw_delay(spread) for spread in (900.0, 30.0, 0.2, 0.0)] == [60.0, 15.0, 0.1, 0.0]
    set_delays(monkeypatch, lambda: 1.0)
    assert [reporter.draw_delay(spread) for spread in (900.0, 30.0, 0.2, 0.0)] == [960.0, 45.0, pytest.approx(0.3), 0.0]


def test_threads_share_a_device(url: str, service: Service, clock: Clock) -> None:
    start = threading.Barrier(6)
    with opened(url, cap=20) as device, ThreadPoolExecutor(6) as pool:

        def work(who: int) -> int:
            start.wait()
            decisions = [device.decide() for _ in range(5)]
            return sum(decision.report(who % 2) for decision in decisions)

        assert sum(pool.map(work, range(6))) == 20
        clock.at += 61
        list(pool.map(lambda _: device.send_due(), range(6)))
        clock.at += 31
        list(pool.map(lambda _: device.send_due(), range(6)))
        pass_time(device, clock, 100)
    assert len(service.taken) == len(service.arrivals) == 20


def test_older_ledger_promises_nothing_twice(url: str, service: Service, clock: Clock, folder: Path) -> None:
    """An outbox whose ledger lacks its rows logs that, and drops them when they expire."""
    with opened(url, path=folder / "ledger") as device:
        device.decide().report(1)
    (folder / "ledger").unlink()
    with opened(url, path=folder / "ledger") as device:
        pass_time(device, clock, 86_400 + 60 * reporter.MAX_RETRY_S)
        assert next_due(device) is None
    assert not service.arrivals
