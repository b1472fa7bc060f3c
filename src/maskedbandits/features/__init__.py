"""The right choice for features that everybody may see, learnt from rewards that nobody may."""

from maskedbandits.features.policy import NAMES, Featured, make_featured
from maskedbandits.features.serialization import load_featured

__all__ = ["NAMES", "Featured", "load_featured", "make_featured"]
