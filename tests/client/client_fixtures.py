"""Fixtures of a site, a service and a browser, for modules that name them in ``pytest_plugins``."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any

import pytest
from client_site import EXPERIMENT, Shop, Site
from running import Running, running


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://localhost:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, shop: str) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    storage, allowed = f"sqlite:///{folder / 'bandits.db'}", {"MASKEDBANDITS_CORS": shop}
    with running(storage, environment=allowed, folder=folder) as started:
        started.wait_until_ready()
        # compile the first decision now, as it would take from the time until report_at
        assert started.ask("POST", "/v1/experiments", {**EXPERIMENT, "name": "first"})[0] == 201
        assert started.ask("POST", "/v1/experiments/first/decisions", {})[0] == 200
        yield started


@pytest.fixture
def site(browser: Any, shop: str, service: Running, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A site with a new experiment; unexpected messages of the browser fail the test."""
    name = re.sub("[^a-z]+", "-", request.node.name)[:60].strip("-")
    assert service.ask("POST", "/v1/experiments", {**EXPERIMENT, "name": name})[0] == 201
    made = Site(browser, shop, service, name)
    yield made
    made.context.close()
    assert made.complaints == []
