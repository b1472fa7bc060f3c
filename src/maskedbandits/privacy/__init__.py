"""Privacy that can be checked: exact randomisers, a ledger of what was spent, and an audit of anybody's randomiser."""

from maskedbandits.privacy.composition import total_delta, total_epsilon
from maskedbandits.privacy.exact import ExactEpsilon, as_epsilon, threshold
from maskedbandits.privacy.ledger import Ledger, LedgerError, Overdraft
from maskedbandits.privacy.mechanism import KaryRandomizer, Randomizer, Report, mechanism_for, round_value

__all__ = [
    "ExactEpsilon",
    "KaryRandomizer",
    "Ledger",
    "LedgerError",
    "Overdraft",
    "Randomizer",
    "Report",
    "as_epsilon",
    "mechanism_for",
    "round_value",
    "threshold",
    "total_delta",
    "total_epsilon",
]
