"""Parameters that are times: a policy counts the answers that its group hears, which may be fewer than visitors."""

from typing import Any

import numpy as np
import pytest

from maskedbandits import make_contextual
from maskedbandits.contextual import check_contextual, masks
from maskedbandits.errors import UserError
from maskedbandits.privacy import Partition

PLAN: dict[str, Any] = {"arms": 2, "epsilon": 4, "restarts": [0, 20]}
SHARES = [0.2, 0.3, 0.5]


@pytest.mark.parametrize("name", ["oracle-klucb-cf", "sw-ts-cf"])
@pytest.mark.parametrize("options", [{}, {"answers": "bit"}, {"answers": "one of many", "pool": False}, {"pool": True}])
def test_restart_times_need_all_answers(name: str, options: dict[str, Any]) -> None:
    window: dict[str, Any] = {"window": 5} if name.startswith("sw-") else {}
    for make in (make_contextual, check_contextual):
        with pytest.raises(UserError, match=r"restarts = .*pool=False"):
            make(name, groups=3, **options, **PLAN, **window)


def test_tree_refuses_restart_times() -> None:
    with pytest.raises(UserError, match="restarts"):
        make_contextual("oracle-klucb-cf", partition=Partition.tree(1, 1), **PLAN)


@pytest.mark.plain
@pytest.mark.parametrize(("groups", "options"), [(3, {"answers": "bit", "pool": False}), (1, {}), (1, {"pool": True})])
def test_restarts_happen_in_time(groups: int, options: dict[str, Any]) -> None:
    policy: Any = make_contextual("oracle-klucb-cf", groups=groups, **options, **PLAN)
    for _ in range(19):
        policy.observe(policy.ask(), 1)
    assert not np.isnan(policy.estimates()).all(axis=1).any()
    policy.observe(policy.ask(), 1)
    assert np.isnan(policy.estimates()).all()


def test_schedules_are_accepted_everywhere() -> None:
    for restarts in (None, [0], "doubling"):
        assert make_contextual("klucb-cf", groups=3, **{**PLAN, "restarts": restarts}).answers


@pytest.mark.plain
def test_named_group_alone_counts_answer() -> None:
    """4,000 visitors, and of them as many answers to each group as the page says: within four standard deviations."""
    policy, rng = (
        make_contextual("klucb-cf", groups=3, arms=1, epsilon=2, answers="one of many"),
        np.random.default_rng(1),
    )
    truth, other = masks.truth_and_other(2.0, 3)
    groups, keeps, others = rng.choice(3, 4000, p=SHARES), rng.random(4000), rng.integers(0, 6, 4000)
    options = np.where(keeps < truth - other, 2 * groups, others)
    policy.observe_many([policy.ask()] * 4000, options.tolist())
    heard = np.array([own.observations for own in policy.by_group]) / 4000
    assert heard == pytest.approx(2 * other + (truth - other) * np.array(SHARES), abs=4 * 0.5 / 4000**0.5)
