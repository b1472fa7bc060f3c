"""Experiments: a TOML file names problems, corruptions and policies, and every combination is run."""

from maskedbandits.experiments.config import Experiment, Task, World, load
from maskedbandits.experiments.runner import run

__all__ = ["Experiment", "Task", "World", "load", "run"]
