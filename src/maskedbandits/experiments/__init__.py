"""Experiments: a TOML file names problems, corruptions and policies, and every combination is run."""

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["Condition", "ExperimentConfig", "Task", "load", "run"]

# Names are imported when they are first used, because reading results needs no policies.
_MODULES = {
    "Condition": "problem_spec",
    "ExperimentConfig": "config",
    "Task": "policy_spec",
    "load": "config",
    "run": "runner",
}

if TYPE_CHECKING:
    from maskedbandits.experiments.config import ExperimentConfig as ExperimentConfig
    from maskedbandits.experiments.config import load as load
    from maskedbandits.experiments.policy_spec import Task as Task
    from maskedbandits.experiments.problem_spec import Condition as Condition
    from maskedbandits.experiments.runner import run as run


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'maskedbandits.experiments' has no attribute {name!r}")
    return getattr(importlib.import_module(f"maskedbandits.experiments.{_MODULES[name]}"), name)
