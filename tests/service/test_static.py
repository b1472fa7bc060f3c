"""Static files: public, without data, and loading nothing from other sites."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from web import Served

from maskedbandits.report.style import COLOURS, DARK_COLOURS
from maskedbandits.service import static

pytest_plugins = ["service_fixtures"]

FILES = sorted(path.name for path in static.DASHBOARD.iterdir())


def test_dashboard_is_public_and_without_data(served: Served) -> None:
    reply = served.get("/dashboard", headers={"host": "elsewhere.example", "x-forwarded-for": "203.0.113.9"})
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert b"headline" not in reply.body


def test_dashboard_is_served_while_starting(served: Served) -> None:
    registry, served.app.registry = served.app.registry, None
    try:
        assert served.get("/dashboard").status == 200
        assert served.get("/v1/live").status == 503
    finally:
        served.app.registry = registry


@pytest.mark.parametrize("name", FILES)
def test_every_file_has_security_headers(served: Served, name: str) -> None:
    headers = served.get(f"/dashboard/{name}").headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[f"{kind}-src"] for kind in ("script", "style", "connect")} == {"'self'"}
    assert policy["frame-ancestors"] == "'self'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_other_files_get_404(served: Served) -> None:
    for name in ("nothing.js", "__init__.py", "..%2fapp.py", "%2e%2e", "dashboard.css%00"):
        reply = served.get(f"/dashboard/{name}")
        assert reply.status == 404
        assert reply.error


def test_root_redirects_to_dashboard(served: Served) -> None:
    reply = served.get("/")
    assert (reply.status, reply.headers["location"], reply.body) == (307, "dashboard", b"")


@pytest.mark.parametrize("name", FILES)
def test_page_loads_nothing_foreign_and_writes_no_markup(name: str) -> None:
    text = (static.DASHBOARD / name).read_text(encoding="utf-8")
    assert set(re.findall(r"\w+://[^\s\"'`]*", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|localStorage", text)
    assert len(text.splitlines()) < 300


def test_plot_colours_match_report() -> None:
    text = Path(static.DASHBOARD / "dashboard.css").read_text(encoding="utf-8")
    found = re.findall(r"--series-(\d): (#\w+)", text)
    assert found == [
        (str(n), colour.lower()) for colours in (COLOURS, DARK_COLOURS) for n, colour in enumerate(colours)
    ]
