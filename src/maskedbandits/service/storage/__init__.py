"""Stores: where the logs of experiments are kept, in a file (SQLite) or in PostgreSQL, by one contract."""

from maskedbandits.service.storage.base import Store
from maskedbandits.service.storage.errors import Conflict, StoreUnavailable, Unreachable
from maskedbandits.service.storage.urls import open_store

__all__ = ["Conflict", "Store", "StoreUnavailable", "Unreachable", "open_store"]
