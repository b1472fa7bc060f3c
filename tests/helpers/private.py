"""The one place where tests name private attributes of policies, devices, ledgers and stores.

A test uses it only where the public interface hides what it must see or disturb. `tests/test_suite.py` checks that no
other test names such an attribute.
"""

from typing import Any

from maskedbandits.contextual import Contextual
from maskedbandits.features import Featured
from maskedbandits.policies import Policy


def live_state(policy: Policy | Contextual | Featured) -> Any:
    """Return the arrays that a policy works on: twins compare them, and tests of damage change them."""
    return policy._state


def part_policies(policy: Contextual) -> list[Policy]:
    """Return the policy of each part of each level, the coarsest first."""
    return policy._policies


def live_levels(policy: Contextual) -> Any:
    """Return what a policy over groups knows of its levels."""
    return policy._grains


def lock_of(policy: Policy | Featured) -> Any:
    """Return the lock that threads and forks wait for."""
    return policy._lock


def replace_lock(policy: Policy, lock: Any) -> None:
    """Let a policy wait for another lock."""
    policy._lock = lock
