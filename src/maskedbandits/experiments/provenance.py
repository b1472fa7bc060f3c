"""Where results come from: versions, machine, and the commit of the experiment's folder, as a reader would ask."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from maskedbandits.simulation.simulator import cores

PACKAGES = ("maskedbandits", "numpy", "numba", "scipy")


def provenance(file: Path, code: str) -> dict[str, str]:
    """Return what is worth knowing of a run of an experiment, in words."""
    told = {"python": platform.python_version()}
    for package in PACKAGES:
        told[package] = version_of(package)
    told["system"] = f"{platform.system()} {platform.release()}, {platform.machine()}, {cores()} cores"
    told["code"] = code
    told["commit"] = commit_of(file.absolute().parent)
    return {key: value for key, value in told.items() if value}


def version_of(package: str) -> str:
    """Return an installed package's version; nothing where there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def commit_of(folder: Path) -> str:
    """Return the commit that a folder stands at, marked if something in it has changed; nothing outside of git."""
    git = shutil.which("git")
    if git is None:
        return ""
    asked = [git, "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603 -- ours
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""
