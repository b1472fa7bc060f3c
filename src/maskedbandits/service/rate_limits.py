"""Rate limits: a token bucket for every address and every key, in bounded memory.

A bucket that fills at ``rate`` and holds ``rate * burst`` is one number: the time when it would be full again (the
"theoretical arrival time" of the generic cell rate algorithm, ITU-T I.371). A request of cost c moves that time by
c / rate, and is refused if it would be more than ``burst`` seconds ahead. A full bucket needs no entry. So when there
are too many buckets, dropping the one that was used longest ago mostly loses nothing.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable, Sequence
from functools import lru_cache

MAX_BUCKETS = 50_000
MAX_ADDRESS_LENGTH = 100  # with the name of a network card

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class TokenBuckets:
    """Buckets by key; a rate of 0 means no limit."""

    def __init__(self, rate: float, burst: float, max_buckets: int = MAX_BUCKETS) -> None:
        self.rate, self.burst, self.max_buckets = rate, burst, max_buckets
        self._full_at: dict[Hashable, float] = {}  # the one used longest ago comes first

    def __len__(self) -> int:
        return len(self._full_at)

    def wait(self, key: Hashable, now: float, cost: int = 1, *, taken: int = 0) -> float:
        """Take from a bucket and return 0, or return the seconds until it holds enough.

        A cost above the capacity is accepted when the bucket is full, and delays later requests. ``taken`` is what the
        same request took before its cost was known.
        """
        if not self.rate:
            return 0.0
        before = max(self._full_at.pop(key, 0.0), now)
        full_at = max(before - taken / self.rate, now)
        missing = full_at - now + min(cost / self.rate, self.burst) - self.burst
        if missing > 1e-9:
            self._full_at[key] = before
            return missing
        self._set(key, full_at + cost / self.rate)
        return 0.0

    def _set(self, key: Hashable, full_at: float) -> None:
        self._full_at[key] = full_at
        while len(self._full_at) > self.max_buckets:
            del self._full_at[next(iter(self._full_at))]


class ClientAddresses:
    """Finds the address of a client: the peer, or the one that a trusted proxy forwards for."""

    def __init__(self, trusted: Sequence[str]) -> None:
        self._trusted: list[Network] = [ipaddress.ip_network(each, strict=False) for each in trusted]
        self._is_trusted = lru_cache(maxsize=4096)(self._look_up)

    def _look_up(self, text: str) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        return any(address in network for network in self._trusted if network.version == address.version)

    def resolve(self, peer: str, forwarded: str) -> str:
        """Return the client's address. Each proxy appends its peer, so the list is read from its end."""
        if not self._trusted or not forwarded or not self._is_trusted(peer):
            return peer
        client = peer
        for text in reversed(forwarded.split(",")):
            address = text.strip()
            if _site_of(address) is None:
                break  # no address: the entries before it mean nothing
            client = address
            if not self._is_trusted(address):
                break
        return client


def _site_of(address: str) -> str | None:
    """Return the unit that shares a bucket: an IPv4 address, or the IPv6 /48 of a site (RFC 6177); None if invalid.

    A household's /64 would be too small a unit: a site has 65,536 of them.
    """
    return _parse_site(address) if len(address) <= MAX_ADDRESS_LENGTH else None


@lru_cache(maxsize=4096)
def _parse_site(text: str) -> str | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 80 << 80, 48)))


def address_block(address: str) -> str:
    """Return the block of an address: IPv4 /24 or IPv6 /48; "" if it is no address."""
    return _parse_block(bucket_name(address))


@lru_cache(maxsize=4096)
def _parse_block(bucket: str) -> str:
    return bucket if not bucket or "/" in bucket else str(ipaddress.ip_network((bucket, 24), strict=False))


def bucket_name(address: str) -> str:
    """Return the name of the bucket of an address; all invalid addresses share one."""
    return _site_of(address) or ""
