"""Policies by name.

A new one is a module here, or in ``indices``, ``memories`` or ``detectors``, and a line below (docs/extending.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from maskedbandits.corruption import IDENTITY, Corruption, per_arm
from maskedbandits.errors import UserError, check_int, nearest
from maskedbandits.math import rng
from maskedbandits.policies import (
    adswitch,
    auto,
    divergences,
    dp_ucb,
    exp3s,
    ldp_laplace,
    log_times,
    oracle,
    registry,
    rexp3,
    uniform,
)
from maskedbandits.policies.detectors import cusum, glr, page_hinkley, two_windows
from maskedbandits.policies.indices import kl, kl_plus, thompson, ucb
from maskedbandits.policies.memories import discount, everything, window
from maskedbandits.policies.policy import Policy, made
from maskedbandits.policies.registry import Kind

__all__ = ["KINDS", "Kind", "Policy", "check_policy", "kind_of", "make_policy", "names"]

INDICES = {"klucb": kl, "ucb": ucb, "klucb-plus": kl_plus, "ts": thompson}
MEMORIES: dict[str, tuple[Any, str, str]] = {
    "": (everything, "everything", ""),
    "sw-": (window, "sliding window", ""),
    "d-": (discount, "discount", "Kocsis & Szepesvári 2006"),
}
DETECTORS: dict[str, tuple[Any, str, str]] = {
    "glr-": (glr, "the exact likelihood-ratio test", "Besson et al. 2022"),
    "cusum-": (cusum, "CUSUM", "Liu et al. 2018"),
    "ph-": (page_hinkley, "Page-Hinkley", "Hartland et al. 2007"),
    "m-": (two_windows, "two windows", "Cao et al. 2019"),
}
ALONE = {
    "auto": auto,
    "uniform": uniform,
    "oracle": oracle,
    "exp3s": exp3s,
    "rexp3": rexp3,
    "adswitch": adswitch,
    "ldp-ucb-l": ldp_laplace,
    "dp-ucb": dp_ucb,
}


def _kinds() -> dict[str, Kind]:
    """Return every kind: all memories and detectors with all indices, those that stand alone, and a few old names."""
    found = [registry.alone(name, module) for name, module in ALONE.items()]
    for label, index in INDICES.items():
        without_detector = [
            registry.on_axes(f"{before}{label}-cf", index, memory=memory, words=words, reference=reference)
            for before, (memory, words, reference) in MEMORIES.items()
        ]
        told = registry.on_axes(f"oracle-{label}-cf", index, words="since the last change, told by an oracle")
        without_detector.append(replace(told, required=frozenset({"restarts"})))
        found += [divergences.with_variants(kind) if index in (kl, ucb) else kind for kind in without_detector]
        for before, (detector, words, reference) in DETECTORS.items():
            if index is not kl_plus:  # it needs the horizon, they are there to do without
                alarm = f"since a restart by {words}"
                found.append(
                    registry.on_axes(f"{before}{label}-cf", index, detector=detector, words=alarm, reference=reference)
                )
    return {kind.name: kind for kind in [*found, *_old_names()]}


def _old_names() -> list[Kind]:
    plain = registry.on_axes("klucb", kl)
    response = registry.on_axes("ldp-ucb-b", ucb)
    return [
        replace(
            plain,
            learns_from="feedback at face value",
            summary="klucb-cf that takes feedback at face value",
            reference="Cappé et al. 2013",
        ),
        replace(
            response,
            summary="randomised response x UCB: ucb-cf as it is by default",
            reference="Ren et al. 2020",
            fixed={"restarts": None},
        ),
    ]


KINDS: dict[str, Kind] = _kinds()


def names() -> list[str]:
    """Return all policy names."""
    return sorted(KINDS)


def kind_of(name: str) -> Kind:
    """Return what a name stands for."""
    if not isinstance(name, str) or name not in KINDS:
        raise UserError(f"no policy is called {name!r}{nearest(name, KINDS)}")
    return KINDS[name]


def check_policy(
    name: str,
    *,
    arms: int,
    corruption: Corruption | Sequence[Corruption] | None = None,
    pace: float | None = None,
    **parameters: Any,
) -> dict[str, Any]:
    """Return all parameters of a policy, checked, without making one.

    With a pace, times are in rows of a log of which one in so many is played, and are returned in plays.
    """
    kind, given, _ = _fitted(name, arms, corruption, parameters)
    if pace is not None:
        log_times.rows_of(kind, given)
        given = log_times.in_plays(kind, given, arms, pace)
    return kind.complete(given, arms)


def _fitted(
    name: str, arms: int, corruption: Corruption | Sequence[Corruption] | None, parameters: Mapping[str, Any]
) -> tuple[Kind, dict[str, Any], tuple[Corruption, ...]]:
    """Return what plays a policy, its parameters, and the corruption of every arm."""
    kind_of(name).complete(parameters, check_int("arms", arms))
    seen = seen_through(kind_of(name), arms, corruption)
    through = per_arm(IDENTITY if corruption is None else corruption, arms)  # also what the policy need not know
    kind, given = divergences.fitted(kind_of(name), through, parameters)
    return kind, given, seen


def seen_through(kind: Kind, arms: int, corruption: Corruption | Sequence[Corruption] | None) -> tuple[Corruption, ...]:
    """Return the corruption of every arm, as the policy has to know it."""
    if kind.sees_corruption and corruption is None:
        raise UserError(f"{kind.name} needs corruption: the RandomizedResponse that masks the feedback")
    each = per_arm(IDENTITY if corruption is None else corruption, arms)
    if not kind.sees_corruption:
        return (IDENTITY,) * arms
    curved = any(one.polyline.means.size != 2 for one in {id(one): one for one in each}.values())
    if kind.learns_from == "debiased feedback" and curved:
        raise UserError(f"{kind.name} cannot debias a Monotone corruption report by report: give a RandomizedResponse")
    return each


def make_policy(
    name: str,
    *,
    arms: int,
    corruption: Corruption | Sequence[Corruption] | None = None,
    seed: int | None = None,
    **parameters: Any,
) -> Policy:
    """Return a fresh policy that has seen nothing.

    With a seed, one that draws lots draws the same ones each time; without, the operating system gives them.

    >>> make_policy("klucb", arms=3).choose()
    0
    """
    kind, given, each = _fitted(name, arms, corruption, parameters)
    drawn = {id(one): one.polyline for one in {id(one): one for one in each}.values()}
    state = made(kind, kind.complete(given, len(each)), [drawn[id(one)] for one in each])
    return Policy(kind, given, state, rng.seeded(None if seed is None else check_int("seed", seed, 0)))
