"""A store that is obvious: lists and dictionaries, one report after the other; nothing of the package is imported."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

DAY = 1440  # minutes


class NaiveExperiment:
    """An experiment and its log."""

    def __init__(self, id: int, name: str, config: str, arms: list[tuple[str, str]], default: int, hour: int) -> None:  # noqa: A002
        self.id, self.name, self.status, self.config = id, name, "running", config
        self.default, self.created, self.forgotten, self.version = default, hour, 0, 0
        self.arms = [[name, payload, "open"] for name, payload in arms]
        self.log: list[dict[str, Any]] = []
        listed = [{"name": name, "payload": json.loads(payload)} for name, payload in arms]
        self.changed("create", hour, {"config": json.loads(config), "default_arm": default, "arms": listed})

    def changed(self, kind: str, hour: int, detail: dict[str, Any], arm: int | None = None) -> None:
        self.version += 1
        self.log.append({"kind": kind, "hour": hour, "arm": arm, "detail": detail})

    def open(self, place: int) -> bool:
        return 0 <= place < len(self.arms) and self.arms[place][2] == "open"


class NaiveStore:
    """Says what a store must do; what it refuses gives None."""

    def __init__(self) -> None:
        self.experiments: dict[int, NaiveExperiment] = {}
        self.visitors: dict[tuple[int, bytes], tuple[bytes, int]] = {}
        self.issued: dict[tuple[int, int, str, int], int] = {}
        self.summed: Counter[tuple[int, int]] = Counter()
        self.refused: Counter[tuple[int, str]] = Counter()
        self.snapshots: dict[tuple[int, str], dict[int, bytes]] = {}
        self.keys: dict[str, list[Any]] = {}
        self.signing: list[tuple[int, bytes]] = []

    def create(self, name: str, config: str, arms: list[tuple[str, str]], default: int, hour: int) -> int | None:
        if any(each.name == name for each in self.experiments.values()):
            return None
        new = len(self.experiments) + 1
        self.experiments[new] = NaiveExperiment(new, name, config, arms, default, hour)
        return new

    def add_arm(self, experiment: int, name: str, payload: str, hour: int) -> bool:
        found = self.experiments.get(experiment)
        if found is None or found.status == "archived" or name in [arm[0] for arm in found.arms]:
            return False
        found.arms.append([name, payload, "open"])
        found.changed("arm", hour, {"name": name, "payload": json.loads(payload)}, len(found.arms) - 1)
        return True

    def retire(self, experiment: int, place: int, hour: int) -> bool:
        found = self.experiments.get(experiment)
        if found is None or found.status == "archived" or not found.open(place) or place == found.default:
            return False
        found.arms[place][2] = "retired"
        found.changed("retire", hour, {"name": found.arms[place][0]}, place)
        return True

    def configure(self, experiment: int, config: str, default: int | None, hour: int) -> bool:
        found = self.experiments.get(experiment)
        if found is None or found.status == "archived" or not found.open(found.default if default is None else default):
            return False
        merged = json.loads(found.config) | json.loads(config)
        found.config = json.dumps(merged)
        found.default = found.default if default is None else default
        found.changed("config", hour, {"config": merged, "default_arm": found.default})
        return True

    def set_status(self, experiment: int, status: str, hour: int) -> bool:
        found = self.experiments.get(experiment)
        if found is None or found.status == "archived":
            return False
        found.status = status
        found.changed("status", hour, {"status": status})
        return True

    def append(self, report: dict[str, Any]) -> int:
        """Return the number of a report, 0 for a duplicate, -1 if it is late, -2 if its experiment is unknown."""
        found = self.experiments.get(report["experiment"])
        if found is None or found.status == "archived":
            return -2
        if report["expires"] <= found.forgotten:
            return -1
        if any(event.get("decision") == report["decision"] for event in found.log):
            return 0
        found.log.append({**report, "kind": "report", "detail": None})
        return len(found.log)

    def reported(self, experiment: int, since: int, seq: int) -> dict[tuple[int, int], int]:
        log = self.experiments[experiment].log[:seq]
        expiring = [event for event in log if event.get("expires") is not None]
        known = [event for event in expiring if event["arm"] is not None]
        return Counter((event["arm"], event["expires"]) for event in known if event["expires"] >= since)

    def read_questions(self, experiment: int, since: int, seq: int) -> Counter[tuple[bytes, int]]:
        log = self.experiments[experiment].log[:seq]
        found = [(event.get("question"), event.get("expires") or 0) for event in log]
        return Counter((question, minute) for question, minute in found if question is not None and minute >= since)

    def visit(self, experiment: int, visitor: bytes, token: bytes, expires: int, now: int, instead: bytes) -> bytes:
        kept = self.visitors.get((experiment, visitor))
        if kept is None or kept[1] <= now or kept[0] == instead:
            self.visitors[experiment, visitor] = (token, expires)
        return self.visitors[experiment, visitor][0]

    def forget(self, minute: int) -> None:
        for number, found in self.experiments.items():
            has_counts = any(other == number for other, *_ in self.issued)  # that are not summed up
            if found.status != "archived" or has_counts:
                found.forgotten = max(found.forgotten, minute)
            for event in found.log:
                if (event.get("expires") or minute + 1) <= minute:
                    event["decision"] = event["expires"] = None
        self.visitors = {key: kept for key, kept in self.visitors.items() if kept[1] > minute}
        for (experiment, arm, process, expires), count in list(self.issued.items()):
            if expires <= minute // 60 * 60 - DAY:
                self.summed[experiment, arm] += count
                del self.issued[experiment, arm, process, expires]

    def set_issued(self, process: str, experiment: int, arm: int, expires: int, count: int) -> None:
        found = self.experiments.get(experiment)
        if found is not None and expires > found.forgotten // 60 * 60 - DAY:
            self.issued[experiment, arm, process, expires] = count

    def issued_total(self, experiment: int) -> dict[int, int]:
        total = Counter({arm: count for (other, arm), count in self.summed.items() if other == experiment})
        for (other, arm, _, _), count in self.issued.items():
            if other == experiment:
                total[arm] += count
        return dict(total)

    def save_snapshot(self, experiment: int, seq: int, kernel: str, body: bytes) -> None:
        if experiment not in self.experiments:
            return
        kept = self.snapshots.setdefault((experiment, kernel), {})
        kept[seq] = body
        for old in sorted(kept, reverse=True)[3:]:
            del kept[old]

    def add_signing_key(self, secret: bytes) -> int:
        newest = self.signing[0][0] if self.signing else 255
        used = [key for key, _ in self.signing]
        new = next(key % 256 for key in range(newest + 1, newest + 257) if key % 256 not in used)
        self.signing.insert(0, (new, secret))
        return new
