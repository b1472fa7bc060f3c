"""Fixed logs with every event that a state depends on, for pinned digests and snapshots of earlier formats."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np

from maskedbandits.service.group_queries import pack_question
from maskedbandits.service.state import build_policy
from maskedbandits.service.storage.models import EventRow
from maskedbandits.service.tokens import FLAG_HELD_BACK

ONE = 1_000_000
GROUPS = ["new", "known", "staff"]
PARAMETERS: dict[str, dict[str, Any]] = {  # that make a policy change its mind within a short log
    "sw": {"window": 150},
    "d": {"gamma": 0.99},
    "m": {"width": 40, "threshold": 10.0},
}


def get_parameters(policy: str) -> dict[str, Any]:
    """Return parameters for a policy."""
    return PARAMETERS.get(policy.split("-", 1)[0], {})


def build_config(policy: str, groups: list[str] | None = None) -> dict[str, Any]:
    """Return the configuration of an experiment as the store holds it."""
    given = {"epsilon": 1.0, "policy": policy, "parameters": get_parameters(policy), "floor": 0.05, "holdout": 0.0}
    times = {"report_after": 60, "expires_after": 86_400}
    return {**given, **times, **({} if groups is None else {"groups": groups})}


def change(seq: int, kind: str, arm: int | None = None, **detail: Any) -> EventRow:
    """Return an event other than a report."""
    row: dict[str, Any] = dict.fromkeys(EventRow._fields)
    row |= {"seq": seq, "kind": kind, "arm": arm, "hour": seq // 50, "detail": json.dumps(detail)}
    return EventRow(**row)


def report(seq: int, arm: int | None, bit: int, **others: Any) -> EventRow:
    """Return a report."""
    row: dict[str, Any] = dict.fromkeys(EventRow._fields)
    row |= {"seq": seq, "kind": "report", "arm": arm, "bit": bit, "epsilon": ONE, "hour": seq // 50}
    return EventRow(**{**row, "probability": 21_845, "flags": 0, "config": 1, **others})


def build_log(policy: str, size: int = 900) -> list[EventRow]:
    """Return a log of an experiment: arms come and go, settings change, masks differ, reports are held back."""
    rng, config = random.Random(20), build_config(policy)
    listed = [{"name": f"arm {place}", "payload": {"path": f"/{place}"}} for place in range(3)]
    log, arms = [change(1, "create", config=config, default_arm=0, arms=listed)], 3
    means = [[0.3, 0.6, 0.4, 0.5], [0.7, 0.2, 0.4, 0.9]]
    for seq in range(2, size + 1):
        if seq == 200:
            log.append(change(seq, "arm", 3, name="arm 3", payload=None))
            arms = 4
        elif seq == 500:
            log.append(change(seq, "retire", 1, name="arm 1"))
        elif seq == 300:
            log.append(change(seq, "config", config={**config, "floor": 0.1}, default_arm=2))
        elif seq == 600:
            log.append(change(seq, "status", status="paused"))
        else:
            arm, epsilon = rng.randrange(arms), ONE // 2 if seq > 350 and rng.random() < 0.1 else ONE
            bit = int((rng.random() < means[seq > 450][arm]) == (rng.random() < 0.73))
            flags = FLAG_HELD_BACK if rng.random() < 0.03 else rng.choice((0, 0, 1))
            log.append(report(seq, arm, bit, epsilon=epsilon, flags=flags, probability=rng.randrange(3_000, 65_537)))
    return log


def build_group_log(policy: str, size: int = 400) -> list[EventRow]:
    """Return a log of an experiment with groups."""
    rng, config = random.Random(21), build_config(policy, GROUPS)
    listed = [{"name": f"arm {place}", "payload": None} for place in range(3)]
    log = [change(1, "create", config=config, default_arm=0, arms=listed)]
    asked: Any = build_policy(config, 3)
    sizes, arms = asked.grouping.sizes, 3
    for seq in range(2, size + 1):
        if seq == 150:
            log.append(change(seq, "arm", 3, name="arm 3", payload=None))
            arms = 4
        elif seq == 300:
            log.append(change(seq, "retire", 0, name="arm 0"))
        else:
            level = rng.randrange(len(sizes))
            table = np.array([rng.randrange(arms) for _ in range(sizes[level])])
            signs = np.array([rng.randrange(2) for _ in range(sizes[level])])
            question = pack_question(level, table, signs)
            others = {"epsilon": ONE // 2 if seq > 200 and rng.random() < 0.1 else ONE, "probability": None}
            flags = FLAG_HELD_BACK if rng.random() < 0.03 else 0
            log.append(report(seq, None, rng.randrange(2), question=question, flags=flags, **others))
    return log
