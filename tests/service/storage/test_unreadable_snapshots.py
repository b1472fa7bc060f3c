"""Sound snapshots that this release cannot read prove nothing: they neither contradict a log nor block retention."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from aged import NOW, create_aged, find
from click.testing import CliRunner
from store_samples import refused

from maskedbandits.cli import main
from maskedbandits.policies import KINDS
from maskedbandits.service import snapshots
from maskedbandits.service.compaction import compact, find_base
from maskedbandits.service.log_hash import LogHash
from maskedbandits.service.recovery import BASE_KERNEL, DamagedError
from maskedbandits.service.replay import BAD, INCOMPARABLE, Walk, list_claims, replay
from maskedbandits.service.snapshots import OtherFoldError
from maskedbandits.service.state import ExperimentState
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.retention import LOG_HASH

pytest_plugins = ["store_fixtures"]

CUTOFF = NOW - 24 * 5  # five days
HERE = Path(__file__).parents[1]
FORMAT_2 = json.loads((HERE / "unread_snapshot.json").read_text())  # of klucb-cf, as the release that had it wrote it
FORMATS_4_AND_5 = json.loads((HERE / "old_snapshots.json").read_text())
OLD_KERNEL, WRONG = "0123456789abcdef", "0" * 64
Patch = pytest.MonkeyPatch


@pytest.fixture
def store(any_store: Store) -> Store:
    create_aged(any_store)
    return any_store


def compute(store: Store, seq: int = 10**6) -> ExperimentState:
    state = ExperimentState()
    state.apply_events(store.read_events(1, 0, seq))
    return state


def save_format_2(store: Store, patch: Patch) -> None:
    store.save_snapshot(1, 100, OLD_KERNEL, base64.b64decode(FORMAT_2["body"]), FORMAT_2["sha256"])


def save_with_earlier_code(store: Store, patch: Patch) -> None:
    patch.setattr(snapshots, "get_origin", lambda policy: "earlier code")
    store.save_snapshot(1, 100, "fold-1", compute(store, 100).snapshot()[1], WRONG)


def save_of_other_policy(store: Store, patch: Patch) -> None:
    contents, _ = compute(store, 100).describe()
    store.save_snapshot(1, 100, "fold-1", snapshots.encode(contents._replace(policy="gone")), WRONG)


def save_later_fold(store: Store, patch: Patch) -> None:
    patch.setattr(snapshots, "FOLD_VERSION", 2)
    store.save_snapshot(1, 100, "fold-2", compute(store, 100).snapshot()[1], WRONG)


def save_later_base(store: Store, patch: Patch) -> None:
    patch.setattr(snapshots, "FOLD_VERSION", 2)
    store.save_snapshot(1, 100, "base-2", compute(store, 100).snapshot()[1], WRONG)


def save_later_format(store: Store, patch: Patch) -> None:
    patch.setattr(snapshots, "FORMAT", 7)
    store.save_snapshot(1, 100, "fold-1", compute(store, 100).snapshot()[1], WRONG)


SAVED: list[Callable[[Store, Patch], None]] = [
    *(save_format_2, save_with_earlier_code, save_of_other_policy, save_later_fold, save_later_base, save_later_format)
]


@pytest.mark.parametrize("save", SAVED)
def test_unreadable_snapshot_blocks_nothing(store: Store, monkeypatch: Patch, save: Callable[..., None]) -> None:
    digest = compute(store).compute_digest()[1]
    with monkeypatch.context() as patch:
        save(store, patch)
    found = replay(store, find(store, "headlines"), [])
    assert found.holds
    assert [(each.claim.seq, each.verdict) for each in found.verdicts] == [(100, INCOMPARABLE)]
    assert compact(store, find(store, "headlines"), CUTOFF).removed > 100
    assert [head.kernel for head in store.list_states(1)] == [BASE_KERNEL]
    assert replay(store, find(store, "headlines"), []).digest == digest


@pytest.mark.parametrize("save", SAVED)
def test_damage_of_unreadable_snapshot_is_bad(store: Store, monkeypatch: Patch, save: Callable[..., None]) -> None:
    with monkeypatch.context() as patch:
        save(store, patch)
    (head,) = store.list_states(1)
    row = store.read_snapshot(1, head.kernel)
    assert row is not None
    body = bytearray(row.body)
    body[len(body) // 2] ^= 1
    store.save_snapshot(1, 100, head.kernel, bytes(body), head.sha256)
    found = replay(store, find(store, "headlines"), [])
    assert [claim.seq for claim in found.list_claims(*BAD)] == [100]
    with refused("damaged") if save is save_later_base else refused("event 100 contradicts", kind=DamagedError):
        compact(store, find(store, "headlines"), CUTOFF)
    assert store.read_first(1) == 1


def test_wrong_state_of_earlier_release_is_bad(store: Store) -> None:
    old = FORMATS_4_AND_5["klucb-cf"]
    store.save_snapshot(1, 100, OLD_KERNEL, base64.b64decode(old["body"]), old["sha256"])  # of another log
    assert [claim.kernel for claim in replay(store, find(store, "headlines"), []).list_claims(*BAD)] == [OLD_KERNEL]
    with refused("event 100 contradicts", kind=DamagedError):
        compact(store, find(store, "headlines"), CUTOFF)


def test_own_policy_of_earlier_release_is_not_compared(monkeypatch: Patch) -> None:
    """It does not say by which code it was computed."""
    old = FORMATS_4_AND_5["klucb-cf"]
    body = base64.b64decode(old["body"])
    with monkeypatch.context() as patch:
        patch.setitem(vars(KINDS["klucb-cf"]), "is_own", True)
        with pytest.raises(OtherFoldError, match=r"by which code.*klucb-cf"):
            ExperimentState.from_snapshot(body, 100, old["sha256"])
    monkeypatch.delitem(KINDS, "klucb-cf")
    with pytest.raises(OtherFoldError, match="not registered"):
        ExperimentState.from_snapshot(body, 100, old["sha256"])


def test_snapshot_deleted_meanwhile_is_not_bad(store: Store) -> None:
    store.save_snapshot(1, 100, "fold-1", compute(store, 100).snapshot()[1], WRONG)
    (claim,) = list_claims(store, 1)
    store.drop_snapshots_before(1, 101)  # by another process
    assert Walk(store, find(store, "headlines"), compute(store, 100)).judge(claim) == INCOMPARABLE


def test_log_hash_that_cannot_be_compared_agrees_with_nothing(store: Store) -> None:
    store.save_snapshot(1, 100, LOG_HASH, b"", WRONG)
    (claim,) = list_claims(store, 1)
    state = compute(store, 100)
    assert Walk(store, find(store, "headlines"), state).judge(claim) in BAD
    state.log_hash = LogHash(50)  # of a release that had no hash
    assert Walk(store, find(store, "headlines"), state).judge(claim) == INCOMPARABLE


def test_later_base_with_removed_events_is_left_alone(store: Store, monkeypatch: Patch) -> None:
    with monkeypatch.context() as patch:
        save_later_base(store, patch)
    store.remove_events(1, 100, 50)
    assert find_base(store, find(store, "headlines"), 51) is None
    with refused("headlines", "fold version 2", kind=DamagedError):
        compact(store, find(store, "headlines"), CUTOFF)


def test_replay_verb_names_unreadable_snapshots(tmp_path: Path, monkeypatch: Patch) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}?durable=no"
    with open_store(url, create=True) as store:
        create_aged(store)
        save_format_2(store, monkeypatch)
    done = CliRunner().invoke(main, ["replay", "--storage", url])
    assert done.exit_code == 0
    assert "snapshot at 100 cannot be compared" in done.stdout
    (found,) = json.loads(CliRunner().invoke(main, ["replay", "--json", "--storage", url]).stdout)
    assert (found["holds"], [each["verdict"] for each in found["states"]]) == (True, ["cannot be compared"])
