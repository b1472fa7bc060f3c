import os

os.environ.setdefault("MASKEDBANDITS_COMPILE", "now")  # a test that starts interpreted says so

from collections.abc import Iterator

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


# Memories and detectors go with every index in the same way, and a kind takes a quarter of a minute to compile. `make
# test` has all memories, detectors and indices, and leaves these pairs to `make test-slow`.
RARE_PAIRS = {
    *("cusum-ucb-cf", "cusum-ts-cf", "ph-ts-cf", "ph-ucb-cf", "m-klucb-cf", "m-ucb-cf"),
    *("d-klucb-plus-cf", "sw-klucb-plus-cf", "glr-ucb-cf", "glr-ts-cf", "d-ts-cf", "d-klucb-cf"),
}

# What a service asks of a policy is compiled in parts of its own, for each kind again: `make test` has some kinds, and
# beside their twins one of each memory and index, and a detector; `make test-slow` has all of those that are offered.
USUAL = {"auto", "klucb-cf", "ts-cf", "sw-klucb-cf"}
ASKED_BY_SERVICES = {
    "test_arms": USUAL,
    "test_fold": USUAL,
    "test_arms_twins": USUAL | {"d-ucb-cf", "glr-klucb-cf"},
}


def _kind_of(item: pytest.Item) -> str | None:
    """Return the kind of policy that a test plays: by its name, or by its parts."""
    told = item.callspec.params if hasattr(item, "callspec") else {}
    name, kind = told.get("name"), told.get("kind")
    first = told.get("before", told.get("memory", f"{name}-"))
    return next((each for each in (name, f"{first}{kind}-cf") if isinstance(each, str) and each in KINDS), None)


@pytest.fixture(scope="module")
def quick_fonts() -> Iterator[None]:
    """Figures whose fonts are put into a pdf in no time: half of what a report takes goes into them otherwise."""
    from maskedbandits.report import figures

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(figures.STYLE, "pdf.fonttype", 3)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process have all tests of a kind of policy, which then compiles it once (`make test` runs two)."""
    for item in items:
        kind = _kind_of(item)
        if kind is not None:
            item.add_marker(pytest.mark.xdist_group(KINDS[kind].layout.name))
        usual = ASKED_BY_SERVICES.get(item.path.stem)
        if kind in RARE_PAIRS or (kind is not None and usual is not None and kind not in usual):
            item.add_marker(pytest.mark.slow)
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """Return when a test has its turn: what takes long comes first, so that all processes end together."""
    return 0 if item.get_closest_marker("long") else 1 if _kind_of(item) else 2
