"""Policies that are shared: between threads, tasks, and processes that were forked."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from forking import PATIENCE, forked, forks, receive, warned
from helpers.private import lock_of, replace_lock
from maskedbandits import Policy, RandomizedResponse, load_policy, make_policy
from specimens import RR, specimen
from trials import INTERPRETED

THREADS, STEPS = 8, 100 if INTERPRETED else 2000
OTHER = RandomizedResponse(0.8, 0.9)


@pytest.fixture(autouse=True)
def hasty() -> Iterator[None]:
    """Threads take turns a thousand times as often as they usually do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def play(policy: Policy, seed: int, steps: int = STEPS, *, own: bool = False) -> None:
    bits = np.random.default_rng(seed).integers(0, 2, steps)
    for step, bit in enumerate(bits.tolist()):
        corruption = OTHER if own and step > steps // 10 and step % 3 == seed % 3 else None
        policy.observe(policy.choose(), bit, corruption)


def together(work: Callable[[int], None]) -> None:
    """Do it in several threads, and raise what was raised in them."""
    raised: list[BaseException] = []

    def run(seed: int) -> None:
        try:
            work(seed)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised, raised


def is_sound(policy: Policy, path: Path) -> None:
    """Nothing got lost, and nothing contradicts anything: loading checks it."""
    assert policy.observations == THREADS * STEPS
    policy.save(path)
    copy = load_policy(path, exact=True)
    assert np.array_equal(copy.indices(), policy.indices())


@pytest.mark.parametrize("name", ["sw-klucb-cf", "auto", "glr-ts-cf"])
def test_threads_share_policy(name: str, tmp_path: Path) -> None:
    policy = specimen(name)
    together(lambda seed: play(policy, seed))
    is_sound(policy, tmp_path / "policy")


def test_threads_share_policy_with_masked_reports(tmp_path: Path) -> None:
    policy = specimen("sw-klucb-cf")
    together(lambda seed: play(policy, seed, own=True))
    is_sound(policy, tmp_path / "policy")


def test_report_waits_for_first_masked_report(tmp_path: Path) -> None:
    """Whether reports have corruptions of their own is looked at when it is a report's turn, not before."""
    policy = specimen("sw-klucb-cf")
    play(policy, 0, 20)
    lock = lock_of(policy)

    class Busy:
        """A lock that another thread gets first."""

        def __enter__(self) -> None:
            replace_lock(policy, lock)
            policy.observe(0, 1, OTHER)
            lock.acquire()

        def __exit__(self, *error: object) -> None:
            lock.release()

    replace_lock(policy, Busy())
    policy.observe(1, 1)
    assert policy.observations == 22
    policy.save(tmp_path / "policy")
    state = load_policy(tmp_path / "policy").snapshot()
    assert state.mask_numbers.sum() == 22


def test_threads_save_while_others_play(tmp_path: Path) -> None:
    """Every file is whole, and what is in it is a moment of the play."""
    policy = specimen("sw-klucb-cf")
    path = tmp_path / "policy"

    def work(seed: int) -> None:
        if seed >= 2:
            play(policy, seed, STEPS // 5)
            return
        for _ in range(20):
            policy.save(path)

    together(work)
    assert load_policy(path).observations <= policy.observations
    assert [entry.name for entry in tmp_path.iterdir()] == ["policy"]


def test_tasks_share_policy(tmp_path: Path) -> None:
    policy = specimen("sw-klucb-cf")

    async def main() -> None:
        await asyncio.gather(*(asyncio.to_thread(play, policy, seed) for seed in range(THREADS)))

    asyncio.run(main())
    is_sound(policy, tmp_path / "policy")


def drawn(policy: Policy) -> bytes:
    return b" ".join(b"%d" % policy.choose() for _ in range(40))


@forks
@warned
def test_fork_draws_different_random_numbers() -> None:
    policy = make_policy("uniform", arms=1000, seed=1)
    policy.choose()  # compiled before the fork, as a server does that loads first
    with forked(lambda: drawn(policy)) as one, forked(lambda: drawn(policy)) as other:
        seen = [receive(one), receive(other), drawn(policy)]
    assert all(len(each.split()) == 40 for each in seen)
    assert len(set(seen)) == 3


@forks
@warned
def test_parent_is_unaffected_by_fork() -> None:
    one, other = (make_policy("uniform", arms=1000, seed=1) for _ in range(2))
    expected = drawn(one)
    with forked(lambda: b"done") as reading:
        assert receive(reading) == b"done"
    assert drawn(other) == expected


@forks
@warned
def test_fork_during_decisions_does_not_hang() -> None:
    """Threads hold a policy's lock nearly all the time, and the child has none of them to let go of it."""
    policies = [specimen("sw-klucb-cf"), make_policy("uniform", arms=1000)]
    for policy in policies:
        play(policy, 0, 1)
    ended = threading.Event()

    def keep_playing(policy: Policy) -> None:
        while not ended.is_set():
            play(policy, 1, 50)

    def fork_on() -> None:
        for _ in range(3):
            with forked(lambda: b"%d" % sum(policy.choose() >= 0 for policy in policies)) as reading:
                answers.append(receive(reading))

    answers: list[bytes] = []
    players = [threading.Thread(target=keep_playing, args=(policy,), daemon=True) for policy in policies]
    forkers = [threading.Thread(target=fork_on, daemon=True) for _ in range(2)]  # nor may forks wait for each other
    try:
        for thread in (*players, *forkers):
            thread.start()
        for thread in forkers:
            thread.join(PATIENCE)
            assert not thread.is_alive()
    finally:
        ended.set()
        for thread in players:
            thread.join(PATIENCE)
    assert answers == [b"2"] * 6


@forks
@warned
def test_policies_can_be_created_during_forks() -> None:
    alive = [make_policy("klucb", arms=1) for _ in range(100)]
    ended = threading.Event()
    raised: list[object] = []

    def keep_building() -> None:
        while not ended.is_set():
            alive.append(make_policy("klucb", arms=1))

    hook, sys.unraisablehook = sys.unraisablehook, lambda error: raised.append(error.exc_value)
    maker = threading.Thread(target=keep_building)
    maker.start()
    try:
        for _ in range(4):
            with forked(lambda: b"here") as reading:
                assert receive(reading) == b"here"
    finally:
        ended.set()
        maker.join()
        sys.unraisablehook = hook
    assert not raised


def test_loaded_copies_draw_differently_unless_exact(tmp_path: Path) -> None:
    policy = make_policy("uniform", arms=1000, corruption=RR, seed=3)
    drawn(policy)
    policy.save(tmp_path / "policy")
    exact = [load_policy(tmp_path / "policy", exact=True) for _ in range(2)]
    fresh = [load_policy(tmp_path / "policy") for _ in range(2)]
    seen = [drawn(each) for each in (policy, *exact, *fresh)]
    assert seen[0] == seen[1] == seen[2]
    assert len(set(seen)) == 3
