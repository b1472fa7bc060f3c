"""One device, eight threads, a real service: no second draw, and the cap is never exceeded."""

import threading
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from device_fakes import Clock, opened, pass_time

from helpers.private import token_of

pytest.importorskip("uvicorn", reason="the service is not installed: pip install 'maskedbandits[service]'")

from running import Running, running

from children import wait_until

pytest_plugins = ["device_fixtures"]

STATE = "/v1/experiments/headline/state"
THREADS, VISITS, CAP = 8, 12, 20
ABOUT = {
    "name": "headline",
    "epsilon": 1,
    "policy": "klucb-cf",
    "report_after": 60,
    "arms": [{"name": "short"}, {"name": "long"}],
}


def at_once(work: Callable[[int], None]) -> None:
    """Run work in all threads from the same moment; raise their errors here."""
    together = threading.Barrier(THREADS)
    wrong: list[BaseException] = []

    def run(index: int) -> None:
        try:
            together.wait(60)
            work(index)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)


class Watched:
    """A device that records every bit it sends, and the results of its threads."""

    def __init__(self, service: Running, folder: Path) -> None:
        self.own = opened(service.address, cap=CAP, path=folder / "ledger", jitter=5)
        self.bits: dict[str, list[int]] = defaultdict(list)
        self.promised: set[str] = set()
        self.counted: list[str] = []  # tokens whose reward counts
        self._lock, self._really_sent = threading.Lock(), self.own._send_report
        self.own._send_report = self._send_report  # type: ignore[method-assign]

    def _send_report(self, token: str, bit: int, epsilon: Fraction, answers: int = 0) -> bool:
        with self._lock:
            self.bits[token].append(bit)
        return self._really_sent(token, bit, epsilon, answers)

    def visit(self, index: int) -> None:
        """Visit often, every second time as a visitor that all threads share."""
        for turn in range(VISITS):
            decision = self.own.decide(visitor=f"of all {turn // 4}" if turn % 2 else None)
            assert decision.arm in ("short", "long"), decision.why
            if decision.participate:
                counts = decision.report((index + turn) % 2)
                with self._lock:
                    self.promised.add(token_of(decision))
                    self.counted += [token_of(decision)] * counts


def test_eight_threads_share_one_device(tmp_path: Path, folder: Path, clock: Clock) -> None:
    with running(f"sqlite:///{tmp_path}/bandits.db") as service:
        service.wait_until_ready()
        assert service.ask("POST", "/v1/experiments", ABOUT)[0] == 201
        watched = Watched(service, folder)
        own = watched.own
        assert own.ledger is not None
        at_once(watched.visit)
        assert (
            own.ledger.spent == own.ledger.reports == len(watched.promised) == CAP
        )  # more was asked for than it allows
        assert len(watched.counted) == len(set(watched.counted)) == CAP  # of each token the first reward
        sent: list[int] = []
        for _ in range(3):
            clock.at += 30
            at_once(lambda index: sent.append(own.send_due()))
        pass_time(own, clock, 1_000)
        assert set(watched.bits) == watched.promised
        assert all(len(set(each)) == 1 for each in watched.bits.values())
        assert own.ledger.spent == CAP
        own.close()
        wait_until(lambda: service.ask("GET", STATE)[1]["seq"] == 1 + CAP, service.process)
        state = service.ask("GET", STATE)[1]
    assert sum(state["reported"]) == CAP
