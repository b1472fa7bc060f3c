"""Static files for browsers: public, the same for everyone, without any data of an experiment.

Starlette's static files are not used: their ETag depends on the time of a file, so it would differ between machines,
and they add headers such as Last-Modified and Accept-Ranges.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from maskedbandits.service.http import Header, Request, RequestError, Response

MEDIA_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
}
# A page may run its own script, use its own style, and call this service. Names of arms cannot make it load anything.
CONTENT_SECURITY_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
SECURITY_HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),  # browsers ask whether the file has changed, and get 304 if not
)
DASHBOARD = Path(__file__).with_name("dashboard") / "page"
CLIENT = "client.js"


def find_client() -> Path:
    """Return the path of the client module: beside this file in a wheel, in ``client/`` in a checkout."""
    installed = Path(__file__).with_name(CLIENT)
    return installed if installed.exists() else Path(__file__).parents[3] / "client" / CLIENT


@cache
def load_file(path: Path) -> Response:
    """Return a file as a response, with a digest as its ETag; it is read once."""
    body = path.read_bytes()
    etag = (b"etag", b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode())
    return Response(200, body, ((b"content-type", MEDIA_TYPES[path.suffix]), etag, *SECURITY_HEADERS))


def serve_file(request: Request, path: Path, extra: Sequence[Header] = ()) -> Response:
    """Return a file, or 304 if the client has the same one."""
    response = load_file(path)
    header = dict(request.scope["headers"]).get(b"if-none-match", b"")
    known = {etag.strip().removeprefix(b"W/") for etag in header.split(b",")}  # a proxy that compresses adds W/
    if dict(response.headers)[b"etag"] in known:
        response = response._replace(status=304, body=b"")
    return response._replace(headers=(*response.headers, *extra))


@cache
def list_files(folder: Path) -> dict[str, Path]:
    """Return the files of a folder that may be served, by name."""
    return {path.name: path for path in folder.iterdir() if path.suffix in MEDIA_TYPES}


def serve_from(request: Request, folder: Path) -> Response:
    """Return the file of a folder that the path of a request names."""
    files, name = list_files(folder), request.params["file"]
    if name not in files:
        raise RequestError(404, "no such file: the page is at GET /dashboard", code="unknown_path")
    return serve_file(request, files[name])


def redirect(location: str) -> Response:
    """Return a redirect to a relative path, which stays valid behind a proxy with a prefix."""
    return Response(307, b"", ((b"location", location.encode()),))
