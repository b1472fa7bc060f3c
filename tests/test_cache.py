"""Machine code is stored where possible, and no failure of storing it stops a policy."""

import itertools
import os
import pickle
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from numba.core import caching

from fork_server import ForkServer
from helpers.private import hear_messages
from maskedbandits._numba import cache
from maskedbandits.fingerprint import MACHINE_CODE, package, package_key

# A small kernel, which compiles in a fraction of a second, in place of a policy.
LOAD = """
import numba
from maskedbandits._numba import cache
from maskedbandits.math.kl import divergence
kind = getattr(numba, {type!r})
entry = cache.load_entry(divergence, (kind, kind))
cache.mark_stored("divergence")
print(f"{{entry(0.25, 0.5):.6f}}", len(divergence.stats.cache_hits))
"""
COMPILES, LOADS = "0.130812 0\n", "0.130812 1\n"
UNWRITABLE = "from maskedbandits._numba import cache\ncache._is_writable = lambda folder: False\n"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="permissions of files differ there")

Run = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def run(fork_server: ForkServer) -> Run:
    """Return a function that runs a program with a folder for machine code."""

    def run_in(folder: Path | None, before: str = "", kind: str = "float64", **variables: str) -> Any:
        if folder is not None:
            variables = {cache.VARIABLE: str(folder), **variables}
        done = fork_server.run("-c", before + LOAD.format(type=kind), environment=variables)
        assert done.returncode == 0, done.stderr
        return done

    return run_in


@pytest.fixture(scope="module")
def stored(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with machine code, for tests that do not change it."""
    folder = tmp_path_factory.mktemp("stored")
    done = fork_server.run("-c", LOAD.format(type="float64"), environment={cache.VARIABLE: str(folder)})
    assert (done.stdout, done.stderr) == (COMPILES, "")
    assert list(folder.rglob("*.nbi"))
    return folder


@pytest.fixture
def filled(stored: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder, for a test to change."""
    return Path(shutil.copytree(stored, tmp_path / "filled"))


def test_stored_code_is_used_again(stored: Path, run: Run) -> None:
    done = run(stored)
    assert (done.stdout, done.stderr) == (LOADS, "")


def test_entries_of_unknown_kinds_are_skipped_and_stay(filled: Path, run: Run) -> None:
    """Another process may have stored code for a policy that this process lacks."""
    unknown = b"cmaskedbandits.policies.kinds\nno_such_State\n."
    for file in filled.rglob("*.nbi"):
        with file.open("rb") as stream:
            version, (stamp, kinds) = (pickle.load(stream) for _ in range(2))  # noqa: S301 -- written just now
        file.write_bytes(pickle.dumps(version) + pickle.dumps((stamp, {unknown: "unknown.nbc", **kinds})))
    done = run(filled)
    assert (done.stdout, done.stderr) == (LOADS, "")
    assert run(filled, kind="float32").stdout.endswith(" 0\n")
    assert len(list(filled.rglob("*.nbc"))) == 2
    assert all(unknown in file.read_bytes() for file in filled.rglob("*.nbi"))  # also after an entry was added


@pytest.mark.parametrize("share", [pytest.param(0.0, marks=pytest.mark.slow), 0.5])
@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
def test_damaged_files_are_replaced(filled: Path, run: Run, ending: str, share: float) -> None:
    for file in filled.rglob(f"*{ending}"):
        file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    done = run(filled)
    assert done.stdout == COMPILES
    assert "Traceback" not in done.stderr
    run(filled)  # a process that finds damage stores nothing, so the next one does
    after = run(filled)
    assert (after.stdout, after.stderr) == (LOADS, "")


def test_full_disk_does_not_stop_a_policy(tmp_path: Path, run: Run) -> None:
    full = (
        "import numba.core.caching as caching\n"
        "def save(*arguments): raise OSError(28, 'No space left on device')\n"
        "caching.IndexDataCacheFile._save_data = save\n"
    )
    other = tmp_path / f"compiled-{package_key(MACHINE_CODE)[: cache.KEY_DIGITS]}" / "another_kind.ready"
    other.parent.mkdir(mode=0o700)
    other.touch()
    done = run(tmp_path, full)
    assert done.stdout == COMPILES
    assert "no room for machine code (No space left on device)" in done.stderr
    assert list(tmp_path.rglob("*.ready")) == [other]  # stored code stays, and none is added


@pytest.mark.parametrize(
    "nowhere",
    ["", "import tempfile\ntempfile.mkdtemp = lambda prefix: open('/nowhere/at/all')\n"],
    ids=["temporary", "none"],
)
def test_without_a_folder_it_runs_and_warns_once(nowhere: str, run: Run) -> None:
    done = run(None, UNWRITABLE + nowhere)
    assert done.stdout == COMPILES
    assert done.stderr.count("no folder for machine code can be written to") == 1


def test_unusable_folder_is_reported_once(tmp_path: Path, run: Run) -> None:
    (tmp_path / "file").write_text("")
    done = run(tmp_path / "file")
    assert done.stdout.split()[0] == COMPILES.split()[0]
    assert done.stderr.count(f"{cache.VARIABLE} = {tmp_path / 'file'} cannot be written to") == 1


def test_missing_home_does_not_stop_a_policy(run: Run) -> None:
    homeless = "import pathlib\npathlib.Path.home = lambda: (_ for _ in ()).throw(RuntimeError('no home'))\n"
    done = run(None, homeless + UNWRITABLE, XDG_CACHE_HOME="")
    assert done.stdout == COMPILES


def test_two_processes_can_compile_at_once(tmp_path: Path, run: Run) -> None:
    fork = "import atexit, os\nchild = os.fork()\nif child: atexit.register(os.waitpid, child, 0)\n"
    done = run(tmp_path, fork)
    assert [line.split()[0] for line in done.stdout.splitlines()] == [COMPILES.split()[0]] * 2
    assert run(tmp_path).stdout == LOADS


def save_in_turns(files: type[Any], folder: Path, turns: tuple[int, ...]) -> dict[str, str | None]:
    """Let two threads save at once, each step in its turn, and return what is then stored for each."""
    kinds = ("klucb", "ts")
    each = [files(str(folder), "kernel", "stamp") for _ in kinds]
    may, has = [threading.Semaphore(0) for _ in kinds], threading.Semaphore(0)

    def in_turn(who: int, work: Any) -> Any:
        def do(*arguments: Any) -> Any:
            may[who].acquire()
            try:
                return work(*arguments)
            finally:
                has.release()

        return do

    for who, one in enumerate(each):
        for step in ("_load_index", "_save_index", "_save_data"):
            setattr(one, step, in_turn(who, getattr(one, step)))
    both = [
        threading.Thread(target=one.save, args=(kind, f"code of {kind}")) for one, kind in zip(each, kinds, strict=True)
    ]
    for one in both:
        one.start()
    for who in turns:
        may[who].release()
        has.acquire()
    for one in both:
        one.join()
    reader = files(str(folder), "kernel", "stamp")
    return {kind: reader.load(kind) for kind in kinds}


def count_mistakes(files: type[Any], folder: Path) -> int:
    """Return in how many orders of two savers' steps a kind is given the code of another."""
    orders = sorted(set(itertools.permutations([0, 0, 0, 1, 1, 1])))
    assert len(orders) == 20
    mistakes = 0
    for turns in orders:
        location = folder / "".join(map(str, turns))
        location.mkdir()
        codes = save_in_turns(files, location, turns)
        assert any(codes.values())
        mistakes += any(code not in (None, f"code of {kind}") for kind, code in codes.items())
    return mistakes


def test_simultaneous_savers_do_not_mix_up_their_code(tmp_path: Path) -> None:
    assert count_mistakes(cache.KernelFiles, tmp_path) == 0


def test_numba_alone_mixes_up_the_code_of_savers(tmp_path: Path) -> None:
    """Once numba no longer does, ``KernelFiles.save`` can go."""
    assert count_mistakes(caching.IndexDataCacheFile, tmp_path) > 0


def test_every_stored_kernel_uses_our_files() -> None:
    kinds = {type(kernel._cache._cache_file) for kernel in cache._kernels}
    assert kinds == {cache.KernelFiles}


def test_code_of_other_versions_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the source at once, elsewhere after a month."""
    monkeypatch.setattr(cache, "HERE", tmp_path)
    for location, stays in ((tmp_path / "__pycache__", False), (tmp_path / "shared", True)):
        ours, others, strange = (location / f"compiled-{name}" for name in ("0" * 16, "f" * 16, "programs"))
        for folder in (ours, others, strange):
            folder.mkdir(parents=True)
        os.utime(strange, (0, 0))
        cache._remove_stale(ours)
        assert ours.exists()
        assert others.exists() == stays
    os.utime(others, (0, 0))  # long unused
    cache._remove_stale(ours)
    assert not others.exists()
    assert strange.exists()  # not ours: it only has a similar name


@POSIX
def test_folder_that_others_can_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code in the folder is executed when it is loaded."""
    folder = tmp_path / "deep" / "compiled-1"
    assert cache._is_writable(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert not cache._is_writable(folder)
    folder.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)  # another user has created it
    assert not cache._is_writable(folder)


def copy_package(folder: Path) -> Path:
    """Return a copy of this package in a folder."""
    return Path(shutil.copytree(cache.HERE, folder / "maskedbandits", ignore=shutil.ignore_patterns("__pycache__")))


IN_CHILD = """
import maskedbandits, os, pathlib, subprocess, sys
from maskedbandits._numba import cache
print(maskedbandits.__file__)
store = "from maskedbandits._numba import cache; cache.mark_stored('a_kind')"
subprocess.run([sys.executable, "-c", store], env=cache.child_environment(), check=True)
private = cache.folder().parent
temporary = pathlib.Path(os.environ["TMPDIR"])
mode = private.stat().st_mode & 0o777
print(cache.is_stored("a_kind"), mode == 0o700, list(temporary.iterdir()) == [private])
"""


@POSIX
def test_without_a_home_children_share_a_private_folder(tmp_path: Path, fork_server: ForkServer) -> None:
    """Nothing can be written beside the source or at home: there are files in place of folders."""
    installed = copy_package(tmp_path / "installed")
    (installed / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    variables = {"PYTHONPATH": str(installed.parent), "HOME": str(tmp_path / "home"), "TMPDIR": str(temporary)}
    done = fork_server.run("-c", IN_CHILD, environment={**variables, "XDG_CACHE_HOME": "", cache.VARIABLE: ""})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(installed / "__init__.py"), "True True True"]
    assert list(temporary.iterdir()) == []  # also the child's folder is removed


@POSIX
def test_edit_of_a_source_that_counts_changes_the_folder(tmp_path: Path, fork_server: ForkServer) -> None:
    """Also of ``_numba/internals.py``, which locates arrays for the compiler; but not of a report's page."""
    installed = copy_package(tmp_path)
    program = "from maskedbandits._numba import cache\nprint(cache.__file__, cache.folder().name)"
    names = []
    for edited in (None, "report/page.py", "_numba/internals.py", "policies/index/scores.py"):
        if edited is not None:
            source = installed / edited
            source.write_text(source.read_text(encoding="utf-8") + "# edited\n", encoding="utf-8")
        done = fork_server.run(
            "-c", program, environment={cache.VARIABLE: str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
        )
        file, name = done.stdout.split()
        assert Path(file) == installed / "_numba" / "cache.py"
        names.append(name)
    assert names[0] == names[1]
    assert len(set(names)) == 3


@POSIX
def test_without_source_files_nothing_is_stored(tmp_path: Path, run: Run) -> None:
    """As in an archive."""
    copy_package(tmp_path)
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "maskedbandits")
    variables = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": "", "PYTHONPATH": archive}
    done = run(tmp_path / "cache", "print(__import__('maskedbandits').__file__)\n", **variables)
    assert done.stdout == f"{archive}/maskedbandits/__init__.py\n{COMPILES}"
    assert done.stderr.count("the sources of maskedbandits cannot be read") == 1
    assert not list(tmp_path.rglob("*.nb[ic]"))


def test_code_compiled_after_an_edit_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = hear_messages(monkeypatch)
    monkeypatch.setattr(cache, "_kernels", [])  # else those of this process would no longer be stored
    monkeypatch.setattr(package, "first_hash", lambda use: "before the edit")
    files: Any = cache.KernelFiles
    for kind in ("klucb", "ts"):
        files(str(tmp_path), "kernel", "stamp").save(kind, "code")
    assert list(tmp_path.iterdir()) == []
    assert len(said) == 1
    assert "have changed" in said[0]


def test_least_recently_used_own_code_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_OWN_FILES", 2)
    create: Any = cache.KernelFiles
    files = create(str(tmp_path), "kernel", "stamp")
    files.save("ours", "code of ours")
    monkeypatch.setattr(files, "_fingerprint", lambda key: (f"digest of {key}", ""))
    for name in ("a", "b"):
        files.save(name, f"code of {name}")
    for file in tmp_path.glob("*.nbc"):
        os.utime(file, (0, 0))
    files.load("a")
    files.save("c", "code of c")
    assert [files.load(name) for name in ("a", "b", "c")] == ["code of a", None, "code of c"]
    assert len(list(tmp_path.glob(f"*{cache.OWN_SUFFIX}"))) == 2
    monkeypatch.setattr(files, "_fingerprint", lambda key: ("", ""))
    assert files.load("ours") == "code of ours"
