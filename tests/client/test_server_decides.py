"""The example in which a backend decides and the browser reports: with the real service, in a real browser."""

from __future__ import annotations

import importlib.util
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from running import Running, running

from browsers import needs_browser, one_at_a_time
from maskedbandits.service.auth import create_key
from maskedbandits.service.storage import open_store

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
serving = pytest.importorskip("werkzeug.serving", reason="flask is not installed: pip install flask")
pytest.importorskip("uvicorn", reason="the service is not installed: pip install 'maskedbandits[service]'")
pytest_plugins = ["browsers"]
pytestmark = [needs_browser, one_at_a_time]
SITE = Path(__file__).parents[2] / "examples" / "server_decisions" / "layouts.py"
README = SITE.with_name("README.md")


def load_site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("server_decides_site", SITE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Backend:
    """The site on a port, whose service may change."""

    def __init__(self) -> None:
        self.app: Any = None
        self.public_keys: list[str] = []
        self.server = serving.make_server("127.0.0.1", 0, self.answer, threaded=True)
        self.address = f"http://localhost:{self.server.server_port}"

    def answer(self, *request: Any) -> Any:
        """Answer as the present site does."""
        return self.app(*request)


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    made = Backend()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()


def read_experiment() -> dict[str, Any]:
    found = re.search(r"experiments -d '(\{.*?\})'$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    return {**json.loads(found[1]), "policy": "klucb-cf"}  # compiles faster


@pytest.fixture(params=["keys", "no keys"])
def service(request: pytest.FixtureRequest, tmp_path: Path, backend: Backend) -> Iterator[Running]:
    url, keys = f"sqlite:///{tmp_path / 'bandits.db'}", dict.fromkeys(("admin", "backend", "device"), "")
    if request.param == "keys":
        with open_store(url, create=True) as store:
            keys = {role: create_key(store, role, role, 0)[1] for role in keys}
    with running(url, environment={"MASKEDBANDITS_CORS": backend.address}, folder=tmp_path) as started:
        started.wait_until_ready()
        started.key = keys["admin"]
        assert started.ask("POST", "/v1/experiments", read_experiment())[0] == 201
        assert started.ask("POST", "/v1/experiments/layouts/decisions", {})[0] == 200  # compiles
        backend.app = load_site().create_app(started.address, keys["backend"] or None, keys["device"] or None, 60)
        backend.public_keys = [keys["device"]] if keys["device"] else []
        if backend.public_keys:
            started.key = keys["device"]
            assert started.ask("POST", "/v1/experiments/layouts/decisions", {})[0] == 403
            started.key = keys["admin"]
        yield started


def read_status(page: Any) -> str:
    sync_api.expect(page.locator("#status")).not_to_be_empty(timeout=20_000)
    return str(page.locator("#status").inner_text())


def test_backend_decides_and_browser_reports(browser: Any, backend: Backend, service: Running) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.clock.install(time=time.time())
    reports: list[dict[str, Any]] = []
    page.on("request", lambda sent: reports.append(sent.post_data_json) if sent.url.endswith("/v1/reports") else None)
    reply = page.goto(f"{backend.address}/")
    layout = re.search(r'<body class="(list|columns)">', reply.text())  # before any script runs
    assert layout
    assert reply.headers["cache-control"] == "no-store"
    assert re.findall(r"mb_[A-Za-z0-9_-]{43}", reply.text()) == backend.public_keys
    assert read_status(page) == "A masked report follows later."
    page.locator("button").click()
    assert f'<body class="{layout[1]}">' in page.reload().text()
    assert read_status(page) == "A masked report follows later."  # the same promise
    page.locator("button").click()
    for _ in range(400):
        page.clock.run_for(1000)
        page.wait_for_timeout(5)
        state = service.ask("GET", "/v1/experiments/layouts/state")[1]
        if sum(state["reported"]):
            break
    assert sum(state["reported"]) == 1
    assert {report["token"] for report in reports} == {reports[0]["token"]}
    assert sum(state["issued"]) == 2  # with the one that compiled
    page.reload()
    assert "already reported" in read_status(page)
    context.close()


def test_backend_without_service_shows_default_layout(browser: Any, backend: Backend) -> None:
    backend.app = load_site().create_app("http://127.0.0.1:9")
    context = browser.new_context()
    page = context.new_page()
    reply = page.goto(f"{backend.address}/")
    assert '<body class="list">' in reply.text()
    assert read_status(page).startswith("No report is sent: ")
    context.close()
