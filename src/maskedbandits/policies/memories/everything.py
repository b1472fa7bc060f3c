"""A memory of everything: all functions are those of ``memories``."""

from maskedbandits.policies.index.state import Axes

Memory = Axes
