"""Bytes on a socket of a real service."""

from __future__ import annotations

import signal
import socket
from urllib.parse import urlsplit

from running import Running

from children import LONGEST, wait_until


def connected(service: Running) -> socket.socket:
    place = urlsplit(service.address)
    assert place.hostname
    assert place.port
    return socket.create_connection((place.hostname, place.port), timeout=LONGEST)


def received(wire: socket.socket) -> bytes:
    found = b""
    while True:
        try:
            piece = wire.recv(65_536)
        except ConnectionResetError:
            return found
        if not piece:
            return found
        found += piece


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: localhost", *lines, "", ""]).encode()


def is_ready(wire: socket.socket) -> bool:
    """Tell whether the worker at the other end is ready."""
    wire.sendall(head("GET", "/readyz"))
    found = b""
    while not found.endswith(b"}"):  # the body may come after the head
        piece = wire.recv(65_536)
        assert piece, found
        found += piece
    return found.startswith(b"HTTP/1.1 200 ")


def is_closed(service: Running) -> bool:
    """Tell whether a connection is refused at once, instead of waiting."""
    try:
        connected(service).close()
    except ConnectionRefusedError:
        return True
    return False


def stop_during_request(service: Running, wire: socket.socket) -> None:
    """Stop a service while it reads a request, which still gets its answer."""
    wait_until(lambda: is_ready(wire), service.process)  # its own worker, which may be the slower one
    wire.sendall(head("POST", "/v1/experiments/none/decisions", "content-length: 2") + b"{")
    assert service.ask("GET", "/healthz")[0] == 200  # by now the request has begun
    service.process.send_signal(signal.SIGTERM)
    wait_until(lambda: is_closed(service), service.process)  # no new connection is accepted
    wire.sendall(b"}")
    assert received(wire).startswith(b"HTTP/1.1 404 ")
