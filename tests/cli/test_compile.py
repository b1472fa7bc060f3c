"""`maskedbandits compile` for policies that choose for groups, and over features: which work there is."""

from __future__ import annotations

import numpy as np
import pytest

from maskedbandits import ContextualProblem, RandomizedResponse, make_contextual, make_policy, policies
from maskedbandits._numba import jit
from maskedbandits.cli.compile import compile_over_features, list_jobs
from maskedbandits.contextual.factory import compile_groups
from maskedbandits.errors import UserError
from maskedbandits.policies.groups import advance_groups
from maskedbandits.policies.runtime import get_entries
from maskedbandits.simulation.runs import Batch, Order


def test_jobs_share_kernels_and_check_names() -> None:
    everything = [name for name, _ in list_jobs((), groups=False)]
    assert {"auto", "logistic-ts-cf", "d-linucb-cf"} <= set(everything)
    assert len(everything) < len(policies.names())
    assert [name for name, _ in list_jobs(("d-linucb-cf", "auto"), groups=True)] == ["auto", "d-linucb-cf"]
    with pytest.raises(UserError, match="mean 'logistic-ts-cf'"):
        list(list_jobs(("logistic-ts",), groups=False))


def test_featured_policy_compiles() -> None:
    compile_over_features("logistic-ts-cf")


@pytest.mark.skipif(jit.INTERPRETED, reason="nothing is compiled")
@pytest.mark.parametrize("context", [True, False])
def test_simulation_uses_kernels_compiled_for_groups(context: bool) -> None:
    """The code that is made ahead is that which a simulation asks for: no other comes into being."""
    compile_groups(policies.kind_of("klucb-cf"))
    before = len(advance_groups.signatures)  # type: ignore[attr-defined]
    assert before > 0
    mask = RandomizedResponse(0.75, 0.75)
    problem = ContextualProblem([[0.5, 0.2], [0.2, 0.5]], [0], 10, corruption=mask)
    policy = (
        make_contextual("klucb-cf", groups=2, arms=2, epsilon=1)
        if context
        else make_policy("klucb-cf", arms=2, corruption=mask)
    )
    Batch(Order(problem, 1, 0, np.array([10])), policy, 1).compile()
    assert len(advance_groups.signatures) == before  # type: ignore[attr-defined]
    assert get_entries(policies.kind_of("klucb-cf").layout, "klucb-cf", ".groups").is_machine_code
