"""Your own files behind an experiment: CSV files, and the modules of your own policies.

    folder = ".."                               # of CSV files and modules, from the folder of the file
    folder = ["/data", "/home/me/src"]          # CSV files are in the first one, modules in any
    register = { mine = "package.module" }      # compiled policies by name: the module of each

An experiment that is saved elsewhere names the folders in full, so it runs from anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from maskedbandits.errors import UserError, check_line
from maskedbandits.experiments.named_policy import RegisteredPolicy
from maskedbandits.experiments.policy_spec import Task
from maskedbandits.experiments.toml_table import TomlTable, describe_actual
from maskedbandits.fingerprint import OWN, place_of

MAIN = "__main__"  # a notebook or script: no other program can import it


def read_folders(top: TomlTable, base: Path) -> tuple[Path, ...]:
    """Return the folders of CSV files and modules: those of the file, or ``base``, from which paths start."""
    value: Any = top.values.get("folder", ".")
    names = value if isinstance(value, list) else [value]
    if not names:
        raise top.error("folder", f"expected a folder, {describe_actual(value)}")
    folders = []
    for name in names:
        try:
            folder = base / check_line("folder", name) if name != "." else base
        except UserError:
            raise top.error("folder", f"expected a folder or a list of them, {describe_actual(name)}") from None
        if "folder" in top.values and not folder.is_dir():
            remedy = "write the folder in which your CSV files and modules are now"
            raise top.error("folder", f"there is no folder {folder}: {remedy}")
        folders.append(folder)
    return tuple(folders)


def register_policies(top: TomlTable) -> None:
    """Register the compiled policies that a file names under ``register``."""
    table = TomlTable(top.file, "register", top.values.get("register", {}))
    for name in table.values:
        try:
            RegisteredPolicy(name, table.get_text(name), top.folders).resolve()
        except ValueError as error:
            raise table.error(name, str(error)) from error


def complete_document(
    document: dict[str, Any], tasks: Iterable[Task], folders: tuple[Path, ...], home: Path
) -> dict[str, Any]:
    """Return the tables of a file in the folder ``home``, with the folders and names that it needs there."""
    outside = {task.policy: task.outside for task in tasks if task.outside is not None}
    modules = {module for policy in outside.values() for module in policy.origin().modules}
    is_recorded = any(not Path(table["csv"]).is_absolute() for table in document["problems"] if "csv" in table)
    found = [*(folders[:1] if is_recorded else ()), *find_homes(modules)]
    needed = list(dict.fromkeys(str(folder.resolve()) for folder in found))
    registered = {
        name: policy.module
        for name, policy in outside.items()
        if isinstance(policy, RegisteredPolicy) and policy.module != MAIN
    }
    added: dict[str, Any] = {}
    if set(needed) - {str(home.resolve())}:
        added["folder"] = needed[0] if len(needed) == 1 else needed
    if registered:
        added["register"] = registered
    kept = {key: value for key, value in document.items() if key not in ("folder", "register")}
    return {**added, **kept}


def find_homes(modules: Iterable[str]) -> list[Path]:
    """Return the folders from which modules of your own were imported; installed packages need none."""
    homes = []
    for name in sorted({module.partition(".")[0] for module in modules} - {MAIN}):
        module = sys.modules.get(name)
        place = place_of(module) if isinstance(module, ModuleType) else None
        if place is not None and place.owner == OWN:
            homes += [Path(folder).parent for folder in place.folders] or [Path(place.path).parent]
    return homes
