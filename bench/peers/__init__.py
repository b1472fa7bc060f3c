"""The libraries that the speed benchmark is measured against, each in a virtual environment of its own.

    from bench import peers

    seconds = peers.measure(peers.SMPYBANDITS, "sw", steps=20_000, window=2085).seconds_per_step

`measure` makes the environment under `.peers/` at its first use, starts the peer's side of the benchmark
there (`smpybandits_side.py`, `pymab_side.py`) as a process with one thread, and returns what that printed: so
calls for the peers and timings of ours can alternate in one run. This file is imported on both sides, by
interpreters with different libraries: it needs the standard library alone.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".peers"

MEANS = (0.9, 0.8)
"""The problem that every side plays: Bernoulli rewards, the first arm with mean 0.9, all others 0.8."""

ONE_THREAD = dict.fromkeys(
    (
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "RAYON_NUM_THREADS",
    ),
    "1",
)


class PeerError(Exception):
    """A peer could not be installed or measured; the message is one line."""


@dataclass(frozen=True)
class Peer:
    """A library to be measured against, and what can be measured of it."""

    name: str
    """Of the environment's folder; `<name>_side.py` and `requirements-<name>.txt` belong to it."""
    version: str
    measures: tuple[str, ...]
    newest_python: tuple[int, int]
    """The last Python for which the pinned versions come as binary wheels; 3.11 is the first."""

    @property
    def folder(self) -> Path:
        """Its virtual environment."""
        return ENVIRONMENTS / self.name

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return self.folder / "bin" / "python"

    @property
    def requirements(self) -> Path:
        """The exact versions to install."""
        return Path(__file__).with_name(f"requirements-{self.name}.txt")


SMPYBANDITS = Peer("smpybandits", "0.9.7", ("sw", "sw-as-installed", "glr", "glr-lazy"), (3, 12))
PYMAB = Peer("pymab", "2.0.1", ("sw", "live", "live-handle"), (3, 14))


@dataclass(frozen=True)
class Measurement:
    """What a peer's side prints, as one line of JSON."""

    what: str
    seconds_per_step: float
    cpu_seconds_per_step: float
    """Less disturbed than the clock on the wall when other programs share the core."""
    steps: int
    """Steps timed."""
    arms: int
    window: int | None
    """None where there is no window."""
    version: str
    """Of the peer, as it reports it."""
    how: str
    """What of the peer was called, and in which configuration."""


def measure(peer: Peer, what: str, *, steps: int, window: int = 2000, arms: int = 10) -> Measurement:
    """Measure one thing of a peer in its own interpreter, installing the peer first if need be."""
    if what not in peer.measures:
        raise PeerError(f"{peer.name} has no measure {what!r}: expected one of {', '.join(peer.measures)}")
    python = prepare(peer)
    command = [str(python), "-m", f"bench.peers.{peer.name}_side", "--what", what]
    command += ["--steps", str(steps), "--window", str(window), "--arms", str(arms)]
    # A PYTHONPATH or user site of the person who runs the benchmark must not mix other versions in.
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    environment |= ONE_THREAD | {"PYTHONNOUSERSITE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"measuring {peer.name} {what} failed: {_last_line(done.stderr)}")
    try:
        result = Measurement(**json.loads(done.stdout))
    except (ValueError, TypeError):
        raise PeerError(f"measuring {peer.name} {what} gave no result: {_last_line(done.stdout)}") from None
    if result.version != peer.version:
        raise PeerError(
            f"{peer.folder} holds {peer.name} {result.version}, not {peer.version}: delete it and try again"
        )
    return result


def prepare(peer: Peer) -> Path:
    """Return the peer's interpreter; install it first, unless these requirements are there already."""
    wanted = peer.requirements.read_text(encoding="utf-8")
    stamp = peer.folder / ".installed"
    if peer.python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return peer.python
    base = _base_python(peer)
    where = peer.folder.relative_to(ROOT)
    print(f"Installing {peer.name} {peer.version} in {where}, once; waiting for pip ...", flush=True)
    pip = [str(peer.python), "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-input", "install"]
    _install_step(peer, [base, "-m", "venv", "--clear", str(peer.folder)])
    _install_step(peer, [*pip, "--no-deps", "--requirement", str(peer.requirements)])
    stamp.write_text(wanted, encoding="utf-8")
    return peer.python


def _base_python(peer: Peer) -> str:
    """Find an interpreter for which the peer's pinned versions exist: this one, or another on the PATH."""
    if sys.version_info[:2] <= peer.newest_python:
        return sys.executable
    names = [f"python3.{minor}" for minor in range(peer.newest_python[1], 10, -1)]
    for name in names:
        found = shutil.which(name)
        # Version managers put a python3.x on the PATH that only says it is not selected: so try it.
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    raise PeerError(f"{peer.name} {peer.version} needs an older Python than this one: none of {', '.join(names)} found")


def _install_step(peer: Peer, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"cannot install {peer.name} {peer.version}: {_last_line(done.stderr or done.stdout)}")


def _last_line(text: str) -> str:
    """Return the line that says most: pip's last error, else the last line of a traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it said nothing"])[-1].removeprefix("ERROR:").strip()


# What the two sides share.


def arguments(peer: Peer) -> argparse.Namespace:
    """Read the command line of a peer's side: what, steps, window, arms."""
    parser = argparse.ArgumentParser(description=f"Measure {peer.name} {peer.version}; print one line of JSON.")
    parser.add_argument("--what", choices=peer.measures, required=True)
    parser.add_argument("--steps", type=int, required=True, help="steps to time")
    parser.add_argument("--window", type=int, default=2000)
    parser.add_argument("--arms", type=int, default=10)
    return parser.parse_args()


def means(arms: int) -> list[float]:
    """Return the means of the arms."""
    return [MEANS[0]] + [MEANS[1]] * (arms - 1)


def measure_seconds(action: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of wall clock and of this process that an action takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - cpu


def report(options: argparse.Namespace, seconds: tuple[float, float], version: str, how: str) -> None:
    """Print the one line of JSON that `measure` reads."""
    wall, cpu = seconds
    result = Measurement(
        what=options.what,
        seconds_per_step=wall / options.steps,
        cpu_seconds_per_step=cpu / options.steps,
        steps=options.steps,
        arms=options.arms,
        window=None if options.what.startswith("glr") else options.window,
        version=version,
        how=how,
    )
    print(json.dumps(asdict(result)))
