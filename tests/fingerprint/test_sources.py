"""The files behind a module of your own: all that it imports counts, and what cannot be followed is doubted."""

import importlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from maskedbandits.fingerprint import Origin, trace

HELPER = "helper.py"
SUB = "helpers/sub.py"


class Project:
    """A folder of modules that are imported, edited and imported again."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.names = {"own"}  # of modules here: another test may have imported its own of the same name
        patch.syspath_prepend(str(folder))

    def write(self, name: str, text: str = "ANSWER = 1\n") -> None:
        path = self.folder / name
        self.names.add(Path(name).parts[0].removesuffix(".py"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def forget(self) -> None:
        """Let go of all that is imported from the folder, as a new process would start."""
        for name, module in list(sys.modules.items()):
            parts = vars(module)  # getattr would call a module's own __getattr__, which may warn
            places = [parts.get("__file__") or "", *map(str, parts.get("__path__", ()))]
            is_here = any(place.startswith(str(self.folder)) for place in places)
            if is_here or name.partition(".")[0] in self.names:
                del sys.modules[name]
        importlib.invalidate_caches()

    def origin(self, name: str = "own") -> Origin:
        """Return where a policy comes from, in a process that has just started."""
        self.forget()
        module = importlib.import_module(name)
        return trace((module, ["Policy"]), (module.Policy, None))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = Project(tmp_path, monkeypatch)
    yield made
    made.forget()


POLICY = "\nclass Policy:\n    def choose(self):\n        {}return 0\n"


@pytest.mark.parametrize(
    ("head", "inside", "files"),
    [
        ("import helper", "", [HELPER]),
        ("import helper as h", "", [HELPER]),
        ("from helper import ANSWER", "", [HELPER]),
        ("from helper import *", "", [HELPER]),
        ("import helpers.sub", "", ["helpers/__init__.py", SUB]),
        ("from helpers import sub", "", ["helpers/__init__.py", SUB]),
        ("from helpers import *", "", ["helpers/__init__.py", SUB]),
        ("from helpers.sub import ANSWER", "", ["helpers/__init__.py", SUB]),
        ("import loose.sub", "", ["loose/sub.py"]),
        ("from loose import sub", "", ["loose/sub.py"]),
        ("", "import helper; ", [HELPER]),
        ("", "from helpers import sub; ", ["helpers/__init__.py", SUB]),
        ("", "from loose import sub; ", ["loose/sub.py"]),
        ("", "from helpers.lazy import thing; ", ["helpers/__init__.py", "helpers/lazy.py", HELPER]),
        ("import importlib", "importlib.import_module('helper'); ", [HELPER]),
        ("from importlib import import_module as get", "get('helpers.sub'); ", ["helpers/__init__.py", SUB]),
        ("", "__import__('helper'); ", [HELPER]),
        ("try:\n    import helper\nexcept ImportError:\n    helper = None", "", [HELPER]),
        ("import middle", "", ["middle.py", HELPER]),
        ("from middle import far", "", ["middle.py", HELPER]),
        ("import statistics", "", ["statistics.py"]),  # not that of the standard library
    ],
)
def test_edit_of_an_imported_file_is_seen(project: Project, head: str, inside: str, files: list[str]) -> None:
    for name in (HELPER, "helpers/__init__.py", SUB, "loose/sub.py", "statistics.py", "unrelated.py"):
        project.write(name)
    project.write("helpers/lazy.py", "from helper import *\ndef thing(): return ANSWER\n")
    project.write("middle.py", "from helper import ANSWER\ndef far(): return 1\n")
    if "statistics" in head:
        sys.modules.pop("statistics", None)
    project.write("own.py", head + POLICY.format(inside))
    before = project.origin()
    assert before.doubt == ""
    assert project.origin() == before
    for file in files:
        text = (project.folder / file).read_text(encoding="utf-8")
        project.write(file, text + "# edited\n")
        assert project.origin() != before, file
        project.write(file, text)
    project.write("unrelated.py", "ANSWER = 2\n")
    assert project.origin() == before
    project.write("own.py", head + POLICY.format(inside) + "# edited\n")
    assert project.origin() != before
    sys.modules.pop("statistics", None)


def test_relative_imports_are_followed(project: Project) -> None:
    project.write("pack/__init__.py", "")
    project.write("pack/own.py", "from . import near\nfrom .inner import far\n" + POLICY.format("from . import late; "))
    project.write("pack/near.py")
    project.write("pack/late.py")
    project.write("pack/inner/__init__.py", "")
    project.write("pack/inner/far.py", "from ..deep import ANSWER\n")
    project.write("pack/deep.py")
    before = project.origin("pack.own")
    assert before.doubt == ""
    for name in ("near", "late", "inner/far", "deep"):
        project.write(f"pack/{name}.py", "ANSWER = 2\n")
        assert project.origin("pack.own") != before, name
        project.write(f"pack/{name}.py", "from ..deep import ANSWER\n" if name == "inner/far" else "ANSWER = 1\n")
    assert project.origin("pack.own") == before


def test_packages_around_a_module_count(project: Project) -> None:
    """Python executes them before the module, whether or not it imports them."""
    project.write("shared.py")
    project.write("pack/__init__.py", "")
    project.write("pack/inner/__init__.py", "import shared\n")
    project.write("pack/inner/own.py", POLICY.format("from shared import ANSWER; "))
    before = project.origin("pack.inner.own")
    assert before.doubt == ""
    for name in ("pack/__init__.py", "pack/inner/__init__.py"):
        text = (project.folder / name).read_text(encoding="utf-8")
        project.write(name, text + "import shared\nshared.ANSWER = 2\n")
        assert project.origin("pack.inner.own") != before, name
        project.write(name, text)


def test_helper_edited_after_a_late_import_is_doubted(project: Project) -> None:
    """Its file says another thing than what is played, so numbers of one version would get the key of the other."""
    project.write(HELPER)
    project.write("own.py", POLICY.format("import helper; "))
    before = project.origin()
    module = sys.modules["own"]
    module.Policy().choose()  # imports the helper
    roots = ((module, ["Policy"]), (module.Policy, None))
    assert trace(*roots) == before
    project.write(HELPER, "ANSWER = 2\n")
    assert trace(*roots).doubt == "helper.py was edited after it was imported: start a new process"


def test_function_of_another_module_counts_with_both(project: Project) -> None:
    project.write("own.py", "from helper import Policy\n")
    project.write(HELPER, POLICY.format(""))
    before = project.origin()
    for name, text in (
        ("own.py", "from helper import Policy  # edited\n"),
        (HELPER, POLICY.format("") + "# edited"),
    ):
        project.write(name, text)
        after = project.origin()
        assert after != before
        before = after


def test_packages_that_are_installed_count_by_their_version(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("lib/site-packages/bought/__init__.py", "from bought import parts\n__version__ = '1'\n")
    project.write("lib/site-packages/bought/parts.py", "")
    monkeypatch.syspath_prepend(str(project.folder / "lib" / "site-packages"))
    project.write("own.py", "import bought\n" + POLICY.format(""))
    before = project.origin()
    project.write("lib/site-packages/bought/parts.py", "# edited\n")
    assert project.origin() == before
    project.write("lib/site-packages/bought/__init__.py", "__version__ = '2'\n")
    assert project.origin() != before


def test_installed_policy_counts_with_its_whole_package(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("lib/site-packages/mine/__init__.py", "")
    project.write("lib/site-packages/mine/own.py", "from mine import parts\n" + POLICY.format(""))
    project.write("lib/site-packages/mine/parts.py", "")
    monkeypatch.syspath_prepend(str(project.folder / "lib" / "site-packages"))
    before = project.origin("mine.own")
    project.write("lib/site-packages/mine/parts.py", "# edited\n")
    assert project.origin("mine.own") != before


def test_excluded_file_counts_if_a_policy_imports_it(project: Project) -> None:
    project.write("own.py", "import maskedbandits\n" + POLICY.format(""))
    few = project.origin()
    project.write("own.py", "import maskedbandits.report\n" + POLICY.format(""))
    assert "maskedbandits" not in files_of("import maskedbandits\n", project)
    assert "maskedbandits" in files_of("import maskedbandits.report\n", project)
    assert few.doubt == project.origin().doubt == ""


def files_of(head: str, project: Project) -> set[str]:
    from maskedbandits.fingerprint.sources import collect_sources

    project.write("own.py", head + POLICY.format(""))
    project.forget()
    return set(collect_sources([importlib.import_module("own")]).files)


@pytest.mark.parametrize(
    ("head", "inside", "doubt"),
    [
        ("", "import nowhere; ", "own.py imports nowhere, which cannot be found"),
        ("", "from helper.nowhere import x; ", "own.py imports helper.nowhere, which cannot be found"),
        ("", "from . import x; ", "own.py imports ., which cannot be found"),
        (
            "import importlib, sys",
            "importlib.import_module(sys.argv[0]); ",
            "own.py imports a module whose name is not",
        ),
        ("", "exec('import helper'); ", "own.py runs code that exec finds"),
        ("import runpy", "runpy.run_path('x.py'); ", "own.py runs code that run_path finds"),
        ("from importlib import util", "util.spec_from_file_location('x', 'x.py'); ", "spec_from_file_location finds"),
        ("import lazy", "", "lazy.py is not Python"),
    ],
)
def test_imports_that_cannot_be_followed_are_doubted(project: Project, head: str, inside: str, doubt: str) -> None:
    project.write(HELPER)
    project.write("lazy.py")
    project.write("own.py", head + POLICY.format(inside))
    project.origin()
    if head == "import lazy":
        (project.folder / "lazy.py").write_text("def (")  # after it was imported
        found = trace((sys.modules["own"], ["Policy"]))
    else:
        found = project.origin()
    assert doubt in found.doubt


@pytest.mark.parametrize(
    "head",
    [
        "try:\n    import nowhere\nexcept ModuleNotFoundError:\n    pass",
        "import contextlib\nwith contextlib.suppress(ImportError):\n    import nowhere",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nowhere",
        "import typing\nif typing.TYPE_CHECKING:\n    import nowhere",
        "import sys\nif sys.platform == 'vms':\n    import winreg",
    ],
)
def test_optional_import_counts_once_it_exists(project: Project, head: str) -> None:
    project.write("own.py", head + POLICY.format(""))
    before = project.origin()
    assert before.doubt == ""
    project.write("nowhere.py")
    assert (project.origin() != before) == ("nowhere" in head)


def test_sources_in_an_archive_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for number, content in enumerate(("ANSWER = 1", "ANSWER = 1", "ANSWER = 2")):
        path = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("zipped_own.py", "import zipped_helper\n" + POLICY.format(""))
            archive.writestr("zipped_helper.py", content)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(path))
            found.append(trace((importlib.import_module("zipped_own"), ["Policy"])))
            del sys.modules["zipped_own"], sys.modules["zipped_helper"]
    assert [origin.doubt for origin in found] == [""] * 3
    assert found[0] == found[1] != found[2]


def test_a_source_that_is_gone_is_doubted(project: Project) -> None:
    project.write("own.py", POLICY.format(""))
    project.origin()
    (project.folder / "own.py").unlink()
    assert trace((sys.modules["own"], ["Policy"])).doubt == "the source of own.py cannot be read"


def test_nothing_of_ours_is_your_own() -> None:
    from maskedbandits.policies import auto, kernels

    assert trace((auto, ["choose"]), (kernels.advance, None), (kernels.World, None), (len, None)) == Origin()
