"""A plugin with a real browser; tests of pages are skipped without one.

One browser serves all tests that are marked ``one_at_a_time`` and come in a row. While it is open, no test of the
process can run an event loop in the main thread, so it closes before a test without that mark.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

GROUP = "browser"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on the PATH: on Debian, apt-get install chromium"
)
one_at_a_time = pytest.mark.xdist_group(GROUP)

_started: list[Any] = []  # nothing, or the browser that is open
_closing = ExitStack()


@pytest.fixture
def browser(request: pytest.FixtureRequest) -> Any:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    assert _is_in_group(request.node)  # or the browser would stay open for too long
    if not _started:
        playwright = _closing.enter_context(sync_api.sync_playwright())
        _started.append(playwright.chromium.launch(executable_path=CHROMIUM))
        _closing.callback(_started.clear)
        _closing.callback(_started[0].close)
    return _started[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Close the browser after the last test of a row."""
    try:
        return (yield)
    finally:
        if nextitem is None or not _is_in_group(nextitem):
            _closing.close()


def _is_in_group(item: pytest.Item) -> bool:
    return any(mark.args == (GROUP,) for mark in item.iter_markers("xdist_group"))
