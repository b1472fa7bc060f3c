"""Devices require the standard library alone; missing packages are reported in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

import maskedbandits

SOURCE = Path(maskedbandits.__file__).parent.parent

# Whatever is neither Python's own nor ours is as if it were not installed.
ALONE = f"""
import sys
from importlib.abc import MetaPathFinder

class Blocker(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top != "maskedbandits" and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
sys.path.insert(0, {str(SOURCE)!r})
"""


def alone(program: str, folder: Path) -> str:
    """Run a program on the standard library and this package, and return its output."""
    command = [sys.executable, "-I", "-S", "-c", ALONE + program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


DEVICE = """
from maskedbandits.privacy import KaryRandomizer, Ledger, Overdraft, Randomizer, total_epsilon, total_delta

assert Randomizer(1).bit(0.5) in (0, 1)
assert Randomizer.from_matrix(0.9, 0.8).report(1).bit in (0, 1)
assert KaryRandomizer(4, 1).answer(3) in range(4)
assert 0 < total_epsilon({0.1: 100, 0.5: 20}, 1e-6) < 20
assert 0 < total_delta([0.1] * 100, 4) < 1
for path in (None, "device.ledger"):
    with Ledger(1, path, delta=1e-6) as ledger:
        for decision in range(10):
            ledger.reserve(decision, 0.1)
            assert ledger.report(decision, 1) == ledger.report(decision, 0)
            ledger.settle(decision)
        try:
            ledger.reserve("one more", 0.5)
        except Overdraft as error:
            print(error)
print(sorted(name for name in sys.modules if name.partition(".")[0] in ("numpy", "scipy", "click", "numba")))
"""


def test_device_requires_standard_library_alone(tmp_path: Path) -> None:
    printed = alone(DEVICE, tmp_path).splitlines()
    assert [line.partition(": ")[0] for line in printed[:2]] == ["decision 'one more'"] * 2
    assert printed[2:] == ["[]"]


@pytest.mark.parametrize(
    ("use", "words"),
    [
        ("from maskedbandits.privacy import Randomizer; Randomizer(1).bits([0, 1])", "an array of bits needs numpy"),
        (
            "from maskedbandits.privacy import Randomizer; Randomizer(1).corruption",
            "corruption is for policies: install maskedbandits",
        ),
        ("from maskedbandits.privacy import Randomizer; Randomizer(1).report(1).corruption", "install maskedbandits"),
        ("import maskedbandits.privacy.audit", "an audit requires numpy: pip install"),
    ],
)
def test_missing_packages_are_reported_in_one_line(use: str, words: str, tmp_path: Path) -> None:
    message = alone(
        f"from maskedbandits.errors import UserError\ntry:\n    {use}\nexcept UserError as error:\n    print(error)",
        tmp_path,
    )
    assert words in message
    assert message.count("\n") == 1


def test_unused_packages_are_not_loaded() -> None:
    program = "import sys, maskedbandits.privacy; print('numpy' in sys.modules, 'scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "False False\n"
