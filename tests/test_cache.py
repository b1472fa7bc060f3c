"""Machine code is kept where it can be, and nothing that happens to it stops a policy."""

import itertools
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from numba.core import caching

from maskedbandits._numba import cache
from maskedbandits.fingerprint import MACHINE_CODE, package_key

PLAY = (
    "import maskedbandits as mb\n"
    "policy = mb.make_policy('uniform', arms=3, seed=1)\n"
    "for step in range(30): policy.observe(policy.choose(), step % 2)\n"
    "print([policy.choose() for _ in range(10)], policy.entries.is_machine_code)\n"
)
UNWRITABLE = "from maskedbandits._numba import cache\ncache._is_writable = lambda folder: False\n"


IN_CHILD = """
import maskedbandits, os, pathlib
from maskedbandits._numba import cache
from maskedbandits.policies import runtime
print(maskedbandits.__file__)
child = runtime.start_compiler(["uniform"])
assert child.wait(1200) == 0
folder = cache.folder()
private = folder.parent.stat()
temporary = pathlib.Path(os.environ["TMPDIR"])
print(cache.is_stored("uniform"), private.st_mode & 0o777 == 0o700, list(temporary.iterdir()) == [folder.parent])
"""
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="who may write is told otherwise there")


def run(script: str, folder: Path | None, **environment: str) -> subprocess.CompletedProcess[str]:
    place = {} if folder is None else {cache.VARIABLE: str(folder)}
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **place, "MASKEDBANDITS_COMPILE": "now", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def expected() -> str:
    done = run(PLAY, None)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def filled(tmp_path: Path, expected: str) -> Path:
    done = run(PLAY, tmp_path)
    assert done.stdout == expected
    assert "compiling uniform for this machine, once" in done.stderr
    assert list(tmp_path.rglob("*.nbi"))
    return tmp_path


def test_it_lies_where_the_variable_says_and_is_used_again(filled: Path, expected: str) -> None:
    done = run(PLAY, filled)
    assert (done.stdout, done.stderr) == (expected, "")


def test_a_kind_that_only_another_process_knows_is_left_alone(filled: Path, expected: str) -> None:
    """As after somebody's own policy was played."""
    nobodys = b"cmaskedbandits.policies.kinds\nno_such_State\n."
    for file in filled.rglob("*.nbi"):
        with file.open("rb") as stream:
            version, (stamp, kinds) = (pickle.load(stream) for _ in range(2))  # noqa: S301 -- made just now
        file.write_bytes(pickle.dumps(version) + pickle.dumps((stamp, {nobodys: "nobodys.nbc", **kinds})))
    done = run(PLAY, filled)
    assert (done.stdout, done.stderr) == (expected, "")
    done = run(PLAY.replace("'uniform'", "'oracle', restarts=[0], best=[1]"), filled)
    assert done.returncode == 0, done.stderr
    assert all(nobodys in file.read_bytes() for file in filled.rglob("*choose_live*.nbi"))  # also where more was kept


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
def test_damaged_files_are_thrown_away_and_made_anew(filled: Path, expected: str, ending: str, share: float) -> None:
    for file in filled.rglob(f"*{ending}"):
        file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    done = run(PLAY, filled)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected
    assert "Traceback" not in done.stderr
    after = run(PLAY, filled)
    assert after.stdout == expected
    assert "damaged" not in after.stderr


def test_a_full_disk_is_no_reason_to_stop(tmp_path: Path, expected: str) -> None:
    full = (
        "import numba.core.caching as caching\n"
        "def save(*arguments): raise OSError(28, 'No space left on device')\n"
        "caching.IndexDataCacheFile._save_data = save\n"
    )
    other = tmp_path / f"compiled-{package_key(MACHINE_CODE)[: cache.KEY_DIGITS]}" / "another_kind.ready"
    other.parent.mkdir(mode=0o700)
    other.touch()
    done = run(full + PLAY, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected
    assert "no room for machine code (No space left on device)" in done.stderr
    assert list(tmp_path.rglob("*.ready")) == [other]  # what was kept before is still good, and no more was kept


@pytest.mark.parametrize(
    "nowhere",
    [
        "",
        pytest.param(
            "import tempfile\ntempfile.mkdtemp = lambda prefix: open('/nowhere/at/all')\n", marks=pytest.mark.slow
        ),
    ],
)
def test_with_no_folder_at_all_it_runs_and_says_so_once(nowhere: str, expected: str) -> None:
    done = run(UNWRITABLE + nowhere + PLAY, None)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected
    assert done.stderr.count("no folder for machine code can be written to") == 1


def test_a_place_that_cannot_be_is_said_to_be_none(tmp_path: Path, expected: str) -> None:
    (tmp_path / "file").write_text("")
    done = run(PLAY, tmp_path / "file")
    assert done.stdout == expected
    assert done.stderr.count(f"{cache.VARIABLE} = {tmp_path / 'file'} cannot be written to") == 1


def test_a_mode_that_nobody_knows_is_told(tmp_path: Path, expected: str) -> None:
    done = run(PLAY, tmp_path, MASKEDBANDITS_COMPILE="soon")
    assert done.stdout.split("]")[0] == expected.split("]")[0]
    assert "MASKEDBANDITS_COMPILE = 'soon' is taken for background: give now or background" in done.stderr


def test_nobodys_home_is_no_reason_to_stop(expected: str) -> None:
    homeless = "import pathlib\npathlib.Path.home = lambda: (_ for _ in ()).throw(RuntimeError('no home'))\n"
    done = run(homeless + PLAY, None, XDG_CACHE_HOME="")
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected


def test_two_processes_may_compile_at_once(tmp_path: Path, expected: str) -> None:
    environment = {**os.environ, cache.VARIABLE: str(tmp_path), "MASKEDBANDITS_COMPILE": "now"}
    command = [sys.executable, "-c", PLAY]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        assert [one.communicate(timeout=300)[0] for one in both] == [expected] * 2
    finally:
        for one in both:
            one.kill()
            one.wait()


def saved_in_turns(files: type[Any], folder: Path, turns: tuple[int, ...]) -> dict[str, str | None]:
    """Let two save at once, each reading or writing when it is its turn; return what is then kept for each."""
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


def mistaken(files: type[Any], folder: Path) -> int:
    """Return in how many orders of two savers' steps a kind is given the code of another."""
    orders = sorted(set(itertools.permutations([0, 0, 0, 1, 1, 1])))
    assert len(orders) == 20
    found = 0
    for turns in orders:
        place = folder / "".join(map(str, turns))
        place.mkdir()
        kept = saved_in_turns(files, place, turns)
        assert any(kept.values())
        found += any(code not in (None, f"code of {kind}") for kind, code in kept.items())
    return found


def test_what_two_processes_keep_at_the_same_moment_is_not_taken_for_each_other(tmp_path: Path) -> None:
    assert mistaken(cache.KernelFiles, tmp_path) == 0


def test_numba_by_itself_would_take_one_for_the_other(tmp_path: Path) -> None:
    """When it no longer does, ``ApartFiles`` is needed no more."""
    assert mistaken(caching.IndexDataCacheFile, tmp_path) > 0


def test_every_kernel_that_is_kept_has_such_files() -> None:
    kinds = {type(kernel._cache._cache_file) for kernel in cache._kernels}
    assert kinds == {cache.KernelFiles}


def test_code_of_other_versions_is_removed_beside_the_source_and_kept_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "HERE", tmp_path)
    for place, kept in ((tmp_path / "__pycache__", False), (tmp_path / "shared", True)):
        ours, others, strange = (place / f"compiled-{name}" for name in ("0" * 16, "f" * 16, "programs"))
        for folder in (ours, others, strange):
            folder.mkdir(parents=True)
        os.utime(strange, (0, 0))
        cache._remove_stale(ours)
        assert ours.exists()
        assert others.exists() == kept
    os.utime(others, (0, 0))  # long unused
    cache._remove_stale(ours)
    assert not others.exists()
    assert strange.exists()  # somebody else's: it only has a name like ours


@POSIX
def test_what_others_can_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies there is run when it is loaded."""
    folder = tmp_path / "deep" / "compiled-1"
    assert cache._is_writable(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert not cache._is_writable(folder)
    folder.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)  # somebody else has made it
    assert not cache._is_writable(folder)


@POSIX
@pytest.mark.long
def test_with_no_home_children_share_a_private_folder(tmp_path: Path) -> None:
    """Nothing can be written beside the source, nor at home: there are files in the place of folders."""
    installed = tmp_path / "installed" / "maskedbandits"
    shutil.copytree(cache.HERE, installed, ignore=shutil.ignore_patterns("__pycache__"))
    (installed / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    places = {"PYTHONPATH": str(installed.parent), "HOME": str(tmp_path / "home"), "TMPDIR": str(temporary)}
    done = run(IN_CHILD, None, **places, XDG_CACHE_HOME="", MASKEDBANDITS_CACHE="")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(installed / "__init__.py"), "True True True"]
    assert list(temporary.iterdir()) == []  # neither what the child made


@POSIX
def test_an_edit_of_any_source_that_counts_has_another_folder(tmp_path: Path) -> None:
    """Also of ``_numba/internals.py``, which tells the compiler where arrays are; but not of what only shows things."""
    installed = tmp_path / "maskedbandits"
    shutil.copytree(cache.HERE, installed, ignore=shutil.ignore_patterns("__pycache__"))
    tell = "from maskedbandits._numba import cache\nprint(cache.__file__, cache.folder().name)"
    names = []
    for edited in (None, "report/page.py", "_numba/internals.py", "policies/index/scores.py"):
        if edited is not None:
            source = installed / edited
            source.write_text(source.read_text(encoding="utf-8") + "# edited\n", encoding="utf-8")
        done = run(tell, tmp_path / "place", PYTHONPATH=str(tmp_path))
        file, name = done.stdout.split()
        assert Path(file) == installed / "_numba" / "cache.py"
        names.append(name)
    assert names[0] == names[1]
    assert len(set(names)) == 3


@POSIX
@pytest.mark.long
def test_without_sources_on_the_disk_nothing_is_kept(tmp_path: Path, expected: str) -> None:
    """As in an archive."""
    shutil.copytree(cache.HERE, tmp_path / "maskedbandits", ignore=shutil.ignore_patterns("__pycache__"))
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "maskedbandits")
    places = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": ""}
    done = run("print(__import__('maskedbandits').__file__)\n" + PLAY, tmp_path / "place", PYTHONPATH=archive, **places)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{archive}/maskedbandits/__init__.py\n{expected}"
    said = "the sources of maskedbandits cannot be read, so all is compiled in every process; install it unpacked"
    assert done.stderr.count(said) == 1
    assert not list(tmp_path.rglob("*.nb[ic]"))


EDITED = """
from maskedbandits import fingerprint
from maskedbandits.fingerprint import package
package.first_hash = lambda use: "what it was when this process started"
"""


def test_what_is_compiled_after_an_edit_of_this_package_is_not_kept(tmp_path: Path, expected: str) -> None:
    done = run(EDITED + PLAY, tmp_path)
    assert done.stdout == expected
    assert done.stderr.count("the sources of maskedbandits have changed since it was imported") == 1
    assert not [*tmp_path.rglob("*.nbc"), *tmp_path.rglob("*.ready")]


def test_of_your_own_policies_the_code_that_was_used_longest_ago_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MAX_OWN_FILES", 2)
    made: Any = cache.KernelFiles
    files = made(str(tmp_path), "kernel", "stamp")
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
