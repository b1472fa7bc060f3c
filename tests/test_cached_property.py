import os
import signal
import threading

import pytest

from maskedbandits._util.cached_property import lockfree_cached_property


class Shop:
    def __init__(self) -> None:
        self.calls = 0
        self.may_go_on = threading.Event()
        self.begun = threading.Event()

    @lockfree_cached_property
    def goods(self) -> list[str]:
        """All that is on the shelves."""
        self.calls += 1
        return ["tea"]

    @lockfree_cached_property
    def stock(self) -> int:
        self.begun.set()
        self.may_go_on.wait(60)
        return 7


def test_it_is_worked_out_once_for_each_object() -> None:
    one, other = Shop(), Shop()
    assert one.calls == 0
    assert one.goods is one.goods
    assert (one.calls, other.calls) == (1, 0)
    assert other.goods is not one.goods


def test_what_it_is_can_be_read_from_the_class() -> None:
    assert Shop.goods.__doc__ == "All that is on the shelves."


def test_threads_that_ask_at_once_get_the_same() -> None:
    found: list[list[str]] = []
    shop = Shop()
    together = threading.Barrier(8)

    def ask() -> None:
        together.wait()
        found.append(shop.goods)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(goods) for goods in found}) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_of_a_fork_does_not_wait_for_a_lost_thread() -> None:
    """With the lock of Python 3.11's cached_property it would wait for ever; it has a minute."""
    busy, other = Shop(), Shop()
    other.may_go_on.set()
    thread = threading.Thread(target=lambda: busy.stock)
    thread.start()
    assert busy.begun.wait(60)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        os._exit(other.stock)
    busy.may_go_on.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
