"""Send one request to the server and read its reply, in bounded time and size.

Each request opens a connection to the host that the application named and to no other: redirections are rejected. A
request contains no cookies, no user agent and nothing of a proxy.
"""

import copy
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..errors import UserError, WrongValueError

MAX_REPLY_BYTES = 1 << 20  # longer replies are truncated, and then not JSON


class ServerUnavailable(Exception):  # noqa: N818 - reads as an error already
    """The server sent no usable reply."""


class HttpReply(NamedTuple):
    """Status and content of a reply."""

    status: int
    content: Any


class HttpClient:
    """Send requests to one server."""

    def __init__(self, url: str, key: str | None, timeout: float) -> None:
        self.url, self._host, self._port, self._path, secure = parse_url(url)
        self._secure = ssl.create_default_context() if secure else None
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key is not None:
            if not (isinstance(key, str) and key.isascii() and key.isprintable() and key and " " not in key):
                raise UserError("invalid key: give the text that `maskedbandits key create` printed")
            self._headers["Authorization"] = f"Bearer {key}"

    def with_timeout(self, timeout: float) -> "HttpClient":
        """Return a client of the same server with another timeout."""
        other = copy.copy(self)
        other._timeout = timeout
        return other

    def post(self, path: str, content: Mapping[str, Any], length: int = 0) -> HttpReply:
        """Post JSON, padded with blanks to ``length``. Raise ``ServerUnavailable`` unless JSON arrives in time."""
        body = encode_body(content).ljust(length)
        try:
            status, text = self._exchange(self._path + path, body)
            return HttpReply(status, _parse_json(text))
        except (OSError, http.client.HTTPException) as error:  # a time-out and a wrong certificate are OSErrors
            raise ServerUnavailable(
                f"the server is unreachable, or slower than {self._timeout:g} s: {type(error).__name__}"
            ) from error
        except (ValueError, RecursionError) as error:
            raise ServerUnavailable("the server's reply is not JSON") from error

    def _exchange(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a body; return status and body of the reply."""
        end = time.monotonic() + self._timeout
        with socket.create_connection((self._host, self._port), self._timeout) as plain:
            connected_socket = plain
            if self._secure is not None:
                connected_socket = self._secure.wrap_socket(
                    plain, server_hostname=self._host, do_handshake_on_connect=False
                )
            # A socket's timeout restarts with every byte, so a slow sender could hold the connection for ever.
            deadline = threading.Timer(max(end - time.monotonic(), 0), _shut_down, [connected_socket])
            deadline.daemon = True
            deadline.start()
            connection = http.client.HTTPConnection(self._host, self._port)
            connection.sock = connected_socket
            try:
                if isinstance(connected_socket, ssl.SSLSocket):
                    connected_socket.do_handshake()
                connection.request("POST", path, body, self._headers)
                response = connection.getresponse()
                return response.status, response.read(MAX_REPLY_BYTES)
            finally:
                deadline.cancel()
                connection.close()


def encode_body(content: Mapping[str, Any]) -> bytes:
    """Encode the body of a request."""
    return json.dumps(content, separators=(",", ":")).encode()


def _shut_down(connected_socket: socket.socket) -> None:
    """End a connection that another thread is waiting for."""
    try:
        socket.socket.shutdown(connected_socket, socket.SHUT_RDWR)
    except OSError:  # it has ended already
        return


def _parse_json(text: bytes) -> Any:
    """Parse standard JSON, which has neither NaN nor infinities."""
    return json.loads(text, parse_constant=_reject_constant)


def _reject_constant(constant: str) -> None:
    raise ValueError(constant)


def parse_url(url: Any) -> tuple[str, str, int, str, bool]:
    """Return the normalised address, host, port, path prefix, and whether it is encrypted."""
    expected = "an address such as https://bandits.example.org"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except (ValueError, TypeError, AttributeError):
        raise WrongValueError("url", url, expected) from None
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable() or " " in url:
        raise WrongValueError("url", url, expected)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise UserError(f"url must not contain a user, query or fragment: give {expected}, and a key with key=")
    secure, path = parts.scheme == "https", parts.path.rstrip("/")
    number = port or (443 if secure else 80)
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{number}{path}", host, number, path, secure
