from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.service.pending import STEPS, WRAP, Pending, expiry_minute
from naive.pending import Slips, ends_in

times = st.integers(0, 200_000)
lives = st.integers(1, 200_000)


@given(times, lives)
def test_the_minute_of_expiry_is_that_of_the_twin(issued: int, life: int) -> None:
    assert expiry_minute(issued // 60, issued + life) == ends_in(issued, issued + life)


@given(st.integers(0, 1 << 33), st.integers(1, 366 * 86_400))
def test_a_token_tells_its_minute_modulo_2_to_the_24_and_all_agree(issued: int, life: int) -> None:
    minute = issued // 60
    assert expiry_minute(minute % WRAP, issued + life) == expiry_minute(minute, issued + life)


@given(st.integers(0, 1 << 33), st.integers(1, 366 * 86_400))
def test_counters_are_few_and_nothing_expires_early(issued: int, life: int) -> None:
    found = expiry_minute(issued // 60, issued + life)
    assert found * 60 >= issued + life
    assert found * 60 < issued + life + 60 + max(60, life / STEPS + 60)


steps = st.lists(
    st.tuples(st.sampled_from(["issue", "report", "elsewhere"]), st.integers(0, 2), times, lives, st.integers(0, 50)),
    max_size=40,
)


@given(steps, st.integers(0, 8000))
def test_what_is_open_is_what_was_issued_anywhere_and_neither_reported_nor_expired(
    done: list[tuple[str, int, int, int, int]], minute: int
) -> None:
    pending, slips = Pending(), Slips()
    elsewhere: dict[tuple[int, int], int] = {}
    for what, arm, issued, life, which in done:
        expires = issued + life
        ends = expiry_minute(issued // 60, expires)
        if what == "report":
            waiting = [place for place, slip in enumerate(slips.slips) if not slip[3]]
            if waiting:
                place = waiting[which % len(waiting)]
                slips.report(place)
                pending.report(slips.slips[place][0], ends_in(slips.slips[place][1], slips.slips[place][2]))
            continue
        slips.issue(arm, issued, expires)
        if what == "issue":
            pending.issue(arm, ends)
        else:
            elsewhere[arm, ends] = elsewhere.get((arm, ends), 0) + 1
    rows = [(arm, "other", ends, count) for (arm, ends), count in elsewhere.items()]
    pending.hear([*rows, (0, "me", 10**6, 5)], "me")  # what the store knows of ourselves we know better
    assert pending.open(3, minute) == slips.open(3, minute)


def test_the_store_is_told_of_changes_alone_and_again_if_that_failed() -> None:
    pending = Pending()
    pending.issue(0, 100)
    pending.issue(0, 100)
    pending.issue(1, 101)
    rows = pending.to_tell()
    assert rows == [(0, 100, 2), (1, 101, 1)]
    assert pending.to_tell() == []
    pending.not_told(rows)
    pending.issue(0, 100)
    assert pending.to_tell() == [(0, 100, 3), (1, 101, 1)]


def test_a_decision_that_is_taken_back_awaits_nothing() -> None:
    pending = Pending()
    pending.issue(0, 100)
    pending.issue(0, 100, -1)
    assert pending.open(1, 0) == [0]
    assert pending.to_tell() == [(0, 100, 0)]


def test_what_has_expired_is_forgotten_once_the_store_knows_it() -> None:
    pending = Pending()
    pending.issue(0, 100)
    pending.report(0, 100)
    pending.forget(200)
    assert pending.to_tell() == [(0, 100, 1)]
    pending.forget(200)
    assert not pending.issued
    assert not pending.reported
