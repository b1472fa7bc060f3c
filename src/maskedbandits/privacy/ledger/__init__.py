"""What a device has spent of its privacy: a cap that no report may pass, and one report for each decision."""

from .account import Ledger
from .trouble import LedgerError, OtherTerms, Overdraft

__all__ = ["Ledger", "LedgerError", "OtherTerms", "Overdraft"]
