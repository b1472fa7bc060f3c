"""Privacy that can be checked: exact randomisers, and an audit of anybody's."""

from maskedbandits.privacy.exact import ExactEpsilon, as_epsilon, threshold
from maskedbandits.privacy.mechanism import KaryRandomizer, Randomizer, Report, mechanism_for, round_value

__all__ = [
    "ExactEpsilon",
    "KaryRandomizer",
    "Randomizer",
    "Report",
    "as_epsilon",
    "mechanism_for",
    "round_value",
    "threshold",
]
