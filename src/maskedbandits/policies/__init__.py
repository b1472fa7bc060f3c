"""All policies by name.

To add one, write a module here or in ``indices``, ``memories`` or ``detectors``, and a line below. docs/write_policy.md
shows how.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from maskedbandits.corruption import IDENTITY, Corruption, expand_per_arm
from maskedbandits.errors import UserError, WrongValueError, check_int, suggest_nearest
from maskedbandits.math import rng
from maskedbandits.policies import (
    adswitch,
    auto,
    divergences,
    dp_ucb,
    exp3,
    ldp_laplace,
    log_times,
    oracle,
    registry,
    uniform,
)
from maskedbandits.policies.detectors import cusum, glr, page_hinkley, two_windows
from maskedbandits.policies.indices import kl, kl_plus, thompson, ucb
from maskedbandits.policies.initial_state import build_state
from maskedbandits.policies.memories import discount, everything, window
from maskedbandits.policies.policy import Policy
from maskedbandits.policies.registry import Kind

__all__ = [
    "KINDS",
    "Kind",
    "Policy",
    "check_policy",
    "find_registered",
    "kind_of",
    "make_policy",
    "names",
    "register_policy",
]

INDICES = {"klucb": kl, "ucb": ucb, "klucb-plus": kl_plus, "ts": thompson}
# Of each memory: its module, its name in words, and a reference.
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
    "adswitch": adswitch,
    "ldp-ucb-l": ldp_laplace,
    "dp-ucb": dp_ucb,
}


def _build_kinds() -> dict[str, Kind]:
    """Return every kind: all memories and detectors with all indices, those that stand alone, and a few old names."""
    kinds = [registry.alone(name, module) for name, module in ALONE.items()]
    kinds += _exp3_kinds()
    for label, index in INDICES.items():
        without_detector = [
            registry.on_axes(f"{prefix}{label}-cf", index, memory=memory, words=words, reference=reference)
            for prefix, (memory, words, reference) in MEMORIES.items()
        ]
        oracle_kind = registry.on_axes(f"oracle-{label}-cf", index, words="since the last known change")
        without_detector.append(replace(oracle_kind, required=frozenset({"restarts"})))
        kinds += [divergences.with_variants(kind) if index in (kl, ucb) else kind for kind in without_detector]
        for prefix, (detector, words, reference) in DETECTORS.items():
            if index is not kl_plus:  # KL-UCB++ needs the horizon, and detectors exist to do without it
                alarm = f"since a restart by {words}"
                kinds.append(
                    registry.on_axes(f"{prefix}{label}-cf", index, detector=detector, words=alarm, reference=reference)
                )
    return {kind.name: kind for kind in [*kinds, *_old_names()]}


def _exp3_kinds() -> list[Kind]:
    """Return EXP3.S, tuned for a number of changes, and REXP3, tuned for a variation budget."""
    exp3s = replace(registry.alone("exp3s", exp3), fixed={"variation": None})
    rexp3 = replace(
        registry.alone("rexp3", exp3),
        summary=exp3.REXP3_SUMMARY,
        reference=exp3.REXP3_REFERENCE,
        fixed={"changes": 1},
        required=frozenset({"variation"}),
    )
    return [exp3s, rexp3]


def _old_names() -> list[Kind]:
    """Return policies of the literature that are points on the axes."""
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


KINDS: dict[str, Kind] = _build_kinds()
BUILTIN_NAMES = frozenset(KINDS)
MAX_LISTED = 5  # names that an error about an unknown policy lists
# Common names from the literature, and the policy that each of them is here.
COMMON_NAMES = {
    "thompson": "ts-cf",
    "thompson-sampling": "ts-cf",
    "bernoulli-ts": "ts-cf",
    "posterior-sampling": "ts-cf",
    "ucb": "ucb-cf",
    "ucb1": "ucb-cf",
    "kl-ucb": "klucb-cf",
    "kl-ucb++": "klucb-plus-cf",
    "klucb++": "klucb-plus-cf",
    "sliding-window": "sw-klucb-cf",
    "sliding-window-ucb": "sw-ucb-cf",
    "sw-kl-ucb": "sw-klucb-cf",
    "discounted": "d-klucb-cf",
    "discounted-ucb": "d-ucb-cf",
    "discounted-ts": "d-ts-cf",
    "glr": "glr-klucb-cf",
    "glr-kl-ucb": "glr-klucb-cf",
    "cusum": "cusum-klucb-cf",
    "page-hinkley": "ph-klucb-cf",
    "exp3.s": "exp3s",
    "exp3": "exp3s",
    "random": "uniform",
}
NAME_PATTERN = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

MAX_ARMS = 1 << 24  # more would take gigabytes

_registered: dict[str, dict[str, Kind]] = {}  # by the module that registered them, then by name


def register_policy(name: str, module: ModuleType) -> None:
    """Register your own compiled policy under a name.

    `make_policy`, `simulate` and `load_policy` of this process then know the name. Register it again after you change
    the module: the later registration replaces the earlier one. Call it in the policy's module, and experiment files
    can name the policy as ``module:name``. docs/write_policy.md shows how to write the module.

    Parameters
    ----------
    name : str
        Name of the policy: lower-case words with hyphens between them, such as ``"my-policy"``.
    module : module
        The module that defines the policy. Within it, give ``sys.modules[__name__]``.

    Raises
    ------
    UserError
        If the name is malformed or belongs to this package, or the module lacks what a policy needs.

    Examples
    --------
    >>> from maskedbandits.policies import uniform
    >>> register_policy("my-uniform", uniform)
    >>> make_policy("my-uniform", arms=2)
    <my-uniform, arms=2, 0 observations>

    """
    if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
        raise WrongValueError("name", name, "lower-case words with hyphens between them, such as 'my-policy'")
    if name in BUILTIN_NAMES:
        raise UserError(f"{name} is a policy of this package: give yours another name")
    if not isinstance(module, ModuleType):
        raise WrongValueError("module", module, "the module of the policy; within it, sys.modules[__name__]")
    KINDS[name] = registry.alone(name, module)
    home = str(sys._getframe(1).f_globals.get("__name__", ""))
    _registered.setdefault(home, {})[name] = KINDS[name]


def find_registered(module: str) -> dict[str, Kind]:
    """Return the policies that a module, or a module within that package, has registered.

    Parameters
    ----------
    module : str
        Full name of the module.

    Returns
    -------
    dict
        Kinds of policies by the names under which they were registered.

    Examples
    --------
    >>> find_registered("math")
    {}

    """
    homes = sorted(home for home in _registered if home == module or home.startswith(f"{module}."))
    return {name: kind for home in reversed(homes) for name, kind in _registered[home].items()}


def names() -> list[str]:
    """Return the names of all policies.

    Returns
    -------
    list of str
        The names in alphabetical order.

    Examples
    --------
    >>> names()[:3]
    ['adswitch', 'auto', 'cusum-klucb-cf']

    """
    return sorted(KINDS)


def kind_of(name: str) -> Kind:
    """Return the description of a policy's name.

    Parameters
    ----------
    name : str
        Name of a policy.

    Returns
    -------
    Kind
        The code and the parameters of the policy.

    Raises
    ------
    UserError
        If no policy has this name.

    Examples
    --------
    >>> kind_of("auto").learns_from
    'masked feedback'

    """
    if not isinstance(name, str) or name not in KINDS:
        raise UserError(f"no policy is called {name!r}{suggest_policy(name, KINDS)}")
    return KINDS[name]


def suggest_policy(word: object, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown policy: the one that was probably meant, or all names.

    Parameters
    ----------
    word : object
        The unknown name.
    known : iterable of str
        Names that would be accepted.

    Returns
    -------
    str
        The end of a sentence.

    Examples
    --------
    >>> suggest_policy("Thompson", names())
    "; did you mean 'ts-cf'?"
    >>> suggest_policy("glr-ucb", names())
    "; did you mean 'glr-ucb-cf'?"

    """
    listed = list(known)
    plain = "-".join(str(word).lower().replace("_", " ").split())
    likely = (COMMON_NAMES.get(plain, ""), f"{plain}-cf", f"{plain.removesuffix('-cf')}-cf")
    ending = suggest_nearest(next((name for name in likely if name in listed), word), listed)
    if not ending.startswith("; known are") or len(listed) <= MAX_LISTED:
        return ending
    first = ", ".join(listed[:MAX_LISTED])
    return f"; known are {first} and {len(listed) - MAX_LISTED} more, which `maskedbandits policies` lists"


def check_policy(
    name: str,
    *,
    arms: int,
    corruption: Corruption | Sequence[Corruption] | None = None,
    pace: float | None = None,
    **parameters: Any,
) -> dict[str, Any]:
    """Check the arguments of `make_policy` without building a policy.

    Parameters
    ----------
    name, arms, corruption, **parameters
        As for `make_policy`.
    pace : float, optional
        If given, times are in rows of a log that plays one row in ``pace``. They are returned in plays.

    Returns
    -------
    dict
        All parameters, defaults included.

    Raises
    ------
    UserError
        If `make_policy` would raise one.

    Examples
    --------
    >>> check_policy("klucb", arms=3)["c"]
    3.0

    """
    arms = check_int("arms", arms, 1, MAX_ARMS)
    kind, given, _ = _fit_kind(name, arms, corruption, parameters)
    if pace is not None:
        log_times.rows_of(kind, given)
        given = log_times.in_plays(kind, given, arms, pace)
    return kind.complete(given, arms)


def _fit_kind(
    name: str, arms: int, corruption: Corruption | Sequence[Corruption] | None, parameters: Mapping[str, Any]
) -> tuple[Kind, dict[str, Any], tuple[Corruption, ...]]:
    """Return the kind that fits the corruption, its parameters, and the corruption of every arm."""
    kind_of(name).complete(parameters, arms)
    known = known_corruption(kind_of(name), arms, corruption)
    actual = expand_per_arm(IDENTITY if corruption is None else corruption, arms)  # even if the policy need not know it
    kind, given = divergences.fit_divergence(kind_of(name), actual, parameters)
    return kind, given, known


def known_corruption(
    kind: Kind, arms: int, corruption: Corruption | Sequence[Corruption] | None
) -> tuple[Corruption, ...]:
    """Return the corruption of every arm, as far as the policy has to know it."""
    if kind.sees_corruption and corruption is None:
        raise UserError(f"{kind.name} requires corruption: give the RandomizedResponse that masks the feedback")
    each = expand_per_arm(IDENTITY if corruption is None else corruption, arms)
    if not kind.sees_corruption:
        return (IDENTITY,) * arms
    is_curved = any(one.polyline.means.size != 2 for one in {id(one): one for one in each}.values())
    if kind.learns_from == "debiased feedback" and is_curved:
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
    """Return a new policy.

    Parameters
    ----------
    name : str
        Name of the policy, such as ``"auto"`` or ``"sw-klucb-cf"``. ``maskedbandits policies`` lists them all.
    arms : int
        Number of arms.
    corruption : Corruption or sequence of Corruption, optional
        The mask of the feedback: one for all arms, or one for each. Most policies need it.
    seed : int, optional
        The seed of the policy's random numbers. By default they come from the operating system.
    **parameters
        Parameters of the policy, such as ``window``. ``maskedbandits policies NAME`` explains them.

    Returns
    -------
    Policy
        The policy, before its first observation.

    Raises
    ------
    UserError
        If the name is unknown, a parameter is missing or unknown, or a value is out of range.

    Examples
    --------
    >>> make_policy("klucb", arms=3).choose()
    0
    >>> from maskedbandits import RandomizedResponse
    >>> make_policy("ts-cf", arms=3, corruption=RandomizedResponse.from_epsilon(1.0))
    <ts-cf, arms=3, restarts=None, contamination=0.0, 0 observations>

    """
    arms = check_int("arms", arms, 1, MAX_ARMS)
    kind, given, each = _fit_kind(name, arms, corruption, parameters)
    lines = {id(one): one.polyline for one in {id(one): one for one in each}.values()}
    state = build_state(kind, kind.complete(given, len(each)), [lines[id(one)] for one in each])
    return Policy(kind, given, state, rng.seed_words(None if seed is None else check_int("seed", seed, 0)))
