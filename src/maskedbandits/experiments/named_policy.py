"""Compiled policies from outside the package, named ``package.module:name`` in an experiment file.

The module registers the policy under the name when it is imported. Or it is the policy itself, and the name is its own,
with hyphens. Any other name is that of a function in plain Python (``simulation/external.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from maskedbandits.errors import UserError, abbreviate, suggest_nearest
from maskedbandits.fingerprint import Origin
from maskedbandits.policies import KINDS, Kind, find_registered, registry
from maskedbandits.simulation import external

# By full name: what its module registered, the same by that name, and the origin of its code.
_resolved: dict[str, tuple[Kind, Kind, Origin]] = {}


@dataclass(frozen=True)
class NamedPolicy:
    """The compiled policy ``package.module:name``; other processes import its module themselves."""

    name: str
    folder: Path

    def resolve(self) -> Kind:
        """Import the module, and return the policy; from then on `KINDS` has it by its full name."""
        module, _, name = self.name.partition(":")
        imported = external.import_module(self.name, self.folder)
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
        external.check_modules(self.name, self.folder, origin)
        return origin


def find_policy(name: str, folder: Path) -> NamedPolicy | None:
    """Return the compiled policy with this full name, or None if it names a function.

    Raises
    ------
    UserError
        If the module cannot be imported, or has neither a policy nor a function of this name.

    """
    module, _, attribute = name.partition(":")
    imported = external.import_module(name, folder)
    known = {*find_registered(module), *filter(None, [own_name(imported)])}
    if attribute in known:
        policy = NamedPolicy(name, folder)
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
