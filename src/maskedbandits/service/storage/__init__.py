"""Stores: the logs of experiments in a SQLite file or in PostgreSQL."""

from maskedbandits.service.storage.errors import Conflict, ExperimentDeleted, StoreUnavailable, Unreachable
from maskedbandits.service.storage.store import Store
from maskedbandits.service.storage.urls import open_store

__all__ = ["Conflict", "ExperimentDeleted", "Store", "StoreUnavailable", "Unreachable", "open_store"]
