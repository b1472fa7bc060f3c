"""The fold of a log into a state has a version; snapshots of a version are valid for ever, on every machine.

If the digests here change, so has the fold's meaning. Raise ``FOLD_VERSION`` in ``service/snapshots.py``, teach it to
read snapshots of the version before, and pin the new digests: `python tests/service/test_fold.py` prints them.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fold_log import build_group_log, build_log

from maskedbandits.errors import UserError
from maskedbandits.policies import KINDS
from maskedbandits.service import snapshots
from maskedbandits.service.event_columns import EventColumns
from maskedbandits.service.snapshots import FOLD_VERSION, FORMAT
from maskedbandits.service.state import ExperimentState, list_offered

HERE = Path(__file__).parent
PINNED = json.loads((HERE / "fold_digests.json").read_text())
OLD = json.loads((HERE / "old_snapshots.json").read_text())  # as the release before fold versions wrote them
WITH_GROUPS = " with groups"


def build_any_log(case: str) -> list[Any]:
    return build_group_log(case.removesuffix(WITH_GROUPS)) if case.endswith(WITH_GROUPS) else build_log(case)


def fold(case: str, end: int | None = None) -> ExperimentState:
    state = ExperimentState()
    state.apply_events(build_any_log(case)[:end])
    return state


def list_cases() -> list[str]:
    return [f"{name}{end}" for name in list_offered() for end in ("", WITH_GROUPS)]


def print_fields(policy: str) -> str:
    """Return the names and types of all fields in a snapshot of a policy."""
    fields = fold(policy, 60).describe()[0].fields
    return ", ".join(f"{name} {values.dtype.str}" for name, values in sorted(fields.items()))


def test_meaning_of_fold_is_that_of_its_version() -> None:
    """For every offered policy, with and without groups."""
    assert PINNED["fold version"] == FOLD_VERSION, "pin the digests of the new version"
    changed = {case for case in list_cases() if fold(case).compute_digest()[1] != PINNED["digests"].get(case)}
    assert changed == set(), "the fold's meaning has changed: it needs a new FOLD_VERSION"


def test_fields_of_snapshots_are_those_of_their_version() -> None:
    changed = {name for name in list_offered() if print_fields(name) != PINNED["fields"].get(name)}
    assert changed == set(), "snapshots have other fields: they need a new FOLD_VERSION"


@pytest.mark.parametrize("case", OLD)
def test_snapshot_of_earlier_format_continues(case: str) -> None:
    old, log = OLD[case], build_any_log(case)
    state = ExperimentState.from_snapshot(base64.b64decode(old["body"]), old["seq"], old["sha256"])
    assert state.compute_digest() == fold(case).compute_digest()
    more = [event._replace(seq=len(log) + place) for place, event in enumerate(log[100:140], 1)]
    more = [event for event in more if event.kind == "report"]
    more = [event._replace(seq=len(log) + place) for place, event in enumerate(more, 1)]
    whole = fold(case)
    for each in (state, whole):
        each.apply_events(more)
    assert state.compute_digest() == whole.compute_digest()
    assert state.log_hash.start == len(log)  # nothing is known of the events before


def test_damaged_snapshot_of_earlier_format_is_refused() -> None:
    old = OLD["auto"]
    body = base64.b64decode(old["body"])
    for altered in (body[:-30], body[:8], bytes([body[0]]), bytes([5]) + body[1:]):
        with pytest.raises(UserError, match="damaged"):
            ExperimentState.from_snapshot(altered, old["seq"], old["sha256"])
    with pytest.raises(UserError, match="digest"):
        ExperimentState.from_snapshot(body, old["seq"], "0" * 64)


@pytest.mark.parametrize("case", ["auto", "sw-klucb-cf", "glr-ts-cf" + WITH_GROUPS])
def test_snapshot_holds_state_and_hash(case: str) -> None:
    log, half = build_any_log(case), 333
    state = fold(case, half)
    seq, body, digest = state.snapshot()
    again = ExperimentState.from_snapshot(body, seq, digest)
    assert (again.log_hash.value, again.kernel) == (state.log_hash.value, state.kernel)
    for each in (state, again):
        each.apply_events(log[half:])
    assert again.compute_digest() == state.compute_digest() == (len(log), PINNED["digests"][case])
    assert again.log_hash.value == state.log_hash.value == fold(case).log_hash.value


def test_snapshot_has_no_trace_of_machine_or_byte_order() -> None:
    body = fold("klucb-cf", 50).snapshot()[1]
    length = int.from_bytes(body[5:9], "little")
    assert (body[0], int.from_bytes(body[1:5], "little")) == (FORMAT, FOLD_VERSION)
    header = json.loads(body[9 : 9 + length])
    assert {kind for _, kind, _ in header["fields"]} <= {"i8", "f8"}
    assert b"pickle" not in body


def test_snapshot_of_another_machine_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    state = fold("auto", 400)
    seq, body, digest = state.snapshot()
    monkeypatch.setattr("maskedbandits.service.state.get_kernel_key", lambda: "another machine")
    again = ExperimentState.from_snapshot(body, seq, digest)
    assert again.kernel == state.kernel
    again.apply_events(build_log("auto")[400:])
    assert again.kernel == snapshots.MIXED_KERNELS
    assert again.compute_digest()[1] == PINNED["digests"]["auto"]


def test_snapshot_with_other_last_bits_is_used() -> None:
    """As from a machine whose logarithm rounds differently; what is computed from parameters may differ, too."""
    contents, _ = fold("auto", 400).describe()
    fields = {name: values.copy() for name, values in contents.fields.items()}
    for name in ("since_sums", "few", "fewer"):
        fields[name] = np.nextafter(fields[name], np.inf)
    altered = contents._replace(fields=fields)
    digest = snapshots.restore_policy(altered).fold_digest()
    state = ExperimentState.from_snapshot(snapshots.encode(altered), 400, digest)
    assert snapshots.compare_bits(state.describe()[0], contents) == "rounding"
    fields["sums"] = fields["sums"] + 1.0
    assert snapshots.compare_bits(contents._replace(fields=fields), contents) == "different"
    assert snapshots.compare_bits(contents, contents) == "equal"


def test_snapshot_of_another_fold_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    state = fold("klucb-cf", 50)
    monkeypatch.setattr(snapshots, "FOLD_VERSION", FOLD_VERSION + 1)
    seq, body, digest = state.snapshot()
    monkeypatch.undo()
    with pytest.raises(snapshots.OtherFoldError, match="fold version 2"):
        ExperimentState.from_snapshot(body, seq, digest)


def test_altered_header_is_refused() -> None:
    seq, body, digest = fold("klucb-cf", 50).snapshot()
    for place in range(0, len(body), 97):
        altered = bytearray(body)
        altered[place] ^= 1
        with pytest.raises(UserError, match=r"damaged|version"):
            ExperimentState.from_snapshot(bytes(altered), seq, digest)


def test_snapshot_of_changed_own_policy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    seq, body, digest = fold("klucb-cf", 50).snapshot()
    monkeypatch.setattr(snapshots, "get_origin", lambda policy: "other code")
    with pytest.raises(snapshots.OtherFoldError, match=r"changed since.* event 50"):
        ExperimentState.from_snapshot(body, seq, digest)
    monkeypatch.undo()
    monkeypatch.delitem(KINDS, "klucb-cf")
    with pytest.raises(snapshots.OtherFoldError, match="not registered"):
        ExperimentState.from_snapshot(body, seq, digest)


def test_columns_and_rows_give_the_same_state() -> None:
    log = build_log("klucb-cf")
    by_rows, by_columns = ExperimentState(), ExperimentState()
    for event in log:
        by_rows.apply_events([event])
    columns = EventColumns.from_rows(log)
    for start in range(0, len(log), 77):
        by_columns.apply_columns(columns.slice(start, min(start + 77, len(log))))
    assert by_rows.compute_digest() == by_columns.compute_digest()
    assert by_rows.log_hash.value == by_columns.log_hash.value


if __name__ == "__main__":
    pins = {
        "fold version": FOLD_VERSION,
        "digests": {case: fold(case).compute_digest()[1] for case in list_cases()},
        "fields": {name: print_fields(name) for name in list_offered()},
    }
    sys.stdout.write(json.dumps(pins, indent=1) + "\n")
