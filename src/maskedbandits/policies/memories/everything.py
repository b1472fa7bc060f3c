"""A memory that keeps everything: all functions are those of ``memories``."""

from maskedbandits.policies.axes.state import Axes

Memory = Axes
