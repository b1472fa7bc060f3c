"""The client module is served as in client/, to everyone, with an ETag."""

from __future__ import annotations

import asyncio
import zipfile
from pathlib import Path

import pytest
from web import Client, Reply

from maskedbandits.service import static
from maskedbandits.service.app import App
from maskedbandits.service.server.settings import Settings

ROOT = Path(__file__).parents[2]
FILE = ROOT / "client" / "client.js"


def ask(headers: dict[str, str] | None = None, method: str = "GET", settings: Settings | None = None) -> Reply:
    """Ask a service that is still starting: not even a store is needed."""
    return asyncio.run(Client(App(settings or Settings())).ask(method, "/client.js", headers=headers))


def test_client_is_served_as_a_module() -> None:
    reply = ask()
    assert (reply.status, reply.body) == (200, FILE.read_bytes())
    assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
    assert reply.headers["x-content-type-options"] == "nosniff"
    head = ask(method="HEAD")
    assert (head.status, head.body, head.headers["etag"]) == (200, b"", reply.headers["etag"])


def test_client_is_not_sent_again_by_etag() -> None:
    etag = ask().headers["etag"]
    assert len(etag) == 34
    for known in (etag, f'"other", {etag}', f"W/{etag}"):
        reply = ask({"if-none-match": known})
        assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", etag)
        assert "content-length" not in reply.headers
    assert ask({"if-none-match": '"other"'}).status == 200


def test_client_follows_cors() -> None:
    shop = Settings(cors=("https://shop.example",))
    reply = ask({"origin": "https://shop.example"}, settings=shop)
    assert reply.headers["access-control-allow-origin"] == "https://shop.example"
    assert reply.headers["access-control-expose-headers"] == "date, etag, retry-after"
    assert "access-control-allow-origin" not in ask({"origin": "https://other.example"}, settings=shop).headers


def test_installed_service_finds_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert static.find_client() == FILE  # in a checkout
    monkeypatch.setattr(static, "__file__", str(tmp_path / "static.py"))
    (tmp_path / "client.js").write_text("export {}", encoding="utf-8")
    assert static.find_client() == tmp_path / "client.js"


def test_wheel_contains_client(tmp_path: Path) -> None:
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    (wheel,) = builder.build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("maskedbandits/service/client.js") == FILE.read_bytes()
