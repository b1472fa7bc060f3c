"""Results tell where they come from."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from maskedbandits.experiments import results
from maskedbandits.experiments.cache_key import code_key
from maskedbandits.experiments.runner import commit_of, version_of
from small_experiment import run, write


def git(folder: Path, *words: str) -> str:
    given = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org", *words]
    return subprocess.run(given, check=True, capture_output=True, text=True).stdout.strip()


def test_results_keep_it(tmp_path: Path) -> None:
    run(write(tmp_path), tmp_path / "out", runs=1)
    told = results.load(tmp_path / "out").manifest.provenance
    assert told["numpy"] == np.__version__
    assert told["code"] == code_key()
    assert "cores" in told["system"]
    assert "commit" not in told


def test_the_commit_is_that_of_the_folder(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-q", "-m", "a")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(tmp_path) == head
    (tmp_path / "a").write_text("2")
    assert commit_of(tmp_path) == f"{head}-dirty"


def test_what_is_not_there_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commit_of(tmp_path) == ""
    assert version_of("no-such-package-at-all") == ""
    monkeypatch.setenv("PATH", "")
    assert commit_of(tmp_path) == ""


def test_one_that_is_none_is_refused(tmp_path: Path) -> None:
    run(write(tmp_path), tmp_path / "out", runs=1)
    index = tmp_path / "out" / "results.json"
    index.write_text(
        index.read_text(encoding="utf-8").replace('"python": "', '"python": 3, "other": "'), encoding="utf-8"
    )
    with pytest.raises(ValueError, match="provenance"):
        results.load(tmp_path / "out")
