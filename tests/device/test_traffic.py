"""Network traffic is independent of what people did, except for the masked bits.

Worlds are played twice with the same randomness: the same delays, the same server failures, and other rewards. Each
request must then leave at the same time with the same length. Mutants break this in one way each, and are found.
"""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from device_fakes import START, Arrival, Clock, Service, direct, opened
from scipy.stats import ks_2samp

from helpers.boundaries import set_delays, set_device_clock
from helpers.private import next_due
from maskedbandits.device import Device, reporter
from maskedbandits.device.http import HttpClient, HttpReply
from maskedbandits.device.outbox import DRAWN, WAITING, Outbox, PendingReport
from maskedbandits.privacy import Randomizer

VISITS = 1000
People = Callable[[random.Random], tuple[float | None, float]]  # their reward, and when they report it


class Traffic(NamedTuple):
    """All attempted reports, the visit of each token, and the rewards of the visits."""

    arrivals: list[Arrival]
    visits: dict[str, int]
    rewards: list[float | None]
    taken: dict[str, int]


def play(people: People, visits: int = VISITS, seed: int | None = 0) -> Traffic:
    """Let people come one after the other, one a second. With a seed, the device's delays repeat."""
    clock, rng = Clock(), random.Random(7)
    service = Service(clock.time)
    tries: Counter[str] = Counter()

    def fails(count: int) -> str:
        """Fail for the same attempts of the same visits, in any order of arrival."""
        token = service.arrivals[count - 1].token
        tries[token] += 1
        visit = list(service.issued).index(token)
        return random.Random(1000 * visit + tries[token]).choice(("before", "after", "", "", ""))

    service.fails = fails
    rewards: list[float | None] = []
    coming: list[tuple[float, Any, float]] = []
    with pytest.MonkeyPatch.context() as patch, direct(service) as address:
        set_device_clock(patch, clock)
        if seed is not None:
            set_delays(patch, random.Random(seed).random)
        with opened(address, cap=10**6) as own:
            while len(rewards) < visits or next_due(own) is not None:
                clock.at = math.floor(clock.at) + 1.0 if len(rewards) < visits else next_event(own, coming, clock.at)
                if len(rewards) < visits:
                    reward, after = people(rng)
                    rewards.append(reward)
                    coming.append((clock.at + after, own.decide(), reward or 0.0))
                    if reward is None:
                        coming.pop()
                for entry in [entry for entry in coming if entry[0] <= clock.at]:
                    coming.remove(entry)
                    entry[1].report(entry[2])
                own.send_due()
    return Traffic(service.arrivals, {token: n for n, token in enumerate(service.issued)}, rewards, service.taken)


def next_event(own: Device, coming: list[tuple[float, Any, float]], at: float) -> float:
    """Return the next whole second at which a report is due or a reward comes."""
    due = next_due(own)
    return max(at + 1, math.ceil(min([math.inf if due is None else due, *(entry[0] for entry in coming)])))


def all_click(rng: random.Random) -> tuple[float | None, float]:
    return 1.0, rng.uniform(0, 50)


def nobody_clicks(rng: random.Random) -> tuple[float | None, float]:
    return 0.0, rng.uniform(0, 50)


def nobody_says_anything(rng: random.Random) -> tuple[float | None, float]:
    rng.random()
    return None, 0.0


def everything(rng: random.Random) -> tuple[float | None, float]:
    """Clicks, no clicks, silence and halves, in time and too late."""
    return rng.choice([1.0, 0.0, None, 0.5]), rng.uniform(0, 120)


def in_time(rng: random.Random) -> tuple[float | None, float]:
    """Clicks, no clicks and silence, in time."""
    return rng.choice([1.0, 0.0, None]), rng.uniform(0, 50)


def seen(traffic: Traffic) -> list[tuple[float, int, int]]:
    """Return what the network sees except the bit: time, size and decision."""
    return sorted((arrival.at, arrival.size, traffic.visits[arrival.token]) for arrival in traffic.arrivals)


def faults(one: Traffic, other: Traffic) -> set[str]:
    """Return in what two worlds differ whose rewards alone differ."""
    found = set()
    columns = zip(("times", "sizes"), (0, 1), strict=True)
    found |= {name for name, at in columns if [row[at] for row in seen(one)] != [row[at] for row in seen(other)]}
    if Counter(row[2] for row in seen(one)) != Counter(row[2] for row in seen(other)):
        found.add("presence")
    for traffic in (one, other):
        bits = defaultdict(set)
        for arrival in traffic.arrivals:
            bits[arrival.token].add(arrival.bit)
        if any(len(each) > 1 for each in bits.values()):
            found.add("bits")
        if len(traffic.taken) < len(traffic.visits):
            found.add("lost")
    return found


@pytest.fixture(scope="module")
def silence() -> Traffic:
    return play(nobody_says_anything)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("people", [all_click, nobody_clicks, everything])
def test_network_traffic_is_independent_of_rewards(people: People, silence: Traffic) -> None:
    traffic = play(people)
    assert faults(traffic, silence) == set()
    assert len(traffic.taken) == VISITS
    assert len(traffic.arrivals) > 1.3 * VISITS  # many are tried more than once
    assert len({size for _, size, _ in seen(traffic)}) == 1
    first = {token: START + 1 + visit for token, visit in traffic.visits.items()}
    assert all(arrival.at >= first[arrival.token] + 60 for arrival in traffic.arrivals)


def test_masked_bits_are_the_only_difference() -> None:
    """With real randomness; an error occurs once in 10^9 runs."""
    traffic = play(in_time, visits=500, seed=None)
    shares, delays = {}, {}
    for reward in (1.0, 0.0, None):
        chosen = {token for token, n in traffic.visits.items() if traffic.rewards[n] == reward}
        sent = {arrival.token: arrival for arrival in reversed(traffic.arrivals)}  # the first try of each
        shares[reward] = sum(traffic.taken[token] for token in chosen) / len(chosen)
        delays[reward] = [sent[token].at - START - traffic.visits[token] for token in chosen]
        true = float(Randomizer(1).p11)
        expected = true if reward else 1 - true
        assert abs(shares[reward] - expected) < 6.1 * (true * (1 - true) / len(chosen)) ** 0.5
    assert ks_2samp(delays[1.0], delays[0.0]).pvalue > 1e-9
    assert ks_2samp(delays[1.0], delays[None]).pvalue > 1e-9


# Mutants: each breaks one promise


def watch_rewards(patch: pytest.MonkeyPatch) -> dict[str, float]:
    """Return the reward of each token for which one came in time, as they come."""
    rewards: dict[str, float] = {}
    real = reporter.Reporter.reward

    def reward(self: reporter.Reporter, token: str, value: float) -> bool:
        fresh = real(self, token, value)
        if fresh:
            rewards[token] = value
        return fresh

    patch.setattr(reporter.Reporter, "reward", reward)
    return rewards


def sends_at_the_click(patch: pytest.MonkeyPatch) -> None:
    promised: dict[str, tuple[Outbox, PendingReport]] = {}
    add, real = Outbox.add, reporter.Reporter.reward

    def remember(self: Outbox, row: PendingReport, at: float) -> bool:
        promised[row.token] = self, row
        return add(self, row, at)

    def reward(self: reporter.Reporter, token: str, value: float) -> bool:
        fresh, (outbox, row) = real(self, token, value), promised[token]
        outbox.move(row, DRAWN, 0.0)
        return fresh

    patch.setattr(Outbox, "add", remember)
    patch.setattr(reporter.Reporter, "reward", reward)


def sends_only_clicks(patch: pytest.MonkeyPatch) -> None:
    rewards, real = watch_rewards(patch), HttpClient.post

    def post(self: HttpClient, path: str, content: dict[str, Any], length: int = 0) -> HttpReply:
        if "bit" in content and not rewards.get(content["token"]):
            return HttpReply(200, {"status": "accepted"})
        return real(self, path, content, length)

    patch.setattr(HttpClient, "post", post)


def draws_again_when_it_tries_again(patch: pytest.MonkeyPatch) -> None:
    real = HttpClient.post

    def post(self: HttpClient, path: str, content: dict[str, Any], length: int = 0) -> HttpReply:
        if "bit" in content:
            content = {**content, "bit": Randomizer(content["epsilon"]).bit(content["bit"])}
        return real(self, path, content, length)

    patch.setattr(HttpClient, "post", post)


def says_more_of_a_click(patch: pytest.MonkeyPatch) -> None:
    rewards, real = watch_rewards(patch), HttpClient.post

    def post(self: HttpClient, path: str, content: dict[str, Any], length: int = 0) -> HttpReply:
        return real(self, path, {**content, **({"seen": 1} if rewards.get(content.get("token", "")) else {})}, length)

    patch.setattr(HttpClient, "post", post)


def forgets_who_said_nothing(patch: pytest.MonkeyPatch) -> None:
    """Drop rows without a reward when they are closed."""
    rewards, real = watch_rewards(patch), Outbox.move

    def move(self: Outbox, row: PendingReport, state: int, *others: Any) -> PendingReport | None:
        if (row.state, state) == (WAITING, DRAWN) and row.token not in rewards:
            self.drop(row)
            return None
        return real(self, row, state, *others)

    patch.setattr(Outbox, "move", move)


def waits_longer_for_silence(patch: pytest.MonkeyPatch) -> None:
    rewards, real = watch_rewards(patch), Outbox.move

    def move(self: Outbox, row: PendingReport, state: int, due: float, *others: Any) -> PendingReport | None:
        closes = (row.state, state) == (WAITING, DRAWN)
        return real(self, row, state, due + 3.0 * (closes and row.token not in rewards), *others)

    patch.setattr(Outbox, "move", move)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "fault"),
    [
        (sends_at_the_click, "times"),
        (sends_only_clicks, "presence"),
        (draws_again_when_it_tries_again, "bits"),
        (says_more_of_a_click, "sizes"),
        (forgets_who_said_nothing, "lost"),
        (waits_longer_for_silence, "times"),
    ],
)
def test_leaking_devices_are_found(
    mutant: Callable[[pytest.MonkeyPatch], None], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert fault in faults(play(all_click, 200), play(nobody_says_anything, 200))
