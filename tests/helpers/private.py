"""The one place where tests name private attributes of policies, devices, ledgers and stores.

A test uses it only where the public interface hides what it must see or disturb. `tests/test_suite.py` checks that no
other test names such an attribute without a reason.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # children that use devices or ledgers alone start without numba
    import threading

    import pytest

    from maskedbandits.contextual import Contextual
    from maskedbandits.device import Decision, Device
    from maskedbandits.device.outbox import Outbox
    from maskedbandits.features import Featured
    from maskedbandits.policies import Policy
    from maskedbandits.privacy import Ledger
    from maskedbandits.service.app import App
    from maskedbandits.service.storage.base import Transaction
    from maskedbandits.service.storage.store import Store

# Policies


def live_state(policy: Policy | Contextual | Featured) -> Any:
    """Return the arrays that a policy works on: twins compare them, and tests of damage change them."""
    return policy._state


def replace_state(policy: Policy, state: Any) -> None:
    """Let a policy work on other arrays."""
    policy._state = state


def part_policies(policy: Contextual) -> list[Policy]:
    """Return the policy of each part of each level, the coarsest first."""
    return policy._policies


def live_levels(policy: Contextual) -> Any:
    """Return what a policy over groups knows of its levels."""
    return policy._levels


def lock_of(policy: Policy | Featured) -> Any:
    """Return the lock that threads and forks wait for."""
    return policy._lock


def replace_lock(policy: Policy, lock: Any) -> None:
    """Let a policy wait for another lock."""
    policy._lock = lock


# Messages


def hear_messages(patch: pytest.MonkeyPatch) -> list[str]:
    """Return the messages of this process from now on, also those that it has sent before."""
    from maskedbandits._numba import cache

    messages: list[str] = []
    patch.setattr(cache, "_said", set())
    patch.setattr(cache, "_listener", messages.append)
    return messages


# Devices


def forget_shared_cap(patch: pytest.MonkeyPatch) -> None:
    """Give devices without a path a new cap, which they share in a process."""
    from maskedbandits.privacy.ledger import storage

    patch.setattr(storage, "_SHARED", {})


def outbox_of(device: Device) -> Outbox:
    """Return the pending reports of a device whose files could be opened."""
    assert device._outbox is not None
    return device._outbox


def next_due(device: Device, lead: float = 0.0) -> float | None:
    """Return when a device has to act next; None if never."""
    return None if device._reporter is None else device._reporter.next_due(device._client.url, lead)


def token_of(decision: Decision) -> str:
    """Return the token by which the service knows a decision."""
    return decision._token


def move_decision(decision: Decision, device: Device) -> None:
    """Let a decision report by a device that opened the same files later."""
    decision._device = device


def stop_flag(device: Device) -> threading.Event:
    """Return the event that ends the thread of a device."""
    return device._stop


def wake_flag(device: Device) -> threading.Event:
    """Return the event for which the thread of a device waits."""
    return device._wake


def sender_of(device: Device) -> Any:
    """Return what makes the attempts of a device."""
    return device._sender


def work_as_thread(device: Device, at: float, lead: float) -> None:
    """Do once what the thread of a device does whenever it wakes."""
    device._process_due(at, device._schedule_attempts, lead)


def end_attempts(device: Device) -> None:
    """Release the attempts of a device, as when it is closed."""
    device._end_attempts()


def replace_network(patch: pytest.MonkeyPatch, exchange: Callable[..., Any]) -> None:
    """Let all devices exchange messages by a call."""
    from maskedbandits.device.http import HttpClient

    patch.setattr(HttpClient, "_exchange", exchange)


def slow_down_writes(patch: pytest.MonkeyPatch, wrap: Callable[[Any], Any]) -> None:
    """Wrap the transactions of all ledgers and outboxes."""
    from maskedbandits.device.outbox import Outbox
    from maskedbandits.privacy import Ledger

    for kind in (Ledger, Outbox):
        patch.setattr(kind, "_transaction", wrap(kind._transaction))


# Files and stores


def connection_of(owner: Ledger | Outbox | Store) -> Any:
    """Return the connection to the database of a ledger, an outbox or a store."""
    return owner._connection  # type: ignore[union-attr]


def replace_connection(ledger: Ledger, connection: Any) -> None:
    """Let a ledger use another connection."""
    ledger._connection = connection


def write_tables(store: Store) -> AbstractContextManager[Transaction]:
    """Begin a transaction that writes to any kind of store."""
    return store._begin_write()


def read_tables(store: Store) -> AbstractContextManager[Transaction]:
    """Begin a transaction that reads from any kind of store."""
    return store._begin_read()


def query_as_append(store: Store, question: bytes) -> Any:
    """Return what a Postgres store answers under the settings of an append."""
    return store._run((store._settings, ()), (question, ()))[0][0]  # type: ignore[attr-defined]


def cut_connections(patch: pytest.MonkeyPatch, fail: Callable[..., Any]) -> None:
    """Let every use of an SQLite store fail."""
    from maskedbandits.service.storage.sqlite import SqliteStore

    patch.setattr(SqliteStore, "_lend_connection", fail)


def refuse_writes(patch: pytest.MonkeyPatch, fail: Callable[..., Any]) -> None:
    """Let writes to an SQLite store fail, while it can be read."""
    from maskedbandits.service.storage.sqlite import SqliteStore

    patch.setattr(SqliteStore, "_begin_write", fail)


# The service


def signing_keys(ring: Any) -> dict[int, bytes]:
    """Return the keys that sign tokens, by number."""
    keys: dict[int, bytes] = ring._keys
    return keys


def date_keys(app: App, read_at: float) -> None:
    """Let an application regard its keys as read at a time of the monotonic clock."""
    app._keys_read_at = read_at
