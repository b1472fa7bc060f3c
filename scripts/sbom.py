"""A software bill of materials: the distributions of an environment, as a CycloneDX 1.6 document.

It has no times and no random numbers, so the same environment gives the same document.
"""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LIST_SCRIPT = """
import importlib.metadata as m, json
found = [d.metadata for d in m.distributions()]
keys = ("Name", "Version", "Summary", "License-Expression")
print(json.dumps([{key: each[key] for key in keys} | {"Needs": each.get_all("Requires-Dist") or []} for each in found]))
"""
TOOLS = {"pip", "setuptools", "wheel"}  # of the environment, not of what is released

Document = dict[str, Any]


def list_installed(python: Path) -> list[Document]:
    """Return the metadata of each distribution in an environment."""
    done = subprocess.run([str(python), "-c", LIST_SCRIPT], capture_output=True, text=True, check=True)
    found: list[Document] = json.loads(done.stdout)
    return found


def build_bill(distributions: Sequence[Document], name: str) -> Document:
    """Return the bill of materials of a distribution: all others are its components."""
    every = {_normal(each["Name"]): _component(each) for each in distributions if _normal(each["Name"]) not in TOOLS}
    main = every.pop(_normal(name))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**main, "type": "application"}},
        "components": [every[key] for key in sorted(every)],
        "dependencies": [
            {"ref": _reference(each), "dependsOn": sorted(_find_dependencies(each, distributions))}
            for each in sorted(distributions, key=lambda each: _normal(each["Name"]))
            if _normal(each["Name"]) not in TOOLS
        ],
    }


def _component(each: Document) -> Document:
    component = {
        "type": "library",
        "bom-ref": _reference(each),
        "name": _normal(each["Name"]),
        "version": each["Version"],
    }
    component["purl"] = _reference(each)
    if each.get("Summary"):
        component["description"] = each["Summary"]
    if each.get("License-Expression"):
        component["licenses"] = [{"expression": each["License-Expression"]}]
    return component


def _find_dependencies(each: Document, distributions: Sequence[Document]) -> set[str]:
    """Return the installed distributions that a distribution names as requirements."""
    names = {_normal(re.match(r"[\w.-]+", need)[0]) for need in each["Needs"]}  # type: ignore[index]
    others = names - {_normal(each["Name"])} - TOOLS
    return {_reference(other) for other in distributions if _normal(other["Name"]) in others}


def _reference(each: Document) -> str:
    return f"pkg:pypi/{_normal(each['Name'])}@{each['Version']}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
