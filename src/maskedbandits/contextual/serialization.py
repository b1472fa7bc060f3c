"""A contextual policy written to a file, or to bytes, and set to work again."""

import io
import json
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np

from maskedbandits import _validation
from maskedbandits._numba.state import select_state
from maskedbandits._util.files import (
    MOST,
    WrongLoaderError,
    opened,
    refuse_more,
    refuse_others,
    unpacked_sizes,
    write_whole,
)
from maskedbandits.contextual.description import LEARNT
from maskedbandits.contextual.hierarchy import Grouping
from maskedbandits.contextual.policy import Contextual
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import DAMAGED, UserError
from maskedbandits.policies import Policy, serialization
from maskedbandits.policies.registry import Kind
from maskedbandits.privacy import as_epsilon

FORMAT = 7
ROUNDING = 1e-12


def save(policy: Contextual, path: str | Path) -> None:
    """Write everything down, for ``load_contextual``."""
    write_whole(Path(path), lambda stream: _write(policy, stream))


def dumps(policy: Contextual) -> bytes:
    """Return a contextual policy as bytes."""
    stream = io.BytesIO()
    _write(policy, stream)
    return stream.getvalue()


def loads(text: bytes) -> Contextual:
    """Return the contextual policy that ``dumps`` wrote down, with lots of its own."""
    return _read(io.BytesIO(text), "these bytes", exact=False)


def load_contextual(path: str | Path, *, exact: bool = False) -> Contextual:
    """Return the contextual policy that was saved, to go on where it stood.

    It knows all that the saved one knew. It draws new lots, and new signs from the operating system; ``exact`` makes it
    go on with the lots of the saved one, and with its signs if that had a seed.
    """
    with opened(path) as stream:
        return _read(stream, str(path), exact=exact)


def _write(policy: Contextual, stream: IO[bytes]) -> None:
    state, learnt, signs = policy.copied_parts()
    about = {
        "format": FORMAT,
        "policy": serialization.description(policy.by_group[0]),
        "epsilon": str(policy.epsilon),
        "kinds": policy.grouping.kinds,
        "parts": policy.grouping.parts.tolist(),
        "tree": policy.grouping.tree,
        "shares": None if policy.known_shares is None else policy.known_shares.tolist(),
        "signs": None if signs is None else signs.bit_generator.state,
    }
    serialization.write_arrays(stream, about, state, **learnt)


def _read(stream: IO[bytes], path: str, *, exact: bool) -> Contextual:
    try:
        sizes = unpacked_sizes(stream)
        with serialization.one_at_a_time, np.load(stream, allow_pickle=False) as file:
            refuse_more(sizes, ("about",), MOST)
            about = json.loads(str(file["about"]))
            refuse_others(about, "load_contextual", path)
            kind = _kind_of(about)
            refuse_more(sizes, ("own", *LEARNT), MOST)
            learnt = {key: np.array(file[key]) for key in LEARNT}
            epsilon, shares, grouping = _grouping(about, learnt["named"].size)
            state = serialization.state_of(kind, file, sizes, sum(grouping.sizes))
            signs = _signs(about.get("signs")) if exact else None
    except WrongLoaderError:
        raise
    except serialization.OtherFormatError:
        raise UserError(f"{path} was saved in another format: load it with the version that saved it") from None
    except DAMAGED as error:
        raise UserError(f"{path} is not a saved contextual policy, or is damaged: save it again ({error})") from None
    given = about["policy"].get("parameters")
    each = [
        serialization.revived(kind, given, select_state(state, place), path, exact=exact)
        for place in range(state.scalars.size)
    ]
    if not grouping.fits() or not _are_of_grains(grouping, **learnt) or not _are_of_groups(grouping, each):
        raise UserError(f"{path} is damaged: its groups do not fit together; load an older copy")
    made = Contextual(each, epsilon, grouping, shares, signs)
    made.know(learnt)
    return made


def _kind_of(about: dict[str, Any]) -> Kind:
    """Return the kind of policy that every group has."""
    if about["format"] != FORMAT:
        raise serialization.OtherFormatError
    return serialization.kind_told(about["policy"])


def _grouping(about: dict[str, Any], many: int) -> tuple[Fraction, Any, Grouping]:
    """Return epsilon, the shares if they were given, and how groups are asked."""
    shares = None if about["shares"] is None else _validation.parts_of_one("shares", about["shares"], many)
    known = np.full(many, 1.0 / many) if shares is None else shares
    epsilon, kinds = as_epsilon(str(about["epsilon"])), tuple(map(str, about["kinds"]))
    parts = np.array(about["parts"], dtype=np.int64)
    return epsilon, shares, Grouping(parts, kinds, float(epsilon), known, bool(about["tree"]))


def _are_of_groups(grouping: Grouping, policies: list[Policy]) -> bool:
    """Tell whether policies are alike, and have the masks that epsilon and the shares give them."""
    alike = len({(own.arms, own._mixed) for own in policies}) == 1
    return alike and all(_sees(*pair) for pair in zip(policies, grouping.masks, strict=True))


def _sees(policy: Policy, mask: RandomizedResponse) -> bool:
    """Tell whether a policy learns through a mask on all arms; shares that are written down may be rounded."""
    state, honest = policy._state, 1.0 - policy.contamination
    low, span = honest * (1.0 - mask.p00), honest * mask.slope
    same = np.allclose(state.lows, low, 0.0, ROUNDING) and np.allclose(1.0 / state.rates, span, 0.0, ROUNDING)
    return bool(same and not state.flips.any() and not state.scalars[0].curved)


def _signs(state: Any) -> np.random.Generator | None:
    """Return what draws signs on; None if the operating system does."""
    if state is None:
        return None
    source = np.random.PCG64()
    source.state = state
    return np.random.Generator(source)


def _are_of_grains(grouping: Grouping, weights: Any, named: Any, expected: Any) -> bool:
    """Tell whether numbers that were saved can be what grains have learnt."""
    types = [each.dtype for each in (weights, named, expected)] == [np.float64, np.int64, np.float64]
    if not types or [weights.shape, expected.shape] != [(len(grouping.kinds),), (2,)]:
        return False
    weighed = not np.any(np.isnan(weights)) and weights.max() == 0.0
    counted = named.min() >= 0 and np.all((expected >= 0.0) & (expected <= named.sum() + 1.0))
    return bool(weighed and counted)
