"""Rate limits: token buckets match a naive twin in bounded memory, and addresses map to buckets."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from web import SMALL, Served

from maskedbandits.service import routes_decisions
from maskedbandits.service.rate_limits import ClientAddresses, TokenBuckets, address_block, bucket_name
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
        assert buckets.wait("somebody", eighths / 8, cost) == pytest.approx(float(wanted), abs=1e-6)


def test_waiting_for_retry_after_is_enough() -> None:
    buckets = TokenBuckets(2.0, 3.0)
    now = 1000.0
    assert [buckets.wait("a", now) for _ in range(6)] == [0.0] * 6
    values = buckets.wait("a", now)
    assert values == pytest.approx(0.5)
    assert buckets.wait("a", now + values) == 0.0
    assert buckets.wait("b", now) == 0.0  # another's bucket


def test_large_cost_needs_full_bucket_and_delays_others() -> None:
    buckets = TokenBuckets(10.0, 1.0)
    assert buckets.wait("a", 0.0) == 0.0
    assert buckets.wait("a", 0.0, 100, taken=1) == 0.0  # the same request, whose cost is known by now
    assert buckets.wait("a", 0.0) == pytest.approx(9.1)
    assert buckets.wait("a", 9.2) == 0.0


def test_refused_batch_costs_one_request() -> None:
    buckets = TokenBuckets(10.0, 1.0)
    for _ in range(2):
        assert buckets.wait("a", 0.0) == 0.0
        assert buckets.wait("a", 0.0, 9, taken=1) in (0.0, pytest.approx(0.8))
    with_room = [buckets.wait("a", 0.0) for _ in range(2)]
    assert with_room == [pytest.approx(0.1)] * 2


def test_zero_rate_means_no_limit() -> None:
    buckets = TokenBuckets(0.0, 1.0)
    assert all(buckets.wait(name, 0.0, 1000) == 0.0 for name in range(100))
    assert len(buckets) == 0


def test_buckets_are_bounded_and_oldest_is_dropped() -> None:
    buckets = TokenBuckets(1.0, 1.0, max_buckets=10)
    assert buckets.wait("busy", 0.0) == 0.0
    for name in range(1000):
        buckets.wait(name, 0.0)
        assert buckets.wait("busy", 0.0) > 0.0
        buckets.wait(-name, 0.0, 5)
        assert len(buckets) <= 10


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


@pytest.mark.parametrize(
    ("address", "bucket"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1::/48"),
        ("2001:db8:1:ffff:ffff::", "2001:db8:1::/48"),  # another household of the same site
        ("2001:db8:2:2:3::4", "2001:db8:2::/48"),
        ("fe80::1%" + "x" * 70_000, ""),  # never cached
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("testclient", ""),
    ],
)
def test_bucket_is_address_or_site(address: str, bucket: str) -> None:
    assert bucket_name(address) == bucket


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
