"""Contextual policies in a process that forks: no child hangs, and all ask questions of their own."""

import copy
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from forking import PATIENCE, forked, forks, receive, warned
from maskedbandits import make_contextual
from maskedbandits.contextual.policy import Contextual

pytestmark = [forks, warned, pytest.mark.plain]


@pytest.fixture(autouse=True)
def hasty() -> Iterator[None]:
    """Threads take turns a thousand times as often as they usually do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def made(name: str = "klucb-cf", **others: Any) -> Contextual:
    receive: dict[str, Any] = {"groups": 16, "arms": 3, "epsilon": 1, "seed": 5, "pool": False, **others}
    return make_contextual(name, **receive)


def ask_and_sign(policy: Contextual) -> bytes:
    questions = [policy.ask() for _ in range(4)]
    return repr([(question.table, question.signs) for question in questions]).encode()


@pytest.mark.parametrize("kind", ["bit", "one of many"])
def test_fork_asks_different_questions(kind: str) -> None:
    """With klucb-cf only signs differ, and with answers of one of many only what policies draw."""
    policy = made("klucb-cf" if kind == "bit" else "ts-cf", answers=kind)
    policy.ask()
    with forked(lambda: ask_and_sign(policy)) as one, forked(lambda: ask_and_sign(policy)) as other:
        seen = [receive(one), receive(other), ask_and_sign(policy)]
    assert all(each.startswith(b"[(") for each in seen)
    assert len(set(seen)) == 3


def test_parent_is_unaffected_by_fork() -> None:
    one, other = made("ts-cf"), made("ts-cf")
    expected = ask_and_sign(one)
    with forked(lambda: b"done") as reading:
        assert receive(reading) == b"done"
    assert ask_and_sign(other) == expected


def learn(policy: Contextual) -> None:
    policy.observe(policy.ask(), 1)


def change_arms(policy: Contextual) -> None:
    if policy.arms < 40:
        policy.retire(policy.add_arm())
    policy.fold_digest()


def look(policy: Contextual) -> None:
    policy.estimates(), policy.shares(), policy.pooled


@pytest.mark.parametrize("work", [learn, look, change_arms, copy.copy], ids=["learn", "look", "change arms", "copy"])
def test_fork_during_questions_does_not_hang(work: Callable[[Contextual], object]) -> None:
    """Neither a child, who has none of the threads that hold locks, nor a parent whose threads wait for each other."""
    policy = made(groups=4, pool=True)
    ended = threading.Event()

    def keep_working() -> None:
        while not ended.is_set():
            work(policy)

    def fork_on() -> None:
        for _ in range(3):
            with forked(lambda: b"%d" % len(policy.ask().table)) as reading:
                answers.append(receive(reading))

    answers: list[bytes] = []
    workers = [threading.Thread(target=keep_working, daemon=True) for _ in range(2)]
    forkers = [threading.Thread(target=fork_on, daemon=True) for _ in range(2)]
    try:
        for thread in (*workers, *forkers):
            thread.start()
        for thread in forkers:
            thread.join(PATIENCE)
            assert not thread.is_alive()
    finally:
        ended.set()
        for thread in workers:
            thread.join(PATIENCE)
            assert not thread.is_alive()
    assert answers == [b"4"] * 6
