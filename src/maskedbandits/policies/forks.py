"""Policies in a process that forks: none is in the middle of a step then, and children draw lots of their own."""

import os
import threading
import weakref
from typing import Any

from maskedbandits.math import rng
from maskedbandits.policies.entries import go_on, hold_still

_alive: "weakref.WeakSet[Any]" = weakref.WeakSet()
_around: "weakref.WeakSet[Any]" = weakref.WeakSet()  # which hold some of those, and wait for them with their own lock
_held: list[Any] = []  # during a fork
_forking = threading.RLock()  # forks do not meet, and nobody joins those alive meanwhile


def look_after(policy: Any) -> None:
    """Hold a policy still whenever the process forks."""
    with _forking:
        _alive.add(policy)


def look_after_group(policies: Any) -> None:
    """Hold an object still that has policies, before these; in a child it is told to draw apart.

    While it has its lock, it may wait for those of its policies, and must make none: that waits for a fork to end.
    """
    with _forking:
        _around.add(policies)


def _hold_still() -> None:
    """Let no policy be in the middle of a step when the process forks."""
    _forking.acquire()
    _held.extend([*_around, *_alive])
    for policy in _held:
        policy._lock.acquire()
    hold_still()


def _go_on(*, in_child: bool = False) -> None:
    go_on(in_child=in_child)
    while _held:
        policy = _held.pop()
        if in_child and policy in _around:
            policy.draw_apart()
        elif in_child:  # or parent and child would draw the same
            policy._state.lots[:] = rng.seeded()
        policy._lock.release()
    _forking.release()


def _go_on_apart() -> None:
    _go_on(in_child=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_still, after_in_parent=_go_on, after_in_child=_go_on_apart)
