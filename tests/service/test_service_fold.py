import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maskedbandits import fingerprint
from maskedbandits.errors import UserError
from maskedbandits.fingerprint import Origin
from maskedbandits.policies import KINDS, make_policy, names
from maskedbandits.service import state
from maskedbandits.service.state import HEAD, Fold, mask_of, offered, why_refused
from maskedbandits.service.storage.models import EventRow

ONE = 1_000_000


def created(arms: int = 3, policy: str = "klucb-cf", epsilon: float = 1.0, **parameters: Any) -> EventRow:
    config = {"epsilon": epsilon, "policy": policy, "parameters": parameters}
    detail = json.dumps({"config": config, "arms": [f"arm {place}" for place in range(arms)]})
    return EventRow(1, "create", None, None, None, None, None, None, 0, detail)


def report(seq: int, arm: int, bit: int, epsilon: int = ONE) -> EventRow:
    return EventRow(seq, "report", arm, bit, epsilon, 65_536, 0, None, 0, None)


def changed(seq: int, kind: str, arm: int | None = None) -> EventRow:
    return EventRow(seq, kind, arm, None, None, None, None, None, 0, "{}")


def one_by_one(log: list[EventRow], policy: Any) -> str:
    """The state of a log, taken in by the library's policy event after event."""
    for event in log:
        if event.kind == "report":
            assert event.arm is not None
            assert event.bit is not None
            assert event.epsilon is not None
            policy.observe(event.arm, event.bit, mask_of(event.epsilon))
        elif event.kind == "arm":
            policy.add_arm()
        elif event.kind == "retire":
            policy.retire(event.arm)
    return str(policy.fold_digest())


steps = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1), st.sampled_from([ONE, ONE, ONE, 500_000])), min_size=1, max_size=60
)


@settings(max_examples=20)
@given(steps, st.lists(st.integers(1, 20), max_size=20), st.sampled_from(["klucb-cf", "auto"]))
def test_a_state_depends_on_the_log_alone_and_not_on_how_it_is_cut(
    reports: list[tuple[int, int, int]], cuts: list[int], policy: str
) -> None:
    log = [created(policy=policy), *(report(seq, *each) for seq, each in enumerate(reports, 2))]
    whole, cut = Fold(), Fold()
    whole.take(log)
    rest = log
    for size in [*cuts, len(log)]:
        cut.take(rest[:size])
        if cut.seq > 0:
            cut.policy.choose()  # which no state depends on
        rest = rest[size:]
    fresh = make_policy(policy, arms=3, corruption=mask_of(ONE))
    assert whole.state() == cut.state() == (len(log), one_by_one(log, fresh))


def test_an_experiment_may_allow_for_lies() -> None:
    log = [created(policy="auto", contamination=0.01), *(report(seq, seq % 3, seq % 2) for seq in range(2, 60))]
    log += [changed(60, "arm"), *(report(seq, seq % 4, seq % 2) for seq in range(61, 90))]
    fold = Fold()
    fold.take(log)
    fresh = make_policy("auto", arms=3, corruption=mask_of(ONE), contamination=0.01)
    assert fold.state() == (89, one_by_one(log, fresh))
    assert fold.policy.contamination == 0.01


def test_arms_come_and_go() -> None:
    log = [created(), report(2, 0, 1), changed(3, "arm"), report(4, 3, 1), changed(5, "retire", 1), report(6, 3, 0)]
    log += [changed(7, "config"), changed(8, "status")]
    fold = Fold()
    fold.take(log)
    assert fold.policy.arms == 4
    assert fold.policy.retired.tolist() == [False, True, False, False]
    assert fold.state() == (8, one_by_one(log, make_policy("klucb-cf", arms=3, corruption=mask_of(ONE))))


def test_a_gap_in_the_log_is_found() -> None:
    fold = Fold()
    fold.take([created(), report(2, 0, 1)])
    with pytest.raises(UserError, match="after event 2 comes 4"):
        fold.take([report(4, 0, 1)])
    with pytest.raises(UserError, match="after event 3 comes 5"):
        fold.take([report(3, 0, 1), report(5, 0, 1)])


def test_an_empty_log_has_no_state() -> None:
    with pytest.raises(UserError, match="the log is empty"):
        Fold().state()


@pytest.mark.parametrize("policy", ["klucb-cf", "auto"])
def test_a_snapshot_goes_on_as_the_state_would(policy: str) -> None:
    generator = np.random.default_rng(4)
    log = [created(policy=policy, epsilon=2.0)]
    log += [report(seq, int(generator.integers(3)), int(generator.integers(2)), 2 * ONE) for seq in range(2, 200)]
    fold = Fold()
    fold.take(log[:100])
    fold.policy.choose(5)  # decisions that are open are no part of it
    seq, body, digest = fold.snapshot()
    again = Fold.from_snapshot(body, seq, digest)
    assert again.policy.pending.sum() == 0
    fold.take(log[100:])
    again.take(log[100:])
    assert again.state() == fold.state()
    assert again.reported.tolist() == fold.reported.tolist() == [sum(e.arm == arm for e in log) for arm in range(3)]


def test_a_snapshot_that_is_not_what_it_says_is_refused() -> None:
    fold = Fold()
    fold.take([created(), report(2, 0, 1)])
    seq, body, digest = fold.snapshot()
    with pytest.raises(UserError, match="damaged"):
        Fold.from_snapshot(body, seq, "0" * 64)
    with pytest.raises(UserError):
        Fold.from_snapshot(body[:-20], seq, digest)
    with pytest.raises(UserError, match="another version"):
        Fold.from_snapshot(body[1:], seq, digest)


def test_reports_are_counted_also_of_arms_that_came_and_went() -> None:
    fold = Fold()
    fold.take([created(), report(2, 0, 1), changed(3, "arm", 3), report(4, 3, 0, 500_000), changed(5, "retire", 0)])
    fold.take([report(6, 0, 1), report(7, 3, 1)])
    assert fold.reported.tolist() == [2, 0, 0, 2]


@pytest.mark.parametrize("count", [b"\0", b"\2"])
def test_a_snapshot_whose_counts_were_changed_is_refused(count: bytes) -> None:
    fold = Fold()
    fold.take([created(), report(2, 0, 1)])
    seq, body, digest = fold.snapshot()
    assert Fold.from_snapshot(body, seq, digest).reported.tolist() == [1, 0, 0]
    with pytest.raises(UserError, match="damaged"):
        Fold.from_snapshot(body[: HEAD.size] + count + body[HEAD.size + 1 :], seq, digest)


def test_masks_are_those_of_the_devices_words() -> None:
    mask = mask_of(ONE)
    assert mask.p00 == mask.p11 == pytest.approx(np.e / (1 + np.e), abs=1e-15)


def test_offered_are_auto_and_all_memories_and_detectors_with_all_indices() -> None:
    before = ("", "sw-", "d-", "glr-", "cusum-", "ph-", "m-")
    expected = {"auto", *(f"{memory}{index}-cf" for memory in before for index in ("klucb", "ucb", "ts"))}
    assert set(offered()) == expected
    for name in set(names()) - expected:
        assert why_refused(name)
        assert "\n" not in why_refused(name)


def test_another_policy_of_your_own_has_other_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one of which it cannot be known has none that another process would use."""
    before = state.kernel()
    assert state.kernel() == before
    for number, origin in enumerate((Origin("1"), Origin("2"), Origin("3", "it was defined at a prompt"))):
        kind = replace(KINDS["auto"], summary=str(number))
        kind.__dict__["is_own"] = True
        monkeypatch.setattr(type(kind), "origin", origin)
        monkeypatch.setitem(KINDS, "own", kind)
        assert state.kernel() != before
        before = state.kernel()
    assert before == state.UNKNOWN


def test_without_sources_no_snapshot_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "package_key", lambda use: "")
    assert state.kernel() == state.UNKNOWN
