"""Static files for browsers: public, the same for everyone, without any data of an experiment.

Starlette's static files are not used: their ETag depends on the time of a file, so it would differ between machines,
and they add headers such as Last-Modified and Accept-Ranges.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

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
)
REVALIDATE: Header = (b"cache-control", b"no-cache")  # browsers ask whether the file has changed, and get 304 if not
BRIEFLY: Header = (b"cache-control", b"public, max-age=300")  # a page needs no reply for a client that it had just now
FOREVER: Header = (b"cache-control", b"public, max-age=31536000, immutable")  # the name has the digest of the file
DASHBOARD = Path(__file__).with_name("dashboard") / "page"
CLIENT = "client.js"
REPORT_WORKER = "report-worker.js"


def find_client(name: str = CLIENT) -> Path:
    """Return the path of a file of the client: beside this file in a wheel, in ``client/`` in a checkout."""
    installed = Path(__file__).with_name(name)
    return installed if installed.exists() else Path(__file__).parents[3] / "client" / name


class StaticFile(NamedTuple):
    """A file in both encodings, with the digest of its content."""

    media_type: bytes
    digest: str
    plain: bytes
    gzipped: bytes


@cache
def load_file(path: Path) -> StaticFile:
    """Return a file, which is read and compressed once."""
    body = path.read_bytes()
    digest = hashlib.sha256(body).hexdigest()[:32]
    return StaticFile(MEDIA_TYPES[path.suffix], digest, body, gzip.compress(body, mtime=0))


def serve_file(request: Request, path: Path, caching: Header = REVALIDATE, extra: Sequence[Header] = ()) -> Response:
    """Return a file, compressed if the client accepts that, or 304 if the client has the same one."""
    file, asked = load_file(path), dict(request.scope["headers"])
    is_gzipped = _accepts_gzip(asked.get(b"accept-encoding", b""))
    etag = b'"%b%b"' % (file.digest.encode(), b"-gzip" if is_gzipped else b"")
    headers = [(b"content-type", file.media_type), (b"etag", etag), (b"vary", b"accept-encoding")]
    if is_gzipped:
        headers.append((b"content-encoding", b"gzip"))
    known = {each.strip().removeprefix(b"W/") for each in asked.get(b"if-none-match", b"").split(b",")}
    is_known = etag in known  # a proxy that compresses adds W/
    body = b"" if is_known else file.gzipped if is_gzipped else file.plain
    return Response(304 if is_known else 200, body, (*headers, *SECURITY_HEADERS, caching, *extra))


def serve_client(request: Request) -> Response:
    """Return the client module. Its ``Content-Location`` is the name under which it never changes."""
    path = find_client()
    location = (b"content-location", name_client(load_file(path).digest).encode())
    return serve_file(request, path, BRIEFLY, [location])


def serve_report_worker(request: Request) -> Response:
    """Return the service worker of the client, for sites that have the service below their own address."""
    return serve_file(request, find_client(REPORT_WORKER), BRIEFLY)


def serve_client_for_ever(request: Request) -> Response:
    """Return the client module under a name with its digest; other digests are other releases."""
    path = find_client()
    if request.params["digest"] != load_file(path).digest:
        raise RequestError(404, "this service has another release of the client: use /client.js, or your own copy")
    return serve_file(request, path, FOREVER)


def name_client(digest: str) -> str:
    """Return the file name of the client module with a digest."""
    return f"client.{digest}.js"


def _accepts_gzip(header: bytes) -> bool:
    """Tell whether an ``Accept-Encoding`` header allows gzip."""
    weights = {}
    for each in header.lower().split(b","):
        name, _, weight = each.replace(b" ", b"").partition(b";q=")
        weights[name] = weight
    weight = weights.get(b"gzip", weights.get(b"*", b"0"))
    return not re.fullmatch(rb"0(\.0*)?", weight)


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
