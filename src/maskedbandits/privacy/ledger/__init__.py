"""The ledger of a device: a cap on its total privacy loss, and one report for each decision."""

from .errors import LedgerError, Overdraft, TermsMismatch
from .ledger import Ledger

__all__ = ["Ledger", "LedgerError", "Overdraft", "TermsMismatch"]
