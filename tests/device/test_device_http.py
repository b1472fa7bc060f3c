"""Requests to the server: encrypted if asked, to one host only, and with nothing extra."""

import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from device_fakes import Clock, Service, opened, pass_time, raw, serving

from maskedbandits.device.http import HttpClient

pytest_plugins = ["device_fixtures"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate of localhost, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes certificates, is not here")
    folder = tmp_path_factory.mktemp("certificate")
    made, key = folder / "certificate.pem", folder / "key.pem"
    options = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-nodes"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command = [openssl, "req", "-x509", *kind, *options, "-out", str(made), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


def test_tls_requires_a_trusted_certificate(
    certificate: tuple[Path, Path], service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with serving(service, context) as address:
        index = address.replace("http://127.0.0.1", "https://localhost")
        with opened(index) as device:
            assert "CertVerification" in device.decide().why  # signed by nobody whom the system trusts
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        with opened(index) as device:
            assert device.decide().participate
            pass_time(device, clock, 100)
        with opened(address.replace("http", "https")) as device:
            assert "CertVerification" in device.decide().why  # another name
    assert len(service.taken) == 1


def plain(link: socket.socket, _: threading.Event) -> None:
    link.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"arm": "plain"}')


def silence(_: socket.socket, over: threading.Event) -> None:
    over.wait(30)


def drip(link: socket.socket, over: threading.Event) -> None:
    """Begin an encrypted reply that never ends."""
    link.sendall(b"\x16\x03\x03\x3f\xff")
    while not over.wait(0.02):
        link.sendall(b"\x02")


@pytest.mark.parametrize("answer", [plain, silence, drip])
def test_server_without_tls_is_unavailable(answer: Callable[[socket.socket, threading.Event], None]) -> None:
    with raw(answer) as address, opened(address.replace("http", "https"), timeout=0.3) as device:
        decision = device.decide(fallback="default")
    assert (decision.arm, decision.participate) == ("default", False)


def test_plain_reply_without_time_is_accepted() -> None:
    with raw(plain) as address, opened(address) as device:
        assert device.decide().arm == "plain"


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("http://a.example", "http://a.example:80"),
        ("https://A.example/", "https://a.example:443"),
        ("https://a.example:8443/bandits/", "https://a.example:8443/bandits"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_server_has_one_normal_address(url: str, written: str) -> None:
    assert HttpClient(url, None, 1.0).url == written


def test_server_may_be_below_a_path(service: Service) -> None:
    with serving(service) as address, opened(f"{address}/bandits/") as device:
        assert device.decide().arm == "plain"
    assert service.paths == ["/bandits/v1/experiments/headline/decisions"]


def test_proxies_are_ignored(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with opened(url) as device:
        assert device.decide().participate


def test_library_exports_device_lazily() -> None:
    program = "import sys, maskedbandits as mb; mb.Device; print({'numpy', 'numba', 'click'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "set()\n"
