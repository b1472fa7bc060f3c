"""Ray: an address at which nobody answers, and a cluster that loses a node."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from children import LONGEST, PROGRAM, child, wait_until
from commands import call, refused, small_file
from maskedbandits import experiments
from maskedbandits.errors import UserError
from maskedbandits.experiments import backends, results
from maskedbandits.experiments.progress_bar import SilentWatcher
from small_experiment import same_numbers, write

# A policy that notes which node plays it: workers are children of their raylet.
NOTED = """
import os, pathlib, time
FOLDER = pathlib.Path(__file__).parent

class Noted:
    def __init__(self, generator):
        self.draw = generator.random()
        (FOLDER / f"run-{os.getppid()}-{self.draw}").touch()
        time.sleep(0.05)

    def choose(self):
        return int(self.draw < 0.5)

    def observe(self, arm, feedback):
        pass
"""
SWEEP = """
runs = 40
epsilons = [0.5, 1, 2, 4, 8, inf]
[[problems]]
horizon = 50
means = [0.2, 0.8]
[[policies]]
name = "noted:Noted"
"""


@contextmanager
def answering(words: bytes) -> Iterator[int]:
    """Somebody at a port who gives one answer, whatever is said."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            line, _ = server.accept()
            with line:
                line.recv(1 << 10)
                line.sendall(words)

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        thread.join(LONGEST)


def unused() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_unreachable_ray_address_is_a_one_line_error(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'maskedbandits[ray]'")
    address = unused()
    result = call("run", small_file(tmp_path), "--out", tmp_path / "out", "--backend", "ray", "--address", address)
    refused(result, f"maskedbandits: --address {address}: no Ray answers (connection refused); start one there with")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"???"])
def test_other_server_is_not_taken_for_ray(words: bytes) -> None:
    with answering(words) as port:
        assert backends.probe_ray("127.0.0.1", port) == "what answers is no Ray"


def test_http2_server_is_taken_for_ray() -> None:
    with answering(b"\0\0\0\4\0\0\0\0\0") as port:
        assert backends.resolve_address(f"127.0.0.1:{port}") == f"LOCALHOST:{port}"


def test_silent_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "RAY_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert backends.probe_ray(*server.getsockname()) == "no Ray answers (timed out)"


@pytest.mark.parametrize("address", ["here:", "here:there", "here:0", "here:65536", ":"])
def test_malformed_ray_address_is_an_error(address: str) -> None:
    with pytest.raises(UserError, match=f"{address}.*HOST:PORT"):
        backends.resolve_address(address)


def test_symbolic_ray_addresses_pass_through() -> None:
    for address in ("auto", "ray://somewhere:1"):
        assert backends.resolve_address(address) == address


def nodes_of_ray() -> Any:
    """Two nodes of one core each, on the loopback address."""
    utils = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed: pip install 'maskedbandits[ray]'")
    each = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "include_dashboard": False}
    nodes = utils.Cluster(initialize_head=True, head_node_args=each)
    nodes.add_node(**each)
    return nodes


def runs_of(folder: Path, raylet: int) -> set[str]:
    """Return the names of the runs that a node has played."""
    return {path.name for path in folder.glob(f"run-{raylet}-*")}


@pytest.mark.slow
def test_death_of_ray_node_loses_nothing(tmp_path: Path) -> None:
    write(tmp_path, SWEEP)
    (tmp_path / "noted.py").write_text(NOTED, encoding="utf-8")
    nodes = nodes_of_ray()
    try:
        (second,) = nodes.worker_nodes
        raylet = second.all_processes["raylet"][0].process.pid
        command = [*PROGRAM, "run", tmp_path / "x.toml", "--out", tmp_path / "out", "--no-progress", "--json"]
        with child([*command, "--backend", "ray", "--address", nodes.address]) as process:
            wait_until(lambda: len(runs_of(tmp_path, raylet)) > 10, process)
            os.kill(raylet, signal.SIGKILL)
            _, said = process.communicate(timeout=LONGEST)
    finally:
        nodes.shutdown()
    assert (process.returncode, said) == (0, "")
    elsewhere = results.load(tmp_path / "out")
    assert elsewhere.complete
    here = experiments.run(experiments.load(tmp_path / "x.toml"), tmp_path / "here", SilentWatcher(), command="")
    assert all(same_numbers(a.outcome, b.outcome) for a, b in zip(elsewhere.cells, here.cells, strict=True))
