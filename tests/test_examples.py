"""The tutorials and the examples of `examples/` run."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from running import running
from scripts import tutorials

from browsers import needs_browser, one_at_a_time
from maskedbandits.privacy import Randomizer

pytest_plugins = ["browsers"]
EXAMPLES = Path(__file__).parents[1] / "examples"
EXPECTED = {
    "first_bandit": "Most shown: headline 1",
    "headline_test": "2000 reports received",
    "reproduce_paper": "corrected window at epsilon 1:",
    "private_groups": "best arm by group: [0 1 1]",
    "own_policy": "The contract is kept.",
}


def load_module(path: Path) -> ModuleType:
    """Return an example as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
@pytest.mark.parametrize("path", tutorials.list_tutorials(), ids=lambda path: path.stem)
def test_tutorial_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = tutorials.run_tutorial(path)
    pyplot.close("all")
    assert EXPECTED[path.stem] in "".join(cell.printed for cell in cells)
    page, figures = tutorials.render_page(path.stem, cells)
    assert page.startswith("# ")
    assert all(f"]({name})" in page for name in figures)
    notebook = tutorials.render_notebook(cells)
    assert [cell["cell_type"] for cell in notebook["cells"]].count("code") == sum(not cell.is_text for cell in cells)


def test_every_tutorial_is_listed() -> None:
    assert {path.name for path in tutorials.list_tutorials()} == {path.name for path in tutorials.FOLDER.glob("*.py")}
    assert [path.stem for path in tutorials.list_tutorials()] == [*EXPECTED]


def test_failing_cell_fails_tutorial() -> None:
    (cell,) = tutorials.split_cells("# %%\n1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        tutorials.run_cell(cell, {})


def test_text_cells_lose_their_comment_signs() -> None:
    text, code = tutorials.split_cells("# ---\n# header\n# ---\n# %% [markdown]\n# # Title\n#\n# Text\n\n# %%\n6 * 7\n")
    assert text == tutorials.Cell("# Title\n\nText", is_text=True)
    assert tutorials.run_cell(code, {}).printed == "42\n"


def test_backend_learns_from_one_report_per_decision(tmp_path: Path) -> None:
    pytest.importorskip("flask", reason="flask is not installed")
    module = load_module(EXAMPLES / "server_decisions" / "app.py")
    saved = tmp_path / "policy"
    client = module.create_app(saved, "klucb-cf").test_client()
    randomizer = Randomizer(module.EPSILON)
    for _ in range(module.SAVE_EVERY):
        decision = client.post("/decisions").get_json()
        assert decision["headline"] in module.HEADLINES
        report = {"decision": decision["decision"], "bit": randomizer.bit(1)}
        assert client.post("/reports", json=report).get_json() == {"status": "accepted"}
        assert client.post("/reports", json=report).status_code == 400
    assert client.post("/reports", json={"decision": "unknown", "bit": 1}).status_code == 400
    assert module.create_app(saved).test_client().get("/state").get_json()["reports"] == module.SAVE_EVERY
    with client.get("/client.js") as script, client.get("/") as page:
        assert b"export function masked" in script.data
        assert b"/client.js" in page.data


@needs_browser
@one_at_a_time
def test_backend_page_reports_masked_bit(browser: Any, tmp_path: Path) -> None:
    """The page runs in a browser, whose requests go to the backend. Its clock skips ten seconds."""
    pytest.importorskip("flask", reason="flask is not installed")
    module = load_module(EXAMPLES / "server_decisions" / "app.py")
    client = module.create_app(tmp_path / "policy", "klucb-cf").test_client()

    def answer(route: Any) -> None:
        sent = route.request
        path = "/" + sent.url.split("/", 3)[3]
        with client.open(path, method=sent.method, data=sent.post_data, content_type="application/json") as reply:
            route.fulfill(status=reply.status_code, body=reply.data, content_type=reply.content_type)

    page = browser.new_page()
    page.clock.install()
    page.route("**/*", answer)
    page.goto("http://127.0.0.1:1/")
    page.get_by_role("heading", name=re.compile("|".join(map(re.escape, module.HEADLINES)))).wait_for()
    page.get_by_role("button").click()
    assert client.get("/state").get_json()["pending"] == 1
    page.clock.run_for(10_000)
    page.get_by_text(re.compile(r"Sent: [01]\. accepted")).wait_for()
    assert client.get("/state").get_json()["reports"] == 1
    page.close()


@needs_browser
@one_at_a_time
def test_static_page_takes_part(browser: Any, tmp_path: Path) -> None:
    """The page, its experiment and its addresses are those of the example. Only the port differs."""
    readme = (EXAMPLES / "static_page" / "README.md").read_text(encoding="utf-8")
    page_text = (EXAMPLES / "static_page" / "index.html").read_text(encoding="utf-8")
    for hurried, patient in {"giveUp, 1000": "giveUp, 60000", "maxEpsilon: 1": "maxEpsilon: 1, timeout: 60"}.items():
        assert hurried in page_text
        page_text = page_text.replace(hurried, patient)  # this machine may be slow
    config = re.search(r"experiments -d '(\{.*?\})'$", readme, re.DOTALL | re.MULTILINE)
    assert config is not None
    origin = "http://127.0.0.1:8000"
    assert f"MASKEDBANDITS_CORS={origin} maskedbandits serve" in readme
    with running("sqlite:///bandits.db", environment={"MASKEDBANDITS_CORS": origin}, folder=tmp_path) as service:
        service.wait_until_ready()
        created, _ = service.ask("POST", "/v1/experiments", json.loads(config[1]))
        assert created == 201
        page = browser.new_page()
        page.route(f"{origin}/", lambda route: route.fulfill(body=page_text, content_type="text/html"))
        page.route("http://127.0.0.1:8080/**", lambda route: forward(route, service.address))
        page.goto(f"{origin}/")
        page.get_by_text("A masked report follows later.").wait_for()
        page.close()


def forward(route: Any, address: str) -> None:
    """Send a request of the page to the service under test."""
    reply = route.fetch(url=route.request.url.replace("http://127.0.0.1:8080", address))
    route.fulfill(response=reply)


def test_research_script_writes_every_run(tmp_path: Path) -> None:
    script = EXAMPLES / "research_script" / "compare_epsilons.py"
    options = ["--epsilons", "1", "--horizon", "400", "--runs", "3", "--out", str(tmp_path)]
    subprocess.run([sys.executable, str(script), *options], check=True, capture_output=True, timeout=600)
    with (tmp_path / "regret.csv").open(encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    assert len(rows) == 9
    assert {row["epsilon"] for row in rows} == {"1.0"}
    assert (tmp_path / "regret_1.png").stat().st_size > 1000
