"""The device's distribution: the same files under another name work alone and beside maskedbandits."""

import importlib.util
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEVICE = ROOT / "packaging" / "device"


def shipped() -> dict[str, Path]:
    """Return every file of the wheel except its metadata, by its path there."""
    wheel = tomllib.loads((DEVICE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    files = {}
    for source, index in [*wheel["force-include"].items(), *((name, name) for name in wheel["packages"])]:
        path = (DEVICE / source).resolve()
        for file in [path] if path.is_file() else path.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                files[str(Path(index) / file.relative_to(path))] = file
    return files


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder to import from, as if the wheel were installed."""
    for index, file in shipped().items():
        (tmp_path / index).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, tmp_path / index)
    return tmp_path


def run(program: str, folder: Path, *paths: Path) -> list[str]:
    """Run a program with the standard library and these folders only."""
    program = f"import sys; sys.path[:0] = {[str(folder), *map(str, paths)]}\n{program}"
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_release_check_works_without_dependencies(installed: Path) -> None:
    specification = importlib.util.spec_from_file_location("check", DEVICE / "check.py")
    assert specification is not None
    assert specification.loader is not None
    check = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(check)
    output = run(check.TRY, installed)
    assert len(output) == 2
    assert all("above the cap of 1" in line for line in output)


def test_every_module_imports_with_library_names(installed: Path) -> None:
    from maskedbandits import device, privacy

    modules = [index.removesuffix(".py").replace("/", ".") for index in shipped() if index.endswith(".py")]
    program = "import maskedbandits_device\n" + "".join(f"import {module}\n" for module in modules)
    assert run(program + "print(*sorted(maskedbandits_device.__all__))", installed) == [
        " ".join(sorted([*privacy.__all__, *device.__all__, "UserError"]))
    ]


def test_policies_and_audit_are_not_shipped(installed: Path) -> None:
    assert not [index for index in shipped() if "audit" in index or "core" in index]
    program = """
from maskedbandits_device import Randomizer, UserError
try:
    Randomizer(1).corruption
except UserError as error:
    print(error)
"""
    assert run(program, installed) == ["corruption is for policies: install maskedbandits to use it"]


def test_both_packages_share_a_ledger(installed: Path) -> None:
    program = """
import maskedbandits.privacy as library
import maskedbandits_device as device
assert device.Ledger is not library.Ledger
with device.Ledger(1, "shared") as ledger:
    ledger.reserve("a", 0.5)
    report = ledger.report("a", 1)
with library.Ledger(1, "shared") as ledger:
    assert ledger.report("a", 0) == report
    print(float(ledger.spent))
"""
    assert run(program, installed, ROOT / "src") == ["0.5"]


def test_wheel_has_these_files(tmp_path: Path) -> None:
    program = f"from hatchling.build import build_wheel; print(build_wheel({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=DEVICE, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        found = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}
    assert found == {index: file.read_bytes() for index, file in shipped().items()}
