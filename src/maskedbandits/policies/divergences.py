"""The divergence of an index, chosen by the kind of feedback.

The index of N feedbacks with mean p is the largest u with N d(p, u) <= f. The divergence d is one of

    kl          of Bernoulli distributions, for feedback in [0, 1]
    gaussian    (x - y)^2 / (2 sigma^2), for sub-Gaussian feedback of any size: u = p + sqrt(2 sigma^2 f / N), the
                index of ``indices/ucb.py`` with xi = 2 sigma^2, whose code plays it
    sub-gamma   for a heavier tail, such as that of Laplace noise: ``indices/sub_gamma.py``

The corruption says which kind of feedback there is. By default, sigma is that of rewards in [0, 1] with its noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from maskedbandits._numba.state import Param
from maskedbandits.corruption import Corruption
from maskedbandits.errors import UserError
from maskedbandits.noise import BOUNDED, Noise, Spread, compute_spread
from maskedbandits.policies import registry, validation
from maskedbandits.policies.indices import kl, sub_gamma, ucb
from maskedbandits.policies.memories import everything
from maskedbandits.policies.registry import Kind
from maskedbandits.policies.validation import MAX_FEEDBACK

INDICES = {"gaussian": ucb, "sub-gamma": sub_gamma}
_positive = validation.perhaps(validation.between(0, MAX_FEEDBACK, above=True))
PARAMETERS = {
    "divergence": Param(
        None,
        validation.perhaps(validation.one_of("kl", *INDICES)),
        "what the index measures by: by default what fits the corruption, 'gaussian' of GaussianNoise and 'sub-gamma' "
        "of LaplaceNoise",
        stored=False,
    ),
    "sigma": Param(
        None,
        _positive,
        "how far feedback strays that is no bits: by default sqrt(1/4 + variance of the noise), for rewards in [0, 1]",
        stored=False,
    ),
    "tail": Param(
        None, _positive, "how heavy its tail is: by default the scale of LaplaceNoise, else there is none", stored=False
    ),
}


def with_variants(kind: Kind) -> Kind:
    """Return a kind on the axes that also learns from unbounded feedback."""
    replaced = {key: what for key, what in {**kind.parameters, **PARAMETERS}.items() if key != "xi"}
    variants = {}
    for name, index in INDICES.items():
        other = registry.on_axes(kind.name, index, memory=kind.code["memory"] or everything)
        variants[name] = replace(kind, code=other.code, modules=other.modules, replaced=replaced)
    return replace(kind, added=PARAMETERS, variants=variants)


def fit_divergence(kind: Kind, each: Sequence[Corruption], given: Mapping[str, Any]) -> tuple[Kind, dict[str, Any]]:
    """Return the kind and the parameters that fit the corruption."""
    known, divergence = compute_spread(each), given.get("divergence")
    if not kind.variants:
        _refuse_unless_blind(kind, each)
        return kind, dict(given)
    if divergence is None and (known is not None or given.get("sigma") is not None):
        divergence = "sub-gamma" if known is not None and known.tail > 0.0 else "gaussian"
    if divergence is None or divergence == "kl":
        _refuse_kl(kind, each, given)
        return kind, dict(given)
    return kind.variants[divergence], _fill_parameters(divergence, known or Spread(BOUNDED, 0.0), given)


def _fill_parameters(divergence: str, known: Spread, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters, with those that a divergence needs."""
    others = {key: value for key, value in given.items() if key != "xi"}
    sigma, xi, tail = given.get("sigma"), given.get("xi"), given.get("tail")
    if sigma is not None and xi is not None:
        raise UserError("sigma and xi = 2 sigma^2 are the same parameter: give one of them")
    if sigma is None:
        sigma = known.sigma if xi is None else math.sqrt(xi / 2.0)
    if divergence == "gaussian":
        if tail is not None:
            raise UserError("a gaussian divergence has no tail: leave out tail, or use divergence = 'sub-gamma'")
        return {**others, "divergence": divergence, "sigma": sigma}
    if tail is None and known.tail == 0.0:
        raise UserError("divergence = 'sub-gamma' requires the parameter 'tail': give the scale of Laplace noise")
    return {**others, "divergence": divergence, "sigma": sigma, "tail": known.tail if tail is None else tail}


def _refuse_kl(kind: Kind, each: Sequence[Corruption], given: Mapping[str, Any]) -> None:
    """Refuse the Bernoulli divergence for unbounded feedback, and for indices that lack it."""
    for one in each:
        if isinstance(one, Noise):
            raise UserError(
                f"divergence = 'kl' requires feedback in [0, 1], and {one} is unbounded: leave out divergence"
            )
    if given.get("divergence") == "kl" and kind.code["index"] is not kl:
        raise UserError(f"{kind.name} does not support divergence = 'kl': use a policy with klucb in its name")
    if given.get("sigma") is not None or given.get("tail") is not None:
        raise UserError("sigma and tail require continuous feedback: leave them out, or give a divergence for it")


def _refuse_unless_blind(kind: Kind, each: Sequence[Corruption]) -> None:
    """Refuse noise for a kind that learns from feedback in [0, 1]; kinds that ignore feedback do not see it."""
    for one in each:
        if isinstance(one, Noise) and kind.learns_from not in ("nothing", "rewards"):
            raise UserError(
                f"{kind.name} requires feedback in [0, 1], and {one} is unbounded: use klucb-cf or ucb-cf, "
                "also as sw-, d- or oracle-"
            )
