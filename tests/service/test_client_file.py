"""The client module is served as in client/, to everyone, with an ETag."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import zipfile
from pathlib import Path

import pytest
from web import Client, Reply

from maskedbandits.service import static
from maskedbandits.service.app import App
from maskedbandits.service.server.settings import Settings

ROOT = Path(__file__).parents[2]
FILE = ROOT / "client" / "client.js"


def ask(
    headers: dict[str, str] | None = None,
    method: str = "GET",
    settings: Settings | None = None,
    path: str = "/client.js",
) -> Reply:
    """Ask a service that is still starting: not even a store is needed."""
    return asyncio.run(Client(App(settings or Settings())).ask(method, path, headers=headers))


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


def test_client_is_cached_briefly() -> None:
    assert ask().headers["cache-control"] == "public, max-age=300"


def test_release_of_client_never_changes() -> None:
    plain = ask()
    name = plain.headers["content-location"]
    assert name == f"client.{hashlib.sha256(plain.body).hexdigest()[:32]}.js"
    release = ask(path=f"/{name}")
    assert (release.status, release.body) == (200, plain.body)
    assert release.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("digest", ["0" * 32, "", "abc", "%2e%2e"])
def test_other_release_of_client_gets_404(digest: str) -> None:
    reply = ask(path=f"/client.{digest}.js")
    assert reply.status == 404
    assert "immutable" not in reply.headers.get("cache-control", "")


@pytest.mark.parametrize("accepted", ["gzip", "br, gzip;q=0.5", "GZIP", "*", "deflate,gzip ; q=1"])
def test_client_is_compressed_for_those_who_accept_it(accepted: str) -> None:
    for path in ("/client.js", f"/{ask().headers['content-location']}", "/report-worker.js"):
        plain, reply = ask(path=path), ask({"accept-encoding": accepted}, path=path)
        assert reply.headers["content-encoding"] == "gzip"
        assert gzip.decompress(reply.body) == plain.body
        assert reply.headers["vary"] == plain.headers["vary"] == "accept-encoding"
        assert reply.headers["etag"] != plain.headers["etag"]
        again = ask({"accept-encoding": accepted, "if-none-match": reply.headers["etag"]}, path=path)
        assert (again.status, again.body) == (304, b"")
    assert len(ask({"accept-encoding": accepted}).body) < 0.45 * len(ask().body)


@pytest.mark.parametrize("accepted", ["", "br", "gzip;q=0", "identity", "gzip; q=0.000, br", "*;q=0"])
def test_client_is_plain_for_others(accepted: str) -> None:
    assert "content-encoding" not in ask({"accept-encoding": accepted}).headers


def test_report_worker_is_served() -> None:
    reply = ask(path="/report-worker.js")
    assert (reply.status, reply.body) == (200, (FILE.parent / "report-worker.js").read_bytes())
    assert reply.headers["content-type"] == "text/javascript; charset=utf-8"


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
        for name in ("client.js", "report-worker.js"):
            assert archive.read(f"maskedbandits/service/{name}") == (FILE.parent / name).read_bytes()
