"""Changes of an experiment: what each does to its rows, and what the log says of it; all within one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from maskedbandits.errors import UserError, WrongValueError, nearest
from maskedbandits.service.storage.database import Statements
from maskedbandits.service.storage.errors import Conflict
from maskedbandits.service.storage.models import OPEN, RETIRED, STATUSES, ArmRow, Change, ExperimentRow, NewArm
from maskedbandits.service.storage.texts import document, json_text, quoted, short

Written = tuple[int | None, str]  # the arm that an event is about, and its detail
Check = Callable[[ExperimentRow, Sequence[ArmRow]], None]  # of an experiment as it is after a change


def arms(do: Statements, experiment: int) -> list[ArmRow]:
    """Return all arms of an experiment by their places."""
    asked = "SELECT place, name, payload, status FROM arm WHERE experiment = ? ORDER BY place"
    return [ArmRow(*row) for row in do.rows(asked, (experiment,))]


def created(do: Statements, row: ExperimentRow, arms: Sequence[NewArm]) -> ExperimentRow:
    """Write a new experiment down, with the event that begins its log."""
    names = [arm.name for arm in arms]
    if not arms or len(set(names)) < len(names):
        raise UserError(f"arms of {row.name!r}: give at least one, each with a name of its own")
    if not 0 <= row.default_arm < len(arms):
        raise UserError(f"default arm of {row.name!r}: {row.default_arm} is none of its {len(arms)} arms")
    json_text("config", row.config)
    do.changed(
        "INSERT INTO experiment (id, name, status, config, config_version, seq, default_arm, created_hour, forgotten) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    for place, arm in enumerate(arms):
        _write_arm(do, row.id, place, arm.name, arm.payload)
    listed = ",".join(document(name=quoted(arm.name), payload=arm.payload) for arm in arms)
    detail = document(config=row.config, default_arm=quoted(row.default_arm), arms=f"[{listed}]")
    return logged(do, row, "create", row.created_hour, (None, detail))


def changed(do: Statements, row: ExperimentRow, arms: Sequence[ArmRow], change: Change) -> ExperimentRow:
    """Change an experiment whose row is locked."""
    if row.status == "archived":  # devices were told to drop their reports
        raise Conflict(f"the experiment {row.name!r} is archived, which is for good: create another")
    if change.kind not in KINDS:
        raise UserError(f"change {change.kind!r}{nearest(change.kind, KINDS)}")
    return logged(do, row, change.kind, change.hour, KINDS[change.kind](do, row, arms, change))


def logged(do: Statements, row: ExperimentRow, kind: str, hour: int, written: Written) -> ExperimentRow:
    """Give the next number to the event of a change, and return the experiment as it is then."""
    do.changed(
        "INSERT INTO event (experiment, seq, kind, arm, hour, detail) VALUES (?, ?, ?, ?, ?, ?)",
        (row.id, row.seq + 1, kind, written[0], hour, written[1]),
    )
    do.changed(
        "UPDATE experiment SET seq = seq + 1, config_version = config_version + 1 WHERE id = ?",
        (row.id,),
    )
    return ExperimentRow(*do.rows(f"{SELECT} WHERE id = ?", (row.id,))[0])


SELECT = "SELECT id, name, status, config, config_version, seq, default_arm, created_hour, forgotten FROM experiment"


def _add_arm(do: Statements, row: ExperimentRow, arms: Sequence[ArmRow], change: Change) -> Written:
    if any(arm.name == change.name for arm in arms):
        raise Conflict(f"an arm of {row.name!r} is, or was, called {change.name!r}: give a name that was never used")
    _write_arm(do, row.id, len(arms), change.name, change.payload)
    return len(arms), document(name=quoted(change.name), payload=change.payload)


def _retire(do: Statements, row: ExperimentRow, arms: Sequence[ArmRow], change: Change) -> Written:
    arm = _open_arm(row, arms, change.place)
    if arm.place == row.default_arm:
        raise UserError(f"{arm.name!r} is the default arm of {row.name!r}: make another the default first")
    do.changed(f"UPDATE arm SET status = '{RETIRED}' WHERE experiment = ? AND place = ?", (row.id, arm.place))  # noqa: S608 - our own word
    return arm.place, document(name=quoted(arm.name))


def _configure(do: Statements, row: ExperimentRow, arms: Sequence[ArmRow], change: Change) -> Written:
    default = row.default_arm if change.default_arm is None else change.default_arm
    default, config = _open_arm(row, arms, default).place, _merged(row.config, change.config)
    do.changed("UPDATE experiment SET config = ?, default_arm = ? WHERE id = ?", (config, default, row.id))
    return None, document(config=config, default_arm=quoted(default))


def _merged(before: str, changes: str) -> str:
    """Return a configuration with some members changed; what others have changed meanwhile stays."""
    told = json.loads(json_text("config", changes))
    if not isinstance(told, dict):
        raise WrongValueError("config", told, "a JSON object of what is to change")
    return json.dumps({**json.loads(before), **told})


def _set_status(do: Statements, row: ExperimentRow, arms: Sequence[ArmRow], change: Change) -> Written:
    if change.status not in STATUSES:
        raise UserError(f"status {change.status!r}{nearest(change.status, STATUSES)}")
    do.changed("UPDATE experiment SET status = ? WHERE id = ?", (change.status, row.id))
    return None, document(status=quoted(change.status))


KINDS: dict[str, Callable[[Statements, ExperimentRow, Sequence[ArmRow], Change], Written]] = {
    "arm": _add_arm,
    "retire": _retire,
    "config": _configure,
    "status": _set_status,
}


def _open_arm(row: ExperimentRow, arms: Sequence[ArmRow], place: int) -> ArmRow:
    found = next((arm for arm in arms if arm.place == place and arm.status == OPEN), None)
    if found is None:
        raise Conflict(f"{row.name!r} has no open arm at place {place}: choose another")
    return found


def _write_arm(do: Statements, experiment: int, place: int, name: str, payload: str) -> None:
    do.changed(
        "INSERT INTO arm (experiment, place, name, payload, status) VALUES (?, ?, ?, ?, ?)",
        (experiment, place, short("arm name", name), json_text("payload", payload), OPEN),
    )
