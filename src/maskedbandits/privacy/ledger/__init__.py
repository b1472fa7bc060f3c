"""What a device has spent of its privacy: a cap that no report may pass, and one report for each decision."""

from .errors import LedgerError, OtherTerms, Overdraft
from .ledger import Ledger

__all__ = ["Ledger", "LedgerError", "OtherTerms", "Overdraft"]
