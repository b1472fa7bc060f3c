"""Policies over public features, which learn from masked rewards."""

from maskedbandits.features.policy import NAMES, Featured, make_featured
from maskedbandits.features.serialization import load_featured

__all__ = ["NAMES", "Featured", "load_featured", "make_featured"]
