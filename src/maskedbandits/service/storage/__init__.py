"""Stores: where the logs of experiments are kept, in a file (SQLite) or in PostgreSQL, by one contract."""

from .opening import open_store
from .store import Store
from .trouble import Conflict, StoreUnavailable, Unreachable

__all__ = ["Conflict", "Store", "StoreUnavailable", "Unreachable", "open_store"]
