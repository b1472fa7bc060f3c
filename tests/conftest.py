import os

os.environ.setdefault("MASKEDBANDITS_COMPILE", "now")  # a test that starts interpreted says so
os.environ.setdefault("MASKEDBANDITS_SECRET", "the secret of services in tests, which is none")  # no key files here

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from maskedbandits.policies import KINDS
from maskedbandits.policies.entries import Entries
from maskedbandits.privacy.ledger import file

pytest.register_assert_rewrite("browsers")  # a plugin whose marks are imported, too, before pytest comes to it

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

# Of what is left, these are made of memories, indices and detectors that others in `make test` have as machine code.
# Here they are interpreted, which takes a fraction of a second for what is tried here; simulations of them, which wait
# for machine code, are slow tests. `make test-slow` has all of it compiled (`--compiled`).
PLAIN = {"cusum-klucb-cf", "ph-klucb-cf", "m-ts-cf", "ucb-cf", "sw-ucb-cf", "klucb-plus-cf", "sw-ts-cf"}
PLAIN |= {"oracle-ucb-cf", "ldp-ucb-b", "oracle-klucb-plus-cf"}  # under other names
PLAIN_IN = {  # what these ask for is compiled in parts of its own
    "test_arms": {"sw-klucb-cf", "ts-cf"},
    "test_arms_twins": {"sw-klucb-cf", "d-ucb-cf", "glr-klucb-cf"},
    "test_fold": {"sw-klucb-cf"},
    "test_live_groups": {"klucb-cf", "ts-cf"},
    "test_contextual": {"klucb-cf"},
    "test_learnt_shares": {"klucb-cf"},
    "test_signs": {"klucb-cf"},
}
SIMULATED = ("tests/test_digests.py", "tests/policies/test_pending.py::TestDelay")

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
    names = (name, f"{first}{kind}-cf", f"{kind}-cf")
    return next((each for each in names if isinstance(each, str) and each in KINDS), None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compiled", action="store_true", help="have machine code of every kind of policy")


@pytest.fixture(autouse=True)
def _plain_kinds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave some kinds, and all in tests that are marked plain, without machine code."""
    kinds = PLAIN | PLAIN_IN.get(request.path.stem, set())
    plain = _kind_of(request.node) in kinds or request.node.get_closest_marker("plain") is not None
    if plain and not request.config.getoption("--compiled"):
        monkeypatch.setattr(Entries, "get_ready", lambda entries: None)


@pytest.fixture(autouse=True)
def _own_cap_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a cap of its own for devices without a path, which share one in a process."""
    monkeypatch.setattr(file, "_OF_PROCESS", {})


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
        if kind in PLAIN and item.nodeid.startswith(SIMULATED):
            item.add_marker(pytest.mark.slow)
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """Return when a test has its turn: what takes long comes first, so that all processes end together."""
    return 0 if item.get_closest_marker("long") else 1 if _kind_of(item) else 2
