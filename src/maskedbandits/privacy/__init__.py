"""Verifiable privacy: exact randomisers, a ledger of the privacy spent, and an audit of any randomiser.

The modules for devices require the standard library alone and use relative imports: the same files are also the package
``maskedbandits_device``. The audit, in ``audit``, is for those who check a device, and requires numpy and scipy. Names
that are not in ``__all__`` are internal.
"""

from .composition import total_delta, total_epsilon
from .exact import ExactEpsilon, as_epsilon, threshold
from .group_query import GroupQuery, Question
from .ledger import Ledger, LedgerError, Overdraft
from .partition import Partition
from .randomized_response import KaryRandomizer, Randomizer, Report, mechanism_for, round_value

__all__ = [
    "ExactEpsilon",
    "GroupQuery",
    "KaryRandomizer",
    "Ledger",
    "LedgerError",
    "Overdraft",
    "Partition",
    "Question",
    "Randomizer",
    "Report",
    "as_epsilon",
    "mechanism_for",
    "round_value",
    "threshold",
    "total_delta",
    "total_epsilon",
]
