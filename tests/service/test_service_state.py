"""The state of an experiment follows from its log, and survives snapshots."""

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
from maskedbandits.service import snapshots
from maskedbandits.service.state import ExperimentState, explain_refusal, get_mask, list_offered
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
            policy.observe(event.arm, event.bit, get_mask(event.epsilon))
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
def test_state_depends_only_on_log(reports: list[tuple[int, int, int]], cuts: list[int], policy: str) -> None:
    log = [created(policy=policy), *(report(seq, *each) for seq, each in enumerate(reports, 2))]
    whole, cut = ExperimentState(), ExperimentState()
    whole.apply_events(log)
    rest = log
    for size in [*cuts, len(log)]:
        cut.apply_events(rest[:size])
        if cut.seq > 0:
            cut.policy.choose()  # which no state depends on
        rest = rest[size:]
    fresh = make_policy(policy, arms=3, corruption=get_mask(ONE))
    assert whole.compute_digest() == cut.compute_digest() == (len(log), one_by_one(log, fresh))


def test_contamination_is_part_of_state() -> None:
    log = [created(policy="auto", contamination=0.01), *(report(seq, seq % 3, seq % 2) for seq in range(2, 60))]
    log += [changed(60, "arm"), *(report(seq, seq % 4, seq % 2) for seq in range(61, 90))]
    state = ExperimentState()
    state.apply_events(log)
    fresh = make_policy("auto", arms=3, corruption=get_mask(ONE), contamination=0.01)
    assert state.compute_digest() == (89, one_by_one(log, fresh))
    assert state.policy.contamination == 0.01


def test_arms_come_and_go() -> None:
    log = [created(), report(2, 0, 1), changed(3, "arm"), report(4, 3, 1), changed(5, "retire", 1), report(6, 3, 0)]
    log += [changed(7, "config"), changed(8, "status")]
    state = ExperimentState()
    state.apply_events(log)
    assert state.policy.arms == 4
    assert state.policy.retired.tolist() == [False, True, False, False]
    assert state.compute_digest() == (8, one_by_one(log, make_policy("klucb-cf", arms=3, corruption=get_mask(ONE))))


def test_gap_in_log_is_found() -> None:
    state = ExperimentState()
    state.apply_events([created(), report(2, 0, 1)])
    with pytest.raises(UserError, match="followed by 4"):
        state.apply_events([report(4, 0, 1)])
    with pytest.raises(UserError, match="followed by 5"):
        state.apply_events([report(3, 0, 1), report(5, 0, 1)])


def test_empty_log_has_no_state() -> None:
    with pytest.raises(UserError, match="the log is empty"):
        ExperimentState().compute_digest()


@pytest.mark.parametrize("policy", ["klucb-cf", "auto"])
def test_snapshot_continues_like_state(policy: str) -> None:
    generator = np.random.default_rng(4)
    log = [created(policy=policy, epsilon=2.0)]
    log += [report(seq, int(generator.integers(3)), int(generator.integers(2)), 2 * ONE) for seq in range(2, 200)]
    state = ExperimentState()
    state.apply_events(log[:100])
    state.policy.choose(5)  # decisions that are open are no part of it
    seq, body, digest = state.snapshot()
    again = ExperimentState.from_snapshot(body, seq, digest)
    assert again.policy.pending.sum() == 0
    state.apply_events(log[100:])
    again.apply_events(log[100:])
    assert again.compute_digest() == state.compute_digest()
    assert again.reported.tolist() == state.reported.tolist() == [sum(e.arm == arm for e in log) for arm in range(3)]


def test_altered_snapshot_is_refused() -> None:
    state = ExperimentState()
    state.apply_events([created(), report(2, 0, 1)])
    seq, body, digest = state.snapshot()
    with pytest.raises(UserError, match="damaged"):
        ExperimentState.from_snapshot(body, seq, "0" * 64)
    with pytest.raises(UserError):
        ExperimentState.from_snapshot(body[:-20], seq, digest)
    with pytest.raises(UserError, match="damaged"):
        ExperimentState.from_snapshot(body[1:], seq, digest)


def test_reports_of_added_and_retired_arms_are_counted() -> None:
    state = ExperimentState()
    state.apply_events(
        [created(), report(2, 0, 1), changed(3, "arm", 3), report(4, 3, 0, 500_000), changed(5, "retire", 0)]
    )
    state.apply_events([report(6, 0, 1), report(7, 3, 1)])
    assert state.reported.tolist() == [2, 0, 0, 2]


def test_snapshot_with_altered_counts_is_refused() -> None:
    state = ExperimentState()
    state.apply_events([created(), report(2, 0, 1)])
    contents, digest = state.describe()
    assert ExperimentState.from_snapshot(snapshots.encode(contents), 2, digest).reported.tolist() == [1, 0, 0]
    for reported in ([0, 0, 0], [2, 0, 0], [1, 0], [1]):
        altered = contents._replace(reported=np.array(reported))
        with pytest.raises(UserError, match="damaged"):
            ExperimentState.from_snapshot(snapshots.encode(altered), 2, digest)


def test_masks_are_those_of_devices() -> None:
    mask = get_mask(ONE)
    assert mask.p00 == mask.p11 == pytest.approx(np.e / (1 + np.e), abs=1e-15)


def test_auto_and_all_index_policies_are_offered() -> None:
    before = ("", "sw-", "d-", "glr-", "cusum-", "ph-", "m-")
    expected = {"auto", *(f"{memory}{index}-cf" for memory in before for index in ("klucb", "ucb", "ts"))}
    assert set(list_offered()) == expected
    for name in set(names()) - expected:
        assert explain_refusal(name)
        assert "\n" not in explain_refusal(name)


def test_custom_policy_changes_kernel_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one of which it cannot be known has none that another process would use."""
    before = snapshots.get_kernel_key()
    assert snapshots.get_kernel_key() == before
    for number, origin in enumerate((Origin("1"), Origin("2"), Origin("3", "it was defined at a prompt"))):
        kind = replace(KINDS["auto"], summary=str(number))
        kind.__dict__["is_own"] = True
        monkeypatch.setattr(type(kind), "origin", origin)
        monkeypatch.setitem(KINDS, "own", kind)
        assert snapshots.get_kernel_key() != before
        before = snapshots.get_kernel_key()
    assert before == snapshots.UNIQUE_KEY


def test_without_sources_kernel_key_is_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "package_key", lambda use: "")
    assert snapshots.get_kernel_key() == snapshots.UNIQUE_KEY
