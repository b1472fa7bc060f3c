"""Builds the wheel of the device, and tries it in an empty environment: `python packaging/device/check.py VERB`."""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).parent
TRY = """
import maskedbandits_device as device

assert device.Randomizer(1).report(1).bit in (0, 1)
assert device.KaryRandomizer(3, 1).answer(2) in (0, 1, 2)
for _ in range(2):  # the second time is after a restart
    with device.Ledger(1, "device.ledger") as ledger:
        for decision in range(10):
            ledger.reserve(decision, 0.1)
            assert ledger.report(decision, 1) == ledger.report(decision, 0)
        try:
            ledger.reserve("one more", 0.1)
        except device.Overdraft as error:
            print(error)
nobody = "http://127.0.0.1:9"  # the port where everything is thrown away
with device.Device(nobody, "headlines", path="device.ledger", cap=1, max_epsilon=1, timeout=1) as own:
    decision = own.decide(fallback="plain")
    assert (decision.arm, decision.participate, decision.report(1)) == ("plain", False, False)
"""


def build(folder: str) -> None:
    """Build the wheel into a folder, with the backend that pip fetches or that is installed."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", folder, str(HERE)], check=True)  # noqa: S603 - this Python's own pip


def attempt(wheel: str) -> None:
    """Install a wheel into an empty environment, without any index, draw reports, and say how large it is."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", wheel]
        subprocess.run(pip, check=True)  # noqa: S603 - as above
        done = subprocess.run([python, "-I", "-c", TRY], cwd=folder, check=True, capture_output=True, text=True)  # noqa: S603
        assert done.stdout.count("above the cap of 1") == 2, done.stdout  # noqa: S101 - that is what it is for
        installed = [file for file in folder.rglob("maskedbandits_device*/**/*") if file.is_file()]
        code = [file for file in installed if "__pycache__" not in file.parts]
        sys.stdout.write(
            f"works; {size(code)} installed, {size(installed)} with compiled files, wheel {size([Path(wheel)])}\n"
        )


def size(files: list[Path]) -> str:
    """Return how large files are together."""
    return f"{sum(file.stat().st_size for file in files) / 1000:.0f} kB"


if __name__ == "__main__":
    {"build": build, "try": attempt}[sys.argv[1]](sys.argv[2])
