"""Counts of pending reports match a naive twin."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.service.clock import Clock
from maskedbandits.service.experiment import LiveExperiment
from maskedbandits.service.pending import GROUP_STEPS, STEPS, PendingReports, round_expiry
from naive.service_pending import Slips, ends_in

times = st.integers(0, 2_000_000)
lives = st.integers(1, 2_000_000)


@given(times, lives)
def test_expiry_matches_twin(issued: int, life: int) -> None:
    assert round_expiry(issued + life, life) == ends_in(issued, issued + life)


@given(st.integers(0, 1 << 33), st.integers(1, 366 * 86_400))
def test_counters_are_few_and_never_early(issued: int, life: int) -> None:
    found = round_expiry(issued + life, life)
    assert found * 60 >= issued + life
    assert found * 60 < issued + life + max(3600, life / STEPS)
    assert found % 60 == 0  # whole hours alone


steps = st.lists(
    st.tuples(
        st.sampled_from(["issue", "report", "elsewhere", "hear", "tell", "forget", "recount", "wait"]),
        st.integers(0, 2),
        lives,
        st.integers(0, 50),
    ),
    max_size=60,
)


@given(steps)
def test_open_counts_match_twin(
    done: list[tuple[str, int, int, int]],
) -> None:
    """Through any flush, merge or forgetting; slots of groups are far apart."""
    pending, slips, now = PendingReports(), Slips(), 0
    elsewhere: dict[tuple[int, int], int] = {}
    for what, arm, life, which in done:
        waiting = [slip for slip in slips.slips if not slip[3]]
        minute = round_expiry(now + life, life)
        if what == "wait":
            now += life // 4
        elif what == "report" and waiting:
            slip = waiting[which % len(waiting)]
            slip[3] = 1
            pending.report(slip[0], ends_in(slip[1], slip[2]))
        elif what in ("issue", "elsewhere"):
            slips.issue(arm, now, now + life)
            if what == "issue":
                pending.issue(arm, minute)
            else:
                elsewhere[arm, minute] = elsewhere.get((arm, minute), 0) + 1
        elif what == "tell":
            pending.take_unflushed()
        elif what == "forget":
            pending.forget(now // 60)
        elif what == "recount":
            pending.forget_reports()
            for slip in slips.slips:
                if slip[3]:
                    pending.report(slip[0], ends_in(slip[1], slip[2]))
        if what in ("hear", "elsewhere"):
            since = minute if what == "elsewhere" else now // 60
            rows = [(arm, "other", ends, count) for (arm, ends), count in elsewhere.items() if ends >= since]
            pending.merge_remote(rows, since)
        assert pending.count_open(3, now // 60).tolist() == slips.open(3, now // 60)


@given(st.integers(10**6, 1 << 33), lives, st.integers(0, 120))
def test_recent_expiry_covers_recent_decisions(now: int, life: int, ago: int) -> None:
    live = SimpleNamespace(clock=Clock(lambda: now), config=SimpleNamespace(expires_after=life))
    for steps_of_life in (STEPS, GROUP_STEPS):
        assert round_expiry(now - ago + life, life, steps_of_life) >= LiveExperiment.recent_expiry(live)  # type: ignore[arg-type]


def test_many_distant_slots_fit() -> None:
    pending = PendingReports()
    slots = [policy * 65_536 + arm for policy in range(40) for arm in (0, 9)]
    pending.report(slots[3], 7)
    pending.merge_remote([(slots[5], "other", 7, 4), (slots[5], "another", 7, 2)])
    pending.issue_all(slots, 7)
    pending.issue_all(slots[:2], 8, 3)
    known, open_slots = pending.count_by_slot(6)
    expected = dict.fromkeys(slots, 1) | {slots[0]: 4, slots[1]: 4, slots[3]: 0, slots[5]: 7}
    assert dict(zip(known.tolist(), open_slots.tolist(), strict=True)) == expected
    known, open_slots = pending.count_by_slot(7)
    assert {slot: count for slot, count in zip(known.tolist(), open_slots.tolist(), strict=True) if count} == {
        slots[0]: 3,
        slots[1]: 3,
    }


def test_only_changes_are_flushed_and_retried() -> None:
    pending = PendingReports()
    pending.issue(0, 100)
    pending.issue(0, 100)
    pending.issue(1, 101)
    rows = pending.take_unflushed()
    assert rows == [(0, 100, 2), (1, 101, 1)]
    assert pending.take_unflushed() == []
    pending.restore_unflushed(rows)
    pending.issue(0, 100)
    assert pending.take_unflushed() == [(0, 100, 3), (1, 101, 1)]


def test_unflushed_counts_are_known() -> None:
    pending = PendingReports()
    for arm, minute in ((0, 100), (0, 100), (7, 101)):
        pending.issue(arm, minute)
    assert pending.count_unflushed() == {0: 2, 7: 1}
    pending.restore_unflushed(pending.take_unflushed())
    assert pending.count_unflushed() == {0: 2, 7: 1}
    pending.mark_flushed(pending.take_unflushed())
    assert pending.count_unflushed() == {}
    for arm in range(20):  # more than there was room for
        pending.issue(arm, 101)
    pending.issue(0, 100, -1)
    assert pending.count_unflushed() == dict.fromkeys(range(1, 20), 1)  # of arm 0 one came, and one was taken back
    pending.mark_flushed(pending.take_unflushed())
    pending.forget(102)
    assert pending.count_unflushed() == {}


def test_cancelled_decision_is_not_pending() -> None:
    pending = PendingReports()
    pending.issue(0, 100)
    pending.issue(0, 100, -1)
    assert pending.count_open(1, 0).tolist() == [0]
    assert pending.take_unflushed() == [(0, 100, 0)]


def test_expired_counts_are_dropped_after_flush() -> None:
    pending = PendingReports()
    pending.issue(0, 100)
    pending.report(0, 100)
    pending.forget(200)
    assert pending.take_unflushed() == [(0, 100, 1)]
    pending.forget(200)
    assert not pending.issued
    assert not pending.reported
