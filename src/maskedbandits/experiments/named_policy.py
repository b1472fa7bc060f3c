"""Compiled policies from outside the package, named ``package.module:name`` or as registered in an experiment.

The module registers the policy under the name when it is imported. Or it is the policy itself, and the name is its own,
with hyphens. Any other name is that of a function in plain Python (``simulation/external.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from maskedbandits.errors import UserError, abbreviate, suggest_nearest
from maskedbandits.fingerprint import Origin
from maskedbandits.policies import BUILTIN_NAMES, KINDS, Kind, find_registered, register_policy, registry
from maskedbandits.simulation import external

# By full name: what its module registered, the same by that name, and the origin of its code.
_resolved: dict[str, tuple[Kind, Kind, Origin]] = {}


@dataclass(frozen=True)
class NamedPolicy:
    """The compiled policy ``package.module:name``; other processes import its module themselves."""

    name: str
    folders: tuple[Path, ...]

    def resolve(self) -> Kind:
        """Import the module, and return the policy; from then on `KINDS` has it by its full name."""
        module, _, name = self.name.partition(":")
        imported = external.import_module(self.name, self.folders)
        known = find_registered(module)
        if name not in known and name == own_name(imported):
            known[name] = self._define(imported)
        if name not in known:
            raise UserError(f"{self.name}: {module} registers no policy {abbreviate(name)}")
        if self.name not in _resolved or _resolved[self.name][0] is not known[name]:
            _resolved[self.name] = known[name], replace(known[name], name=self.name), known[name].origin
        KINDS[self.name] = _resolved[self.name][1]
        return KINDS[self.name]

    def _define(self, module: ModuleType) -> Kind:
        """Return the policy that a module is; another one after the module was reloaded."""
        if self.name in _resolved:
            before, _, origin = _resolved[self.name]
            if not origin.has_changed():
                return before
        return registry.alone(self.name, module)

    def origin(self) -> Origin:
        """Return the origin of its code: if that changes, the results may change."""
        origin = self.resolve().origin
        external.check_modules(self.name, self.folders, origin)
        return origin


@dataclass(frozen=True)
class RegisteredPolicy:
    """A compiled policy that is named as it was registered; other processes register its module themselves."""

    name: str
    module: str
    folders: tuple[Path, ...]

    def resolve(self) -> Kind:
        """Import the module, register it unless it has done so itself, and return the policy."""
        imported = external.import_module(f"{self.module}:{self.name}", self.folders)
        if self.name not in KINDS or KINDS[self.name].code["code"] is not imported:
            register_policy(self.name, imported)
        return KINDS[self.name]

    def origin(self) -> Origin:
        """Return the origin of its code: if that changes, the results may change."""
        origin = (KINDS.get(self.name) or self.resolve()).origin
        external.check_modules(self.name, self.folders, origin)
        return origin


def find_registered_policy(name: str, folders: tuple[Path, ...]) -> RegisteredPolicy | None:
    """Return the registered policy with this name, or None for one of this package."""
    if name in BUILTIN_NAMES:
        return None
    module = KINDS[name].code["code"]
    assert module is not None  # noqa: S101 -- whatever is registered is one module
    return RegisteredPolicy(name, module.__name__, folders)


def find_policy(name: str, folders: tuple[Path, ...]) -> NamedPolicy | None:
    """Return the compiled policy with this full name, or None if it names a function.

    Raises
    ------
    UserError
        If the module cannot be imported, or has neither a policy nor a function of this name.

    """
    module, _, attribute = name.partition(":")
    imported = external.import_module(name, folders)
    known = {*find_registered(module), *filter(None, [own_name(imported)])}
    if attribute in known:
        policy = NamedPolicy(name, folders)
        policy.resolve()
        return policy
    if callable(getattr(imported, attribute, None)):
        return None
    hint = suggest_nearest(attribute, sorted(known)) if known else ""
    raise UserError(f"{name}: {module} has no function {abbreviate(attribute)} and registers no such policy{hint}")


def own_name(module: ModuleType) -> str:
    """Return the name of a module that is a policy: its last part, with hyphens; an empty text if it is none."""
    is_policy = all(hasattr(module, part) for part in ("SUMMARY", "LEARNS_FROM", "Policy"))
    return module.__name__.rpartition(".")[2].replace("_", "-") if is_policy else ""
