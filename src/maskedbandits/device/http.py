"""One question to the server and its answer, in a bounded time and of a bounded size.

A connection is made for each question, to the host that the application named and to no other: a redirection is an
answer that cannot be used. Nothing but what is asked goes out: no cookies, no name of the program, nothing of a proxy.
"""

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..errors import UserError, WrongValueError

LARGEST = 1 << 20  # bytes of an answer; a longer one is cut, and then no JSON


class Away(Exception):  # noqa: N818 - what the server is
    """The server gave no answer that can be used."""


class Answer(NamedTuple):
    """What the server said, and what time it is there, if it said that."""

    status: int
    content: Any
    date: float | None


class Wire:
    """The way to one server."""

    def __init__(self, url: str, key: str | None, timeout: float) -> None:
        self.url, self._host, self._port, self._path, secure = _parts(url)
        self._secure = ssl.create_default_context() if secure else None
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key is not None:
            if not (isinstance(key, str) and key.isascii() and key.isprintable() and key and " " not in key):
                raise UserError("the key is none: give the text that `maskedbandits key create` printed")
            self._headers["Authorization"] = f"Bearer {key}"

    def post(self, path: str, content: Mapping[str, Any], length: int = 0) -> Answer:
        """Ask one question; ``Away`` if no JSON comes back within the time. Blanks make it as long as is asked for."""
        body = written(content).ljust(length)
        try:
            status, date, text = self._exchanged(self._path + path, body)
            return Answer(status, _read(text), _moment(date))
        except (OSError, http.client.HTTPException) as error:  # a time-out and a wrong certificate are OSErrors
            raise Away(f"the server is away, or slower than {self._timeout:g} s: {type(error).__name__}") from error
        except (ValueError, RecursionError) as error:
            raise Away("the server's answer is not JSON") from error

    def _exchanged(self, path: str, body: bytes) -> tuple[int, str | None, bytes]:
        """Send a body and return status, date and body of the answer."""
        end = time.monotonic() + self._timeout
        with socket.create_connection((self._host, self._port), self._timeout) as plain:
            link = plain
            if self._secure is not None:
                link = self._secure.wrap_socket(plain, server_hostname=self._host, do_handshake_on_connect=False)
            # A socket's own limit begins anew with every byte: who sends one a second would never be done.
            cut = threading.Timer(max(end - time.monotonic(), 0), _cut, [link])
            cut.daemon = True
            cut.start()
            connection = http.client.HTTPConnection(self._host, self._port)
            connection.sock = link
            try:
                if isinstance(link, ssl.SSLSocket):
                    link.do_handshake()
                connection.request("POST", path, body, self._headers)
                answer = connection.getresponse()
                return answer.status, answer.getheader("Date"), answer.read(LARGEST)
            finally:
                cut.cancel()
                connection.close()


def written(content: Mapping[str, Any]) -> bytes:
    """Return what is sent."""
    return json.dumps(content, separators=(",", ":")).encode()


def _cut(link: socket.socket) -> None:
    """End a connection under the hands of whoever waits for it."""
    try:
        socket.socket.shutdown(link, socket.SHUT_RDWR)
    except OSError:  # it has just ended by itself
        return


def _read(text: bytes) -> Any:
    """Return JSON as the standard has it: without NaN and infinities."""
    return json.loads(text, parse_constant=_refused)


def _refused(constant: str) -> None:
    raise ValueError(constant)


def _moment(date: str | None) -> float | None:
    """Return the time that an answer says it is."""
    parts = parsedate_tz(date) if date is not None and date.endswith("GMT") else None
    try:
        return None if parts is None else float(mktime_tz(parts))
    except (ValueError, OverflowError):
        return None


def _parts(url: str) -> tuple[str, str, int, str, bool]:
    """Return an address as it is written down, host, port, what every path begins with, and whether it is encrypted."""
    wanted = "an address such as https://bandits.example.org"
    try:
        found = urlsplit(url)
        host, port = found.hostname or "", found.port
        host.encode("idna")
    except (ValueError, TypeError, AttributeError):
        raise WrongValueError("url", url, wanted) from None
    if found.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable() or " " in url:
        raise WrongValueError("url", url, wanted)
    if found.username is not None or found.password is not None or found.query or found.fragment:
        raise UserError(f"the url has more in it than a place: give {wanted}, and a key as key=")
    secure, path = found.scheme == "https", found.path.rstrip("/")
    place = port or (443 if secure else 80)
    shown = f"[{host}]" if ":" in host else host
    return f"{found.scheme}://{shown}:{place}{path}", host, place, path, secure
