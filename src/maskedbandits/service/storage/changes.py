"""Changes of an experiment: their effect on its rows, and the event that records each in the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from maskedbandits.errors import UserError, WrongValueError, suggest_nearest
from maskedbandits.service.storage.base import Transaction, placeholders
from maskedbandits.service.storage.errors import Conflict
from maskedbandits.service.storage.layouts import refuse_ignored_settings
from maskedbandits.service.storage.models import (
    OPEN,
    RETIRED,
    STATUSES,
    ArmRow,
    Change,
    ExperimentRow,
    NewArmRow,
    check_json,
    check_name,
)

Detail = tuple[int | None, str]  # the arm that an event is about, and its detail in JSON
Check = Callable[[ExperimentRow, Sequence[ArmRow]], None]  # of an experiment after its change

_COLUMNS = ", ".join(ExperimentRow._fields)
SELECT_EXPERIMENT = f"SELECT {_COLUMNS} FROM experiment"  # noqa: S608 - our own names


def list_arms(tx: Transaction, experiment: int) -> list[ArmRow]:
    """Return all arms of an experiment, by index."""
    select = f"SELECT {', '.join(ArmRow._fields)} FROM arm WHERE experiment = ? ORDER BY place"  # noqa: S608 - our own names
    return [ArmRow(*row) for row in tx.query(select, (experiment,))]


def create_experiment(tx: Transaction, row: ExperimentRow, arms: Sequence[NewArmRow]) -> ExperimentRow:
    """Write a new experiment and the first event of its log."""
    names = [arm.name for arm in arms]
    if not arms or len(set(names)) < len(names):
        raise UserError(f"arms of {row.name!r}: give at least one, all with different names")
    if not 0 <= row.default_arm < len(arms):
        raise UserError(f"default arm of {row.name!r}: {row.default_arm} is not one of its {len(arms)} arms")
    check_json("config", row.config)
    refuse_ignored_settings(tx, row.config)
    tx.execute(f"INSERT INTO experiment ({_COLUMNS}) VALUES ({placeholders(row)})", row)  # noqa: S608 - our own names
    for index, arm in enumerate(arms):
        _insert_arm(tx, row.id, index, arm.name, arm.payload)
    listed = ",".join(_join_members(name=_to_json(arm.name), payload=arm.payload) for arm in arms)
    detail = _join_members(config=row.config, default_arm=_to_json(row.default_arm), arms=f"[{listed}]")
    return append_event(tx, row, "create", row.created_hour, (None, detail))


def apply_change(tx: Transaction, row: ExperimentRow, arms: Sequence[ArmRow], change: Change) -> ExperimentRow:
    """Change an experiment whose row is locked."""
    if row.status == "archived":  # devices have dropped their reports
        raise Conflict(f"the experiment {row.name!r} is archived, which is final: create another", "archived_is_final")
    if change.kind not in KINDS:
        raise UserError(f"change {change.kind!r}{suggest_nearest(change.kind, KINDS)}")
    return append_event(tx, row, change.kind, change.hour, KINDS[change.kind](tx, row, arms, change))


def append_event(tx: Transaction, row: ExperimentRow, kind: str, hour: int, event: Detail) -> ExperimentRow:
    """Append the event of a change to the log, and return the experiment after it."""
    tx.execute(
        "INSERT INTO event (experiment, seq, kind, arm, hour, detail) VALUES (?, ?, ?, ?, ?, ?)",
        (row.id, row.seq + 1, kind, event[0], hour, event[1]),
    )
    tx.execute(
        "UPDATE experiment SET seq = seq + 1, config_version = config_version + 1 WHERE id = ?",
        (row.id,),
    )
    return ExperimentRow(*tx.query(f"{SELECT_EXPERIMENT} WHERE id = ?", (row.id,))[0])


def _add_arm(tx: Transaction, row: ExperimentRow, arms: Sequence[ArmRow], change: Change) -> Detail:
    if any(arm.name == change.name for arm in arms):
        what = f"the name {change.name!r} is or was used by another arm of {row.name!r}: give a new name"
        raise Conflict(what, "name_taken")
    _insert_arm(tx, row.id, len(arms), change.name, change.payload)
    return len(arms), _join_members(name=_to_json(change.name), payload=change.payload)


def _retire_arm(tx: Transaction, row: ExperimentRow, arms: Sequence[ArmRow], change: Change) -> Detail:
    arm = _find_open_arm(row, arms, change.place)
    if arm.place == row.default_arm:
        raise UserError(f"{arm.name!r} is the default arm of {row.name!r}: make another the default first")
    tx.execute(f"UPDATE arm SET status = '{RETIRED}' WHERE experiment = ? AND place = ?", (row.id, arm.place))  # noqa: S608 - our own word
    return arm.place, _join_members(name=_to_json(arm.name))


def _set_payload(tx: Transaction, row: ExperimentRow, arms: Sequence[ArmRow], change: Change) -> Detail:
    arm = _find_open_arm(row, arms, change.place)
    payload = check_json("payload", change.payload)
    tx.execute("UPDATE arm SET payload = ? WHERE experiment = ? AND place = ?", (payload, row.id, arm.place))
    return arm.place, _join_members(name=_to_json(arm.name), payload=payload)


def _configure(tx: Transaction, row: ExperimentRow, arms: Sequence[ArmRow], change: Change) -> Detail:
    default = row.default_arm if change.default_arm is None else change.default_arm
    default, config = _find_open_arm(row, arms, default).place, _merge_config(row.config, change.config)
    refuse_ignored_settings(tx, change.config)
    tx.execute("UPDATE experiment SET config = ?, default_arm = ? WHERE id = ?", (config, default, row.id))
    return None, _join_members(config=config, default_arm=_to_json(default))


def _merge_config(stored: str, changes: str) -> str:
    """Return the stored configuration with some members changed; changes of others to other members stay."""
    members = json.loads(check_json("config", changes))
    if not isinstance(members, dict):
        raise WrongValueError("config", members, "a JSON object with the changes")
    return json.dumps({**json.loads(stored), **members})


def _set_status(tx: Transaction, row: ExperimentRow, arms: Sequence[ArmRow], change: Change) -> Detail:
    if change.status not in STATUSES:
        raise UserError(f"status {change.status!r}{suggest_nearest(change.status, STATUSES)}")
    tx.execute("UPDATE experiment SET status = ? WHERE id = ?", (change.status, row.id))
    return None, _join_members(status=_to_json(change.status))


KINDS: dict[str, Callable[[Transaction, ExperimentRow, Sequence[ArmRow], Change], Detail]] = {
    "arm": _add_arm,
    "retire": _retire_arm,
    "payload": _set_payload,
    "config": _configure,
    "status": _set_status,
}


def _find_open_arm(row: ExperimentRow, arms: Sequence[ArmRow], index: int) -> ArmRow:
    found = next((arm for arm in arms if arm.place == index and arm.status == OPEN), None)
    if found is None:
        raise Conflict(f"{row.name!r} has no open arm {index}: choose another")
    return found


def _insert_arm(tx: Transaction, experiment: int, index: int, name: str, payload: str) -> None:
    tx.execute(
        "INSERT INTO arm (experiment, place, name, payload, status) VALUES (?, ?, ?, ?, ?)",
        (experiment, index, check_name("arm name", name), check_json("payload", payload), OPEN),
    )


def _join_members(**members: str) -> str:
    """Return a JSON object of values that are JSON text already."""
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in members.items()) + "}"


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
