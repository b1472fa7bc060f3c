"""Machine code is kept where it can be, and nothing that happens to it stops a policy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from maskedbandits import cache

PLAY = (
    "import maskedbandits as mb\n"
    "policy = mb.make_policy('uniform', arms=3, seed=1)\n"
    "for step in range(30): policy.observe(policy.choose(), step % 2)\n"
    "print([policy.choose() for _ in range(10)], policy.entries.is_machine_code)\n"
)
UNWRITABLE = "from maskedbandits import cache\ncache._is_writable = lambda folder: False\n"


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


@pytest.mark.parametrize("share", [pytest.param(0.0, marks=pytest.mark.slow), 0.5])
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
        "caching.IndexDataCacheFile.save = save\n"
    )
    done = run(full + PLAY, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected
    assert "no room" in done.stderr


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


def test_code_of_other_versions_is_removed_beside_the_source_and_kept_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "HERE", tmp_path)
    for place, kept in ((tmp_path / "__pycache__", False), (tmp_path / "shared", True)):
        ours, others = place / "compiled-ours", place / "compiled-others"
        ours.mkdir(parents=True)
        others.mkdir()
        cache._remove_stale(ours)
        assert ours.exists()
        assert others.exists() == kept
    os.utime(others, (0, 0))  # long unused
    cache._remove_stale(ours)
    assert not others.exists()


def test_another_source_has_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policies" / "axes").mkdir(parents=True)
    source = tmp_path / "policies" / "axes" / "scores.py"
    source.write_text("one = 1\n")
    monkeypatch.setattr(cache, "HERE", tmp_path)
    before = cache.digest.__wrapped__()
    source.write_text("one = 2\n")
    assert cache.digest.__wrapped__() != before
