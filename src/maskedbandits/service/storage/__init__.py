"""Stores: where the logs of experiments are kept, in a file (SQLite) or in PostgreSQL, by one contract."""

from maskedbandits.service.storage.opening import open_store
from maskedbandits.service.storage.store import Store
from maskedbandits.service.storage.trouble import Conflict, StoreUnavailable, Unreachable

__all__ = ["Conflict", "Store", "StoreUnavailable", "Unreachable", "open_store"]
