"""Writes `packaging/lock.txt`: what the service needs, with the digests of the files that may be installed.

    python -m scripts.lock          after a change of constraints.txt or of what the service needs

Versions are those of constraints.txt. pip is asked which wheels it would install for each target, and its report has
their digests. No address of a download is written. `pip install --require-hashes --requirement packaging/lock.txt`
then refuses every other file, wherever it comes from.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "packaging" / "lock.txt"
PYTHONS = ("3.11", "3.12")
MACHINES = ("x86_64", "aarch64")
SYSTEMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
EXTRAS = ("service", "postgres")
HEAD = """\
# Versions and digests of all that the service needs, on Linux with Python {pythons}. No download addresses.
# Written by python -m scripts.lock. Install with pip install --require-hashes --only-binary=:all: -r packaging/lock.txt
"""

Hashes = dict[str, set[str]]  # by name and version


def list_requirements(project: Mapping[str, Any]) -> list[str]:
    """Return the requirements of the service and of the build."""
    extras = project["project"]["optional-dependencies"]
    every = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    every += [each for extra in EXTRAS for each in extras[extra] if not each.startswith("maskedbandits")]
    return every


def report(requirements: Iterable[str], python: str, machine: str) -> dict[str, Any]:
    """Return what pip would install for a target."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--dry-run"]
        command += ["--ignore-installed", "--only-binary=:all:", "--target", folder, "--python-version", python]
        command += [part for system in SYSTEMS for part in ("--platform", f"{system}_{machine}")]
        command += ["--constraint", str(ROOT / "constraints.txt"), "--report", f"{folder}/report.json", *requirements]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        found: dict[str, Any] = json.loads(Path(folder, "report.json").read_text(encoding="utf-8"))
        return found


def add(hashes: Hashes, found: Mapping[str, Any]) -> None:
    """Add the digests of a report."""
    for each in found["install"]:
        about, digest = each["metadata"], each["download_info"]["archive_info"]["hashes"]["sha256"]
        name = re.sub(r"[-_.]+", "-", about["name"]).lower()
        hashes.setdefault(f"{name}=={about['version']}", set()).add(digest)


def text(hashes: Hashes) -> str:
    """Return the lock file."""
    lines = [HEAD.format(pythons=" and ".join(PYTHONS))]
    for pinned, digests in sorted(hashes.items()):
        lines.append(" \\\n".join([pinned, *(f"    --hash=sha256:{digest}" for digest in sorted(digests))]) + "\n")
    return "".join(lines)


def main() -> None:
    """Write the lock file."""
    requirements = list_requirements(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    hashes: Hashes = {}
    for python in PYTHONS:
        for machine in MACHINES:
            try:
                add(hashes, report(requirements, python, machine))
            except subprocess.CalledProcessError:
                print(f"lock: left out: no wheels for Python {python} on {machine}", file=sys.stderr)
    LOCK.write_text(text(hashes), encoding="utf-8")


if __name__ == "__main__":
    main()
