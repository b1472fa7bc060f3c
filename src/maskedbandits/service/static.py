"""Files that a browser fetches: the same for everybody, without a key, and with nothing of any experiment in them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from maskedbandits.service.http import Answer, Header, Refused
from maskedbandits.service.routes_admin import Endpoint, Request

KINDS = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
}
# A page may run its own script, take its own style, and ask this service: nobody else, whatever somebody names an arm.
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
GUARDED: tuple[Header, ...] = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),  # a new version of the package is a new page; the same is not sent again
)
CLIENT = "client.js"  # in a wheel it is beside this file, in a checkout where it is written


def client() -> Path:
    """Return where the module is that runs on people's pages."""
    installed = Path(__file__).with_name(CLIENT)
    return installed if installed.exists() else Path(__file__).parents[3] / "client" / CLIENT


@cache
def content(path: Path) -> Answer:
    """Return a file as it is sent, with its digest; it is read when it is first asked for, and kept."""
    body = path.read_bytes()
    digest = (b"etag", b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode())
    return Answer(200, body, ((b"content-type", KINDS[path.suffix]), digest, *GUARDED))


def fetched(ask: Request, path: Path) -> Answer:
    """Return a file, or that whoever asks has it as it is."""
    found = content(path)
    asked = dict(ask.scope["headers"]).get(b"if-none-match", b"")
    known = {each.strip().removeprefix(b"W/") for each in asked.split(b",")}  # a proxy that packs it marks it so
    return found._replace(status=304, body=b"") if dict(found.headers)[b"etag"] in known else found


def file(path: Path, extra: Sequence[Header] = ()) -> Endpoint:
    """Return what answers with a file."""

    async def run(ask: Request) -> Answer:
        found = fetched(ask, path)
        return found._replace(headers=(*found.headers, *extra))

    return Endpoint("static", "", run)


def folder(path: Path) -> Endpoint:
    """Return what answers with a file of a folder, whose name stands in the path of the request."""
    known = {each.name: each for each in path.iterdir() if each.suffix in KINDS}

    async def run(ask: Request) -> Answer:
        if ask.params["file"] not in known:
            raise Refused(404, "there is no such file here: GET /dashboard is the page")
        return fetched(ask, known[ask.params["file"]])

    return Endpoint("static", "", run)


def elsewhere(location: str) -> Endpoint:
    """Return what sends a browser on to another path, told from where it is: a proxy may have put something before."""

    async def run(ask: Request) -> Answer:
        return Answer(307, b"", ((b"location", location.encode()),))

    return Endpoint("static", "", run)
