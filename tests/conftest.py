import os

os.environ.setdefault("MASKEDBANDITS_COMPILE", "now")  # a test that starts interpreted says so

import pytest
from hypothesis import HealthCheck, settings

from maskedbandits.policies import KINDS

# No deadlines: the first example of a process may wait for the compiler.
# Where a change is judged (CI), the same examples each time: a new find should not hold up whoever happens to be next.
settings.register_profile(
    "full",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.register_profile("few", settings.get_profile("full"), max_examples=5)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "full"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process have all tests of a kind of policy, which then compiles it once (`make test` runs two)."""
    for item in items:
        name = getattr(item, "callspec", None) and item.callspec.params.get("name")  # type: ignore[attr-defined]
        if isinstance(name, str) and name in KINDS:
            item.add_marker(pytest.mark.xdist_group(KINDS[name].layout.name))
