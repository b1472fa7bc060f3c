import json
import re
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from scripts import lock, release_check, sbom
from scripts.release_check import UnfitError, call, check_contents, distributions, find_strays

import maskedbandits

SDIST = {"CHANGELOG.md", "LICENSE", "Makefile", "PKG-INFO", "README.md", "docs/a.md", "experiments/a.toml"}
SDIST |= {"client/client.js", "src/maskedbandits/a.py", "src/maskedbandits/py.typed", "tests/test_a.py"}
WHEEL = {"maskedbandits/a.py", "maskedbandits/py.typed", "maskedbandits/service/client.js"}


def test_complete_archives_pass() -> None:
    assert not [*check_contents(SDIST, WHEEL, SDIST - {"PKG-INFO"})]
    assert not [*check_contents(SDIST, WHEEL, None)]
    assert not [*find_strays(WHEEL)]


def test_missing_and_stray_files_are_named() -> None:
    without_tests = {name for name in SDIST if not name.startswith("tests/")}
    assert [*check_contents(without_tests, WHEEL, None)] == ["the sdist lacks tests/"]
    assert [*check_contents(SDIST | {"notes.txt"}, WHEEL, SDIST)] == [
        "the sdist holds notes.txt, which git does not know"
    ]
    assert [*check_contents(SDIST, WHEEL - {"maskedbandits/a.py"}, None)] == ["the wheel lacks maskedbandits/a.py"]
    assert [*check_contents(SDIST, WHEEL | {"tests/a.py"}, None)] == ["the wheel holds tests/a.py"]
    assert [*find_strays(WHEEL | {"maskedbandits/__pycache__/a.pyc"})] == [
        "the wheel holds maskedbandits/__pycache__/a.pyc"
    ]


def test_distributions_are_root_and_packaging(tmp_path: Path) -> None:
    assert distributions()[0].name == "maskedbandits"
    for folder in (tmp_path, tmp_path / "packaging" / "small"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pyproject.toml").write_text('[project]\nname = "x"\n', encoding="utf-8")
    (tmp_path / "packaging" / "nothing").mkdir()
    assert [one.folder for one in distributions(tmp_path)] == [tmp_path, tmp_path / "packaging" / "small"]


def test_client_digest_matches_integrity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as archive:
        archive.writestr(release_check.CLIENT, "alert('Hello, world.');")
    parts: list[dict[str, Any]] = [
        {
            "Name": "maskedbandits",
            "Version": "1",
            "Summary": "Bandits",
            "License-Expression": "Apache-2.0",
            "Needs": ["Num_Py>=2", "maskedbandits[x]"],
        },
        {"Name": "Num.Py", "Version": "2.0", "Summary": None, "License-Expression": None, "Needs": ["unheard-of"]},
        {"Name": "pip", "Version": "3", "Summary": None, "License-Expression": None, "Needs": []},
    ]
    release_check.publish(tmp_path / "release", parts, tmp_path / "some.whl")
    # The example of the recommendation, Subresource Integrity, section 1.
    digest = "sha384-H8BRh8j48O9oYatfu5AZzq6A9RINhZO5H16dQZngK7T62em8MUt1FLm52t+eX6xO"
    assert digest in capsys.readouterr().out
    assert (tmp_path / "release" / "client.js.integrity").read_text() == f"{digest}\n"
    found = json.loads((tmp_path / "release" / "sbom.json").read_text())
    assert found["metadata"]["component"]["purl"] == "pkg:pypi/maskedbandits@1"
    assert [each["purl"] for each in found["components"]] == ["pkg:pypi/num-py@2.0"]
    assert found["dependencies"] == [
        {"ref": "pkg:pypi/maskedbandits@1", "dependsOn": ["pkg:pypi/num-py@2.0"]},
        {"ref": "pkg:pypi/num-py@2.0", "dependsOn": []},
    ]


def test_sbom_lists_all_dependencies() -> None:
    """Of this one: whatever a component needs and is installed is a component, too, once."""
    found = sbom.build_bill(sbom.list_installed(Path(sys.executable)), "maskedbandits")
    listed = [each["purl"] for each in found["components"]] + [found["metadata"]["component"]["purl"]]
    assert len(listed) == len(set(listed))
    assert any(each.startswith("pkg:pypi/numba@") for each in listed)
    assert {each for line in found["dependencies"] for each in [line["ref"], *line["dependsOn"]]} == set(listed)


def test_lock_pins_every_dependency_with_digests() -> None:
    text = lock.LOCK.read_text(encoding="utf-8")
    assert "://" not in text
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", text, re.MULTILINE))
    entries = re.findall(r"^\S+==\S+ \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", text, re.MULTILINE)
    assert len(entries) == len(locked) == text.count("==")
    root = release_check.ROOT
    pinned = {
        re.sub(r"[-_.]+", "-", name).lower(): version
        for name, version in re.findall(r"^([\w.-]+)==(\S+)$", (root / "constraints.txt").read_text(), re.MULTILINE)
    }
    assert locked.items() <= pinned.items()
    needs = lock.list_requirements(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8")))
    assert {re.split(r"[\[>=<;]", need)[0] for need in needs} <= set(locked)


def test_lock_is_sorted_and_unique() -> None:
    hashes: lock.Hashes = {}
    for digest in ("bb", "aa", "bb"):
        entry = {"metadata": {"name": "Some_Thing", "version": "1"}}
        lock.add(hashes, {"install": [{**entry, "download_info": {"archive_info": {"hashes": {"sha256": digest}}}}]})
    assert lock.text(hashes).endswith("some-thing==1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n")


def test_failed_program_is_a_one_line_error() -> None:
    assert call(sys.executable, "-c", "raise SystemExit(2)", code=2) == ""
    with pytest.raises(UnfitError, match=r"with 1, not 0.*why$"):
        call(sys.executable, "-c", "raise ValueError('why')")


@pytest.mark.slow  # `make release-check` does the same with what is released
def test_service_is_tried(tmp_path: Path) -> None:
    release_check.smoke_service(Path(sys.executable).parent, tmp_path)
    assert (tmp_path / "bandits.db").exists()
    assert '"stopped"' in (tmp_path / "log").read_text(encoding="utf-8")


def test_service_that_does_not_start_fails_check(tmp_path: Path) -> None:
    program = tmp_path / "maskedbandits"
    program.write_text(f"#!{sys.executable}\nprint('no')\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(UnfitError, match="where it listens"):
        release_check.smoke_service(tmp_path, tmp_path)


def test_version_is_the_same_everywhere() -> None:
    project = (release_check.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    citation = (release_check.ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r'^version = "(.*)"', project, re.MULTILINE) == [maskedbandits.__version__]
    assert re.findall(r"^version: (.*)", citation, re.MULTILINE) == [maskedbandits.__version__]
