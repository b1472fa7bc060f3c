"""Choose again and again, under local differential privacy, in a changing world."""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from maskedbandits._util.signatures import fold_signatures

__version__ = "0.1.0"

__all__ = [
    "Contextual",
    "ContextualProblem",
    "Device",
    "Experiment",
    "Featured",
    "FeaturedProblem",
    "GaussianNoise",
    "LaplaceNoise",
    "Monotone",
    "Policy",
    "Population",
    "Problem",
    "RandomizedResponse",
    "Results",
    "Simulation",
    "compare",
    "data",
    "environment",
    "from_mabwiser",
    "from_river",
    "load_contextual",
    "load_featured",
    "load_policy",
    "load_results",
    "make_contextual",
    "make_featured",
    "make_policy",
    "planner",
    "privacy",
    "problems",
    "register_policy",
    "request_offer",
    "simulate",
    "testing",
    "theory",
]

# Names are imported when they are first used, so that --help does not load the compiler.
_MODULES = {
    "Contextual": "contextual",
    "ContextualProblem": "problems",
    "load_contextual": "contextual",
    "make_contextual": "contextual",
    "Featured": "features",
    "FeaturedProblem": "problems",
    "load_featured": "features",
    "make_featured": "features",
    "Device": "device",
    "request_offer": "device",
    "Experiment": "experiments.experiment",
    "Results": "experiments.results",
    "load_results": "experiments.experiment",
    "GaussianNoise": "noise",
    "LaplaceNoise": "noise",
    "Monotone": "corruption",
    "Population": "corruption",
    "RandomizedResponse": "corruption",
    "Problem": "problems",
    "Policy": "policies",
    "load_policy": "policies.serialization",
    "make_policy": "policies",
    "register_policy": "policies",
    "Simulation": "simulation.results",
    "compare": "simulation.comparison",
    "environment": "simulation.environment",
    "from_mabwiser": "simulation.adapters",
    "from_river": "simulation.adapters",
    "simulate": "simulation.simulator",
}

if TYPE_CHECKING:
    from maskedbandits import data, planner, privacy, problems, testing, theory
    from maskedbandits.contextual import Contextual as Contextual
    from maskedbandits.contextual import load_contextual as load_contextual
    from maskedbandits.contextual import make_contextual as make_contextual
    from maskedbandits.corruption import Monotone as Monotone
    from maskedbandits.corruption import Population as Population
    from maskedbandits.corruption import RandomizedResponse as RandomizedResponse
    from maskedbandits.device import Device as Device
    from maskedbandits.device import request_offer as request_offer
    from maskedbandits.experiments.experiment import Experiment as Experiment
    from maskedbandits.experiments.experiment import load_results as load_results
    from maskedbandits.experiments.results import Results as Results
    from maskedbandits.features import Featured as Featured
    from maskedbandits.features import load_featured as load_featured
    from maskedbandits.features import make_featured as make_featured
    from maskedbandits.noise import GaussianNoise as GaussianNoise
    from maskedbandits.noise import LaplaceNoise as LaplaceNoise
    from maskedbandits.policies import Policy as Policy
    from maskedbandits.policies import make_policy as make_policy
    from maskedbandits.policies import register_policy as register_policy
    from maskedbandits.policies.serialization import load_policy as load_policy
    from maskedbandits.problems import ContextualProblem as ContextualProblem
    from maskedbandits.problems import FeaturedProblem as FeaturedProblem
    from maskedbandits.problems import Problem as Problem
    from maskedbandits.simulation.adapters import from_mabwiser as from_mabwiser
    from maskedbandits.simulation.adapters import from_river as from_river
    from maskedbandits.simulation.comparison import compare as compare
    from maskedbandits.simulation.environment import environment as environment
    from maskedbandits.simulation.results import Simulation as Simulation
    from maskedbandits.simulation.simulator import simulate as simulate


_PUBLIC_MODULES = ("data", "planner", "privacy", "problems", "testing", "theory")
_folded: set[str] = set()  # names whose signatures are readable


def __getattr__(name: str) -> Any:
    if name in _PUBLIC_MODULES:
        found: Any = importlib.import_module(f"maskedbandits.{name}")
    elif name in _MODULES:
        found = getattr(importlib.import_module(f"maskedbandits.{_MODULES[name]}"), name)
    else:
        raise AttributeError(f"module 'maskedbandits' has no attribute {name!r}")
    _fold(name, found)
    for module in _PUBLIC_MODULES:  # once imported, they are attributes, and this function is not called for them
        _fold(module, sys.modules.get(f"maskedbandits.{module}"))
    return found


def _fold(name: str, value: Any) -> None:
    """Make the signatures of a public name readable, once."""
    if value is not None and name not in _folded:
        _folded.add(name)
        fold_signatures(value)


def __dir__() -> list[str]:
    return sorted(__all__)
