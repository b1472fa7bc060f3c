"""Kinds of policies: the code behind a name, its parameters, and the layout of its state.

A kind on the axes combines the modules of a memory, an index and perhaps a detector. Any other kind is one module.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from maskedbandits._numba import internals
from maskedbandits._numba.jit import HOOKS, Choice
from maskedbandits._numba.state import REQUIRED, Layout, Param, Storage, declarations_of
from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.errors import UserError, WrongValueError, suggest_nearest
from maskedbandits.fingerprint import Origin, trace
from maskedbandits.policies.detectors import cusum, glr, page_hinkley, two_windows
from maskedbandits.policies.index import policy as axes
from maskedbandits.policies.indices import kl, kl_plus, sub_gamma, thompson, ucb
from maskedbandits.policies.memories import discount, everything, window
from maskedbandits.policies.restarts import detected, planned
from maskedbandits.policies.state import Arms

# The modules of policies on the axes. One kernel contains all of them, and the state's record chooses.
AXES: dict[str, tuple[ModuleType | None, ...]] = {
    "memory": (everything, window, discount),
    "index": (kl, kl_plus, ucb, sub_gamma, thompson),
    "restarts": (planned, detected),
    "detector": (None, glr, cusum, page_hinkley, two_windows),
}
# All that a policy may learn from, as its module says in LEARNS_FROM.
SOURCES = ("masked feedback", "debiased feedback", "feedback at face value", "rewards", "nothing")
DIGITS = 16  # of a fingerprint, in the name of a layout

_layouts: dict[str, Layout] = {}  # by their names: kinds with the same code share it


@dataclass(frozen=True)
class Kind:
    """A kind of policy: its code and its parameters."""

    name: str
    summary: str
    reference: str
    code: Mapping[str, ModuleType | None]
    modules: Sequence[Any]  # in the order in which they size, check and configure a state
    required: frozenset[str] = frozenset()  # parameters whose default does not apply here
    learns_from: str = "masked feedback"
    fixed: Mapping[str, Any] = field(default_factory=dict)  # values of parameters that users cannot set
    added: Mapping[str, Param] = field(default_factory=dict)  # parameters besides those of its state
    replaced: Mapping[str, Param] | None = None  # parameters in place of those of its state
    variants: Mapping[str, "Kind"] = field(default_factory=dict)  # other code for it, by divergence (divergences.py)

    @lockfree_cached_property
    def layout(self) -> Layout:
        """The layout of its state; the name of your own policy's layout contains a fingerprint of its code."""
        origin = self._trace(*HOOKS, *PARTS)
        modules = [module for module in self.code.values() if module not in (None, axes)]
        names = [module.__name__.rsplit(".", 1)[-1].strip("_") for module in modules]
        name = "_".join([*names, *filter(None, [origin.digest[:DIGITS]])])
        if name not in _layouts:
            for kernel in origin.kernels:
                internals.forget_compiled(kernel)  # a value that it refers to may have changed since
            layout = Layout(name, _records(self.modules), __name__, origin=origin, **self._storage(origin))
            _layouts.setdefault(name, layout)  # another thread may be first
        return _layouts[name]

    def _storage(self, origin: Origin) -> dict[str, Any]:
        """Return the storage of its states: shared by all kinds on the axes, unless some code is your own."""
        if not self.on_axes or origin.digest or any(self.code[part] not in AXES[part] for part in AXES):
            return dict(self.code)
        return {
            "shared": on_axes_storage(),
            "choices": {number_of(part): modules.index(self.code[part]) for part, modules in AXES.items()},
        }

    def _trace(self, *names: str) -> Origin:
        """Return the origin of its code, restricted to these names."""
        modules = {id(module): module for module in (*self.code.values(), *self.modules) if module is not None}
        return trace(*((module, names) for module in modules.values()))

    @lockfree_cached_property
    def is_own(self) -> bool:
        """Whether some of its code is your own, and not this package's."""
        return bool(self._trace().digest)

    @property
    def origin(self) -> Origin:
        """The origin of all code that affects its choices, compiled or not."""
        return self._trace(*HOOKS, *PARTS, *OPTIONAL_NAMES)

    @lockfree_cached_property
    def parameters(self) -> dict[str, Param]:
        """Its parameters by name, required ones first."""
        every = {**self.layout.params, **self.added} if self.replaced is None else self.replaced
        found = {key: what for key, what in every.items() if key not in self.fixed}
        found = {key: replace(what, default=REQUIRED) if key in self.required else what for key, what in found.items()}
        last = ("contamination", "expire_after")
        return dict(sorted(found.items(), key=lambda item: (not item[1].required, item[0] in last)))

    @property
    def on_axes(self) -> bool:
        """Whether it combines a memory and an index."""
        return self.code["code"] is axes

    @property
    def takes_masks(self) -> bool:
        """Whether each report may have its own corruption."""
        return hasattr(self.code["code"], "observe_masked")

    @property
    def takes_arms(self) -> bool:
        """Whether arms can be added and retired, and choices restricted to some of them."""
        return bool(getattr(self.code.get("index", self.code["code"]), "ARMS_COME_AND_GO", False))

    @property
    def sees_rewards(self) -> bool:
        """Whether it observes rewards without a mask."""
        return self.learns_from == "rewards"

    @property
    def sees_corruption(self) -> bool:
        """Whether it needs to know the corruption."""
        return self.learns_from in ("masked feedback", "debiased feedback")

    @property
    def draws_from(self) -> str:
        """The source of random choices, if any: a posterior, or scores that are probabilities."""
        return str(getattr(self.code.get("index", self.code["code"]), "DRAWS_FROM", ""))

    def variant(self, given: Mapping[str, Any]) -> "Kind":
        """Return the variant for these parameters."""
        return self.variants.get(str(given.get("divergence")), self)

    def complete(self, given: Mapping[str, Any], arms: int) -> dict[str, Any]:
        """Return all parameters, checked: those given, and defaults for the others."""
        self.layout.refuse_if_changed(self.name)
        for key in given:
            if key not in self.parameters:
                raise UserError(f"{self.name} has no parameter {key!r}{suggest_nearest(key, self.parameters)}")
        values = {**{key: what.default for key, what in self.parameters.items()}, **given}
        if values.get("restarts") is not None and isinstance(values["restarts"], str) and "horizon" in self.parameters:
            if "horizon" in given:
                raise UserError("restarts = 'doubling' is for an unknown horizon: leave out horizon or restarts")
            values["horizon"] = planned.FIRST_PHASE  # later phases have their own
        for key, what in self.parameters.items():
            if values[key] is REQUIRED or (values[key] is None and what.required):
                raise UserError(f"{self.name} requires the parameter {key!r}: {what.hint}")
            values[key] = what.check(key, values[key])
        values |= self.fixed
        for module in self.modules:
            values |= module.completed(values) if hasattr(module, "completed") else {}
            if hasattr(module, "check"):
                module.check(values, arms)
        return values

    def sizes(self, parameters: Mapping[str, Any]) -> dict[str, int]:
        """Return the sizes of a state with these parameters."""
        found: dict[str, int] = {}
        for module in self.modules:
            found |= module.sizes(parameters) if hasattr(module, "sizes") else {}
        return found

    def configure(self, state: Any, parameters: Mapping[str, Any]) -> None:
        """Write the values that depend on parameters to a new state."""
        for module in self.modules:
            if hasattr(module, "configure"):
                module.configure(state, parameters)


def number_of(part: str) -> str:
    """Return the name of the scalar that chooses the module of a part."""
    return f"{part}_choice"


def _records(modules: Iterable[Any]) -> list[Any]:
    """Return the declarations of modules."""
    return [getattr(module, part) for module in modules for part in PARTS if hasattr(module, part)]


@functools.cache
def on_axes_storage() -> Storage:
    """Return the storage that all states on the axes share, so that one kernel plays all combinations."""
    records = _records(module for modules in AXES.values() for module in modules)
    code = {part: Choice(number_of(part), modules) for part, modules in AXES.items()}
    return Storage("axes", [declarations_of(each) for each in records], __name__, Origin(), {"code": axes, **code})


def list_all(known: Mapping[str, Kind]) -> list[Kind]:
    """Return all kinds and their variants."""
    return [each for kind in known.values() for each in (kind, *kind.variants.values())]


PARTS = ("Memory", "Restarts", "Detector", "Index", "Policy")  # names of records in modules
OPTIONAL_NAMES = (  # names of other parts that modules may define
    *("completed", "check", "configure", "contradiction", "sizes"),
    *("ARMS_COME_AND_GO", "DRAWS_FROM", "LEARNS_FROM"),
)


def on_axes(
    name: str,
    index: ModuleType,
    *,
    memory: ModuleType = everything,
    detector: ModuleType | None = None,
    words: str = "",
    reference: str = "",
) -> Kind:
    """Return a kind that combines a memory, an index, and perhaps a detector."""
    restarts = planned if detector is None else detected
    code = {"code": axes, "memory": memory, "index": index, "restarts": restarts, "detector": detector}
    return Kind(
        name=name,
        summary=f"{words} x {index.WORDS}",
        reference="; ".join(filter(None, (reference, index.REFERENCE))),
        code=code,
        modules=[memory, restarts, *filter(None, [detector]), index, axes],
    )


def alone(name: str, module: ModuleType) -> Kind:
    """Return a kind whose code is one module."""
    parts: Any = module
    for names in (("SUMMARY",), ("LEARNS_FROM",), ("Policy",), ("choose", "score")):
        if not any(hasattr(module, each) for each in names):  # without either it would always pull the first arm
            raise UserError(f"{module.__name__} has no {' and no '.join(names)}: docs/write_policy.md shows one")
    _check_record(module.__name__, parts.Policy)
    if parts.LEARNS_FROM not in SOURCES:
        raise WrongValueError(f"{module.__name__}.LEARNS_FROM", parts.LEARNS_FROM, f"one of {', '.join(SOURCES)}")
    return Kind(
        name=name,
        summary=parts.SUMMARY,
        reference=getattr(parts, "REFERENCE", ""),
        code={"code": module},
        modules=[module],
        learns_from=parts.LEARNS_FROM,
    )


def _check_record(module: str, declared: Any) -> None:
    """Refuse a class of declarations that no state can be built from."""
    if not (isinstance(declared, type) and issubclass(declared, Arms)):
        raise UserError(f"{module}.Policy is not a class of declarations: derive it from policies.state.Arms")
    if vars(declared).get("__annotations__") and "declarations" not in vars(declared):
        raise UserError(f"{module}.Policy declares nothing: write @record above it")
    declarations_of(declared)  # refuses a name that is taken


def __getattr__(name: str) -> Any:
    """Return the class of a layout by its name; numba looks it up when it loads machine code."""
    if name.endswith("State") and not name.startswith("_"):
        from maskedbandits.policies import KINDS

        wanted = name.removesuffix("State")
        if wanted in _layouts:
            return _layouts[wanted].State
        for kind in list_all(KINDS):
            if kind.layout.storage.name == wanted:
                return kind.layout.State
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
