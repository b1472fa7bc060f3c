"""Privacy that can be checked: exact randomisers, a ledger of what was spent, and an audit of anybody's randomiser.

What a device needs is here on the standard library alone, and names its neighbours by dots: the same files are also the
package ``maskedbandits_device``. The audit, in ``audit``, is for who judges a device, and needs numpy and scipy.
"""

from .composition import total_delta, total_epsilon
from .exact import ExactEpsilon, as_epsilon, threshold
from .group_query import Question
from .ledger import Ledger, LedgerError, Overdraft
from .partition import Partition
from .randomized_response import KaryRandomizer, Randomizer, Report, mechanism_for, round_value

__all__ = [
    "ExactEpsilon",
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
