"""Experiments with a long past, for tests of retention."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import numpy as np

from maskedbandits.service.group_queries import pack_question
from maskedbandits.service.state import build_policy
from maskedbandits.service.storage import Store
from maskedbandits.service.storage.models import Change, ExperimentRow, NewArmRow, NewReport

NOW = 492_000  # an hour
DAYS = 10  # of the past
ONE = 1_000_000
TIMES = {"report_after": 60, "expires_after": 3600, "floor": 0.05, "holdout": 0.0}


def find(store: Store, name: str) -> ExperimentRow:
    return next(row for row in store.list_experiments() if row.name == name)


def create_aged(store: Store, name: str = "headlines", reports: int = 600, groups: list[str] | None = None) -> None:
    """Create an experiment whose reports came in the last ten days; an arm and a setting were changed on the way."""
    begin = NOW - 24 * DAYS
    config: dict[str, Any] = {"epsilon": 1.0, "policy": "klucb-cf", "parameters": {}, **TIMES}
    config |= {} if groups is None else {"groups": groups}
    arms = [NewArmRow("red", '{"colour": "#f00"}'), NewArmRow("blue"), NewArmRow("green")]
    row = store.create_experiment(name, json.dumps(config), arms, 0, begin)
    for part in range(6):
        if part == 1:
            store.change(row.id, Change("arm", begin + 40, name="grey"))
        if part == 2:
            store.change(row.id, Change("retire", begin + 80, place=1))
        if part == 4:
            store.change(row.id, Change("config", begin + 160, config='{"floor": 0.1}'))
        append_reports(store, find(store, name), reports // 6, begin + 40 * part, begin + 40 * (part + 1))


def append_reports(store: Store, row: ExperimentRow, count: int, first: int, end: int) -> None:
    """Append reports that came between two hours, and forget their ids."""
    rng, config = random.Random(first), json.loads(row.config)
    policy: Any = build_policy(config, 3) if config.get("groups") else None
    reports = []
    for number in range(count):
        hour = first + (end - first) * number // count
        epsilon = ONE // 2 if rng.random() < 0.05 else ONE
        arm: int | None = rng.choice((0, 2))
        probability: int | None = rng.randrange(10_000, 65_537)
        question = None
        if policy is not None:
            size = policy.grouping.sizes[-1]
            table, signs = (np.array([rng.randrange(2) for _ in range(size)]) for _ in range(2))
            question = pack_question(len(policy.grouping.sizes) - 1, table, signs)
            arm = probability = None
        masked = row.id, arm, rng.randrange(2), epsilon, probability, 0
        late = row.forgotten + 1
        reports.append(NewReport(*masked, os.urandom(11), late, hour, row.config_version, question))
    answers = store.append(reports)
    assert min(answers) > 0
    store.forget(row.forgotten + 1)
