"""How often and how much somebody may ask: a token bucket for every address and every key, in bounded memory.

A bucket that fills at ``rate`` and holds ``rate * burst`` is known by one number: when it would be full again if nobody
asked (the "theoretical arrival time" of the generic cell rate algorithm, ITU-T I.371). A request of cost c moves it by
c / rate; it is refused if that lies more than ``burst`` seconds ahead. A full bucket is one that is not there: so
forgetting the one that was used longest ago, when there are too many, is mostly forgetting nothing.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from maskedbandits.service.experiment import Arms, Live

MOST = 50_000  # buckets that are remembered
LONGEST = 100  # letters of an address with the name of a network card; longer ones are none
MOST_ANSWER = 1 << 24  # bytes of payloads in one answer, and where there are groups of names

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Buckets:
    """Buckets by whatever they are for; a rate of 0 is no limit."""

    def __init__(self, rate: float, burst: float, most: int = MOST) -> None:
        self.rate, self.burst, self.most = rate, burst, most
        self._full_at: dict[Hashable, float] = {}  # the one used longest ago comes first

    def __len__(self) -> int:
        return len(self._full_at)

    def wait(self, key: Hashable, now: float, cost: int = 1, *, taken: int = 0) -> float:
        """Take from a bucket, or return how many seconds later there will be enough in it; 0: it was enough.

        What costs more than a bucket ever holds is let through when it is full, and has to be made up for afterwards.
        ``taken`` is what the same request has taken before its cost was known.
        """
        if not self.rate:
            return 0.0
        before = max(self._full_at.pop(key, 0.0), now)
        full_at = max(before - taken / self.rate, now)
        missing = full_at - now + min(cost / self.rate, self.burst) - self.burst
        if missing > 1e-9:
            self._full_at[key] = before
            return missing
        self._put(key, full_at + cost / self.rate)
        return 0.0

    def _put(self, key: Hashable, full_at: float) -> None:
        self._full_at[key] = full_at
        while len(self._full_at) > self.most:
            del self._full_at[next(iter(self._full_at))]


class Answers:
    """How many decisions fit in one answer: each carries a payload, and an answer is put together in memory."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Arms, int]] = {}  # by experiment

    def most(self, live: Live) -> int:
        """Return how many decisions may be asked for at once, whichever arms they will be; one always may."""
        known = self._known.get(live.id)
        if known is None or known[0] is not live.arms:
            known = self._known[live.id] = live.arms, max(1, MOST_ANSWER // _carried(live))
        return known[1]


def _carried(live: Live) -> int:
    """Return how many bytes of arms a decision carries: where there are groups, all of them, and a name for each."""
    payloads = [len(bytes(payload)) for payload in live.arms.payloads]
    if not live.terms.groups:
        return max(payloads)
    names = [len(msgspec.json.encode(name)) + 2 for name in live.arms.names]
    return sum(payloads) + sum(names) + max(names) * len(live.terms.groups)


class Addresses:
    """Tells who asks: whoever is connected, or who a trusted proxy says it asks for."""

    def __init__(self, trusted: Sequence[str]) -> None:
        self._trusted: list[Network] = [ipaddress.ip_network(each, strict=False) for each in trusted]
        self._is_trusted = lru_cache(maxsize=4096)(self._look)

    def _look(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._trusted if network.version == found.version)

    def of(self, peer: str, forwarded: str) -> str:
        """Return the address that counts; each proxy appends whom it heard from, so the last ones are to be trusted."""
        if not self._trusted or not forwarded or not self._is_trusted(peer):
            return peer
        found = peer
        for text in reversed(forwarded.split(",")):
            address = text.strip()
            if _grouped(address) is None:
                break  # something else than an address: nothing before it means anything
            found = address
            if not self._is_trusted(address):
                break
        return found


def _grouped(address: str) -> str | None:
    """Return what shares a bucket: an address, or of IPv6 the network of 48 bits that one site has (RFC 6177).

    A network of 64 bits, as one household has, is within it. A site with 48 bits has 65,536 of those.
    """
    return _network(address) if len(address) <= LONGEST else None


@lru_cache(maxsize=4096)
def _network(address: str) -> str | None:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found) >> 80 << 80, 48)))


def block_of(address: str) -> str:
    """Return the block of an address: of IPv4 the network of 24 bits, of IPv6 that of 48; "" if it is no address."""
    return _block(bucket_of(address))


@lru_cache(maxsize=4096)
def _block(bucket: str) -> str:
    return bucket if not bucket or "/" in bucket else str(ipaddress.ip_network((bucket, 24), strict=False))


def bucket_of(address: str) -> str:
    """Return the name of the bucket of an address; whatever is none has one bucket together."""
    return _grouped(address) or ""
