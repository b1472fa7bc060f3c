"""Rate limits: token buckets match a naive twin in bounded memory, and addresses map to buckets."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from web import SMALL, Served

from maskedbandits.service import routes_decisions
from maskedbandits.service.rate_limits import AddressLimits, ClientAddresses, TokenBuckets, address_block, find_networks
from maskedbandits.service.shared_table import SharedTable
from naive.rate_limits import NaiveBucket

pytest_plugins = ["service_fixtures"]

steps = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), min_size=1, max_size=60)


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), steps)
def test_bucket_matches_naive_twin(rate: int, burst: int, steps: list[tuple[int, int]]) -> None:
    buckets, naive = TokenBuckets(rate, burst), NaiveBucket(Fraction(rate), Fraction(burst))
    eighths = 8_000_000  # some time after the epoch; eighths of seconds are exact in floats
    for pause, cost in steps:
        eighths += pause
        wanted = naive.wait(Fraction(eighths, 8), cost)
        assert buckets.wait(b"somebody", eighths / 8, cost) == pytest.approx(float(wanted), abs=1e-6)


def test_waiting_for_retry_after_is_enough() -> None:
    buckets = TokenBuckets(2.0, 3.0)
    now = 1000.0
    assert [buckets.wait(b"a", now) for _ in range(6)] == [0.0] * 6
    values = buckets.wait(b"a", now)
    assert values == pytest.approx(0.5)
    assert buckets.wait(b"a", now + values) == 0.0
    assert buckets.wait(b"b", now) == 0.0  # another's bucket


def test_large_cost_needs_full_bucket_and_delays_others() -> None:
    buckets = TokenBuckets(10.0, 1.0)
    assert buckets.wait(b"a", 0.0) == 0.0
    assert buckets.wait(b"a", 0.0, 100, taken=1) == 0.0  # the same request, whose cost is known by now
    assert buckets.wait(b"a", 0.0) == pytest.approx(9.1)
    assert buckets.wait(b"a", 9.2) == 0.0


def test_refused_batch_costs_one_request() -> None:
    buckets = TokenBuckets(10.0, 1.0)
    for _ in range(2):
        assert buckets.wait(b"a", 0.0) == 0.0
        assert buckets.wait(b"a", 0.0, 9, taken=1) in (0.0, pytest.approx(0.8))
    with_room = [buckets.wait(b"a", 0.0) for _ in range(2)]
    assert with_room == [pytest.approx(0.1)] * 2


def test_zero_rate_means_no_limit() -> None:
    buckets = TokenBuckets(0.0, 1.0)
    assert all(buckets.wait(b"%d" % name, 0.0, 1000) == 0.0 for name in range(100))


def test_address_limits_count_kinds_apart() -> None:
    table = SharedTable(sets=1)
    address, key = TokenBuckets(1.0, 1.0, table, b"address"), TokenBuckets(1.0, 1.0, table, b"key")
    assert (address.wait(b"a", 0.0), key.wait(b"a", 0.0), address.wait(b"a", 0.0)) == (0.0, 0.0, 1.0)


def test_ipv6_site_gets_room_for_eight_networks() -> None:
    limits = AddressLimits(1.0, 1.0)
    assert [limits.wait(f"2001:db8:1:{place:x}::1", 0.0) > 0 for place in range(10)] == [False] * 8 + [True] * 2
    assert limits.wait("2001:db8:2::1", 0.0) == 0.0
    assert limits.wait("2001:db8:2::ffff", 0.0) == 1.0  # of the same household


def test_busy_bucket_outlives_many_others() -> None:
    buckets = TokenBuckets(1.0, 10.0, SharedTable(sets=1))
    assert buckets.wait(b"busy", 0.0, 10) == 0.0
    for name in range(1000):
        assert buckets.wait(b"%d" % name, 0.0) == 0.0
        assert buckets.wait(b"busy", 0.0) == 1.0


def test_reply_size_is_limited(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A payload of 1000 bytes, 20,000 in one answer."""
    monkeypatch.setattr(routes_decisions, "MAX_REPLY_BYTES", 20_000)
    assert served.post("/v1/experiments", {**SMALL, "name": "long"}).status == 201
    here = "/v1/experiments/long"
    assert served.post(f"{here}/decisions", {"n": 1000}).status == 200
    assert served.post(f"{here}/arms", {"name": "picture", "payload": "x" * 998}).status == 201
    assert len(served.post(f"{here}/decisions", {"n": 20}).json["decisions"]) == 20
    reply = served.post(f"{here}/decisions", b'{"\\u006e": 21}')
    assert (reply.status, reply.error[:7]) == (400, "n = 21:")
    assert "20 decisions fit" in reply.error
    for one in (b"", {}, {"visitor": "v"}):
        assert served.post(f"{here}/decisions", one).status == 200
    assert sum(served.get(f"{here}/state").json["pending"]) == 1023  # refused requests leave nothing pending
    assert served.post(f"{here}/arms", {"name": "film", "payload": "x" * 30_000}).status == 201
    assert served.post(f"{here}/decisions", {"n": 2}).status == 400
    assert served.post(f"{here}/decisions").status == 200  # one always fits


def test_reply_size_counts_names_of_groups(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 groups, and arms whose names fill the answer."""
    monkeypatch.setattr(routes_decisions, "MAX_REPLY_BYTES", 200_000)
    arms = [{"name": letter * 200} for letter in "ab"]
    about = {**SMALL, "name": "wordy", "arms": arms, "groups": [str(n) for n in range(100)], "default_arm": None}
    assert served.post("/v1/experiments", about).status == 201
    assert "9 decisions fit" in served.post("/v1/experiments/wordy/decisions", {"n": 10}).error
    body = served.post("/v1/experiments/wordy/decisions", {"n": 9}).body
    assert 180_000 < len(body) < 200_000


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("203.0.113.7", "", "203.0.113.7"),
        ("203.0.113.7", "198.51.100.1", "203.0.113.7"),  # not from a trusted proxy: any client can write that
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.1", "198.51.100.1"),  # the client's own entries come first
        ("10.0.0.1", "198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("10.0.0.1", "10.0.0.3", "10.0.0.3"),
        ("10.0.0.1", "nonsense", "10.0.0.1"),
        ("10.0.0.1", "nonsense, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "198.51.100.1, nonsense", "10.0.0.1"),
        ("2001:db8::5", "198.51.100.1", "198.51.100.1"),
        ("nowhere", "198.51.100.1", "nowhere"),
    ],
)
def test_forwarded_address_is_resolved(peer: str, forwarded: str, address: str) -> None:
    assert ClientAddresses(["10.0.0.0/8", "2001:db8::/32"]).resolve(peer, forwarded) == address


def test_without_proxies_peer_counts() -> None:
    assert ClientAddresses([]).resolve("10.0.0.1", "198.51.100.1") == "10.0.0.1"


def test_proxy_on_this_machine_is_trusted_unless_others_are_given() -> None:
    for peer in ("127.0.0.1", "::1"):
        assert ClientAddresses([]).resolve(peer, "6.6.6.6, 198.51.100.1") == "198.51.100.1"
        assert ClientAddresses(["10.0.0.1"]).resolve(peer, "198.51.100.1") == peer


@pytest.mark.parametrize(
    ("address", "networks"),
    [
        ("203.0.113.7", ("203.0.113.7", "")),
        ("2001:db8:1:2:3::4", ("2001:db8:1:2::/64", "2001:db8:1::/48")),
        ("::ffff:203.0.113.7", ("203.0.113.7", "")),
        ("fe80::1%" + "x" * 70_000, None),  # never cached
        ("testclient", None),
    ],
)
def test_unit_is_address_or_household(address: str, networks: tuple[str, str] | None) -> None:
    assert find_networks(address) == networks


def test_only_private_peer_can_be_forgotten_proxy() -> None:
    addresses = ClientAddresses(["10.0.0.1"])
    peers = ["10.0.0.1", "10.0.0.2", "127.0.0.1", "203.0.113.7", "8.8.8.8", ""]
    # 203.0.113.0/24 is for documentation, and private to Python
    assert [addresses.is_unknown_proxy(peer) for peer in peers] == [False, True, True, True, False, False]


@pytest.mark.parametrize(
    ("address", "block"),
    [
        ("203.0.113.7", "203.0.113.0/24"),
        ("::ffff:203.0.113.255", "203.0.113.0/24"),
        ("2001:db8:1:2:3::4", "2001:db8:1::/48"),
        ("testclient", ""),
        ("", ""),
    ],
)
def test_block_is_network_of_address(address: str, block: str) -> None:
    assert address_block(address) == block
