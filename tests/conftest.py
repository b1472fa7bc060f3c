import os

os.environ.setdefault("MASKEDBANDITS_COMPILE", "now")  # tests of interpreted starts set another value
os.environ.setdefault("MASKEDBANDITS_SECRET", "the secret of services in tests, which is none")  # no key files here

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # `make test` has a process for each core already

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from fork_server import ForkServer
from helpers.private import forget_shared_cap
from maskedbandits.policies import KINDS
from maskedbandits.policies.runtime import Entries

pytest.register_assert_rewrite("browsers")  # a plugin whose marks are imported before pytest loads it

# No deadlines: the first example of a process may wait for the compiler.
# In CI the same examples each time, so that a new counterexample does not block an unrelated change.
settings.register_profile(
    "full",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.register_profile("quick", settings.get_profile("full"), max_examples=40)  # `make test-slow` tries all
settings.register_profile("few", settings.get_profile("full"), max_examples=5)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def _kind_of(item: pytest.Item) -> str | None:
    """Return the kind of policy in a test's parameters, by its name or its parts."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    name, kind = parameters.get("name"), parameters.get("kind")
    first = parameters.get("before", parameters.get("memory", f"{name}-"))
    names = (name, f"{first}{kind}-cf", f"{kind}-cf")
    return next((each for each in names if isinstance(each, str) and each in KINDS), None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compiled", action="store_true", help="compile also in tests that are marked plain")


@pytest.fixture(autouse=True)
def _plain_kinds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpret all policies in tests that are marked plain."""
    if request.node.get_closest_marker("plain") and not request.config.getoption("--compiled"):
        monkeypatch.setattr(Entries, "prepare", lambda entries: None)


@pytest.fixture(autouse=True)
def _own_cap_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test its own cap for devices without a path, which share one in a process."""
    forget_shared_cap(monkeypatch)


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Start child processes quickly."""
    started = ForkServer()
    yield started
    started.close()


@pytest.fixture(scope="module")
def quick_fonts() -> Iterator[None]:
    """Embed fonts in a pdf quickly: otherwise it takes half of the time of a report."""
    from maskedbandits.report import style

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(style.STYLE, "pdf.fonttype", 3)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process have all tests of a policy that stands alone, which then compiles it once (`make test` runs two).

    Policies on the axes share their machine code, which `scripts/warm.py` compiles before.
    """
    for item in items:
        kind = _kind_of(item)
        if kind is not None and not KINDS[kind].on_axes:
            item.add_marker(pytest.mark.xdist_group(KINDS[kind].layout.name))
    items.sort(key=_sort_key)


def _sort_key(item: pytest.Item) -> int:
    """Return the sort key of a test: long ones come first, so that all processes end together."""
    return 0 if item.get_closest_marker("long") else 1 if _kind_of(item) else 2
