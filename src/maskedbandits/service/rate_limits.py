"""Rate limits: a token bucket for every address and every key, counted over all workers, in bounded memory.

A bucket that fills at ``rate`` and holds ``rate * burst`` is one number: the time when it would be full again (the
"theoretical arrival time" of the generic cell rate algorithm, ITU-T I.371). A request of cost c moves that time by
c / rate, and is refused if it would be more than ``burst`` seconds ahead. A full bucket needs no entry. So when there
are too many buckets, dropping the one that is full soonest loses least (``shared_table.py``).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

from maskedbandits.service.shared_table import SharedTable

MAX_ADDRESS_LENGTH = 100  # with the name of a network card
SITE_FACTOR = 8  # an IPv6 /48 may send as much as so many of its 65,536 networks

LOOPBACK = ("127.0.0.0/8", "::1")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class TokenBuckets:
    """Buckets of one kind by name; a rate of 0 means no limit."""

    def __init__(self, rate: float, burst: float, table: SharedTable | None = None, kind: bytes = b"") -> None:
        self.rate, self.burst = rate, burst
        self._table, self._kind = table or SharedTable(), kind + b" "

    def wait(self, name: bytes, now: float, cost: int = 1, *, taken: int = 0) -> float:
        """Take from a bucket and return 0, or return the seconds until it holds enough.

        A cost above the capacity is accepted when the bucket is full, and delays later requests. ``taken`` is what the
        same request took before its cost was known. All processes of a machine have the same monotonic clock.
        """
        if not self.rate:
            return 0.0
        missing = 0.0

        def take(full_at: float) -> float:
            nonlocal missing
            before = max(full_at, now)
            own = max(before - taken / self.rate, now)
            missing = own - now + min(cost / self.rate, self.burst) - self.burst
            if missing > 1e-9:
                return before
            missing = 0.0
            return own + cost / self.rate

        self._table.update(self._kind + name, take)
        return missing


class AddressLimits:
    """The limits of addresses: of an IPv4 address or IPv6 /64, and with more room of an IPv6 /48."""

    def __init__(self, rate: float, burst: float, table: SharedTable | None = None) -> None:
        self.rate = rate
        table = table or SharedTable()
        self._networks = TokenBuckets(rate, burst, table, b"address")
        self._sites = TokenBuckets(SITE_FACTOR * rate, burst, table, b"site")

    def wait(self, address: str, now: float, cost: int = 1, *, taken: int = 0) -> float:
        """Take from the buckets of an address and return 0, or return the seconds until they hold enough."""
        network, site = find_networks(address) or ("", "")
        seconds = self._networks.wait(network.encode(), now, cost, taken=taken)
        return seconds or (self._sites.wait(site.encode(), now, cost, taken=taken) if site else 0.0)


class ClientAddresses:
    """Finds the address of a client: the peer, or the one that a trusted proxy forwards for.

    If no proxies are given, those on this machine are trusted: any other peer could claim to be a proxy.
    """

    def __init__(self, trusted: Sequence[str]) -> None:
        self._trusted: list[Network] = [ipaddress.ip_network(each, strict=False) for each in trusted or LOOPBACK]
        self._is_trusted = lru_cache(maxsize=4096)(self._look_up)

    def _look_up(self, text: str) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        return any(address in network for network in self._trusted if network.version == address.version)

    def is_unknown_proxy(self, peer: str) -> bool:
        """Tell whether a peer that forwards is on a private network, and not trusted; others may just pretend."""
        try:
            return ipaddress.ip_address(peer).is_private and not self._is_trusted(peer)
        except ValueError:
            return False

    def resolve(self, peer: str, forwarded: str) -> str:
        """Return the client's address. Each proxy appends its peer, so the list is read from its end."""
        if not forwarded or not self._is_trusted(peer):
            return peer
        client = peer
        for text in reversed(forwarded.split(",")):
            address = text.strip()
            if find_networks(address) is None:
                break  # no address: the entries before it mean nothing
            client = address
            if not self._is_trusted(address):
                break
        return client


def find_networks(address: str) -> tuple[str, str] | None:
    """Return the unit that shares a bucket and the site around it, if any; None if it is not an address.

    An IPv4 address is a unit. Of IPv6 it is the /64 of a household or a phone (RFC 6177), and the site is its /48,
    because the holder of a /48 has 65,536 such networks.
    """
    return _parse_networks(address) if len(address) <= MAX_ADDRESS_LENGTH else None


@lru_cache(maxsize=4096)
def _parse_networks(text: str) -> tuple[str, str] | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address), ""
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped), ""
    network, site = (ipaddress.ip_network((int(address) >> bits << bits, 128 - bits)) for bits in (64, 80))
    return str(network), str(site)


def address_block(address: str) -> str:
    """Return the block of an address: IPv4 /24 or IPv6 /48; "" if it is not an address."""
    network, site = find_networks(address) or ("", "")
    return site or _parse_block(network)


@lru_cache(maxsize=4096)
def _parse_block(address: str) -> str:
    return address and str(ipaddress.ip_network((address, 24), strict=False))
