import re
import sys
from pathlib import Path

import pytest
from scripts import release_check
from scripts.release_check import UnfitError, call, contents_complaints, distributions, strays

import maskedbandits

SDIST = {"CHANGELOG.md", "LICENSE", "Makefile", "PKG-INFO", "README.md", "docs/a.md", "experiments/a.toml"}
SDIST |= {"client/client.js", "src/maskedbandits/a.py", "src/maskedbandits/py.typed", "tests/test_a.py"}
WHEEL = {"maskedbandits/a.py", "maskedbandits/py.typed", "maskedbandits/service/client.js"}


def test_whole_archives_are_fit() -> None:
    assert not [*contents_complaints(SDIST, WHEEL, SDIST - {"PKG-INFO"})]
    assert not [*contents_complaints(SDIST, WHEEL, None)]
    assert not [*strays(WHEEL)]


def test_what_lacks_or_strays_is_named() -> None:
    without_tests = {name for name in SDIST if not name.startswith("tests/")}
    assert [*contents_complaints(without_tests, WHEEL, None)] == ["the sdist lacks tests/"]
    assert [*contents_complaints(SDIST | {"notes.txt"}, WHEEL, SDIST)] == [
        "the sdist holds notes.txt, which git does not know"
    ]
    assert [*contents_complaints(SDIST, WHEEL - {"maskedbandits/a.py"}, None)] == ["the wheel lacks maskedbandits/a.py"]
    assert [*contents_complaints(SDIST, WHEEL | {"tests/a.py"}, None)] == ["the wheel holds tests/a.py"]
    assert [*strays(WHEEL | {"maskedbandits/__pycache__/a.pyc"})] == ["the wheel holds maskedbandits/__pycache__/a.pyc"]


def test_the_root_and_what_is_in_packaging_are_distributions(tmp_path: Path) -> None:
    assert distributions()[0].name == "maskedbandits"
    for folder in (tmp_path, tmp_path / "packaging" / "small"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pyproject.toml").write_text('[project]\nname = "x"\n', encoding="utf-8")
    (tmp_path / "packaging" / "nothing").mkdir()
    assert [one.folder for one in distributions(tmp_path)] == [tmp_path, tmp_path / "packaging" / "small"]


def test_a_program_that_fails_is_told_in_one_line() -> None:
    assert call(sys.executable, "-c", "raise SystemExit(2)", code=2) == ""
    with pytest.raises(UnfitError, match=r"ended with 1, not 0: ValueError: why$"):
        call(sys.executable, "-c", "raise ValueError('why')")


@pytest.mark.slow  # `make release-check` does the same with what is released
def test_a_service_is_tried(tmp_path: Path) -> None:
    release_check.smoke_service(Path(sys.executable).parent, tmp_path)
    assert (tmp_path / "bandits.db").exists()
    assert '"stopped"' in (tmp_path / "log").read_text(encoding="utf-8")


def test_a_service_that_does_not_start_is_not_fit(tmp_path: Path) -> None:
    program = tmp_path / "maskedbandits"
    program.write_text(f"#!{sys.executable}\nprint('no')\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(UnfitError, match=r"says 'no\\n', and not where it listens"):
        release_check.smoke_service(tmp_path, tmp_path)


def test_all_places_that_name_the_version_agree() -> None:
    project = (release_check.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    citation = (release_check.ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r'^version = "(.*)"', project, re.MULTILINE) == [maskedbandits.__version__]
    assert re.findall(r"^version: (.*)", citation, re.MULTILINE) == [maskedbandits.__version__]
