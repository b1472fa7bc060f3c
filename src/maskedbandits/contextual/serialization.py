"""Save and load contextual policies."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from maskedbandits import _validation
from maskedbandits._numba.state import select_state
from maskedbandits._util.files import MAX_DESCRIPTION_BYTES, refuse_more
from maskedbandits.contextual.hierarchy import Grouping
from maskedbandits.contextual.policy import LEARNED, Contextual
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import UserError
from maskedbandits.policies import Policy, serialization
from maskedbandits.policies.registry import Kind
from maskedbandits.privacy import as_epsilon

FORMAT = 8
ROUNDING = 1e-12


class Contents(NamedTuple):
    """The contents of a file."""

    kind: Kind
    parameters: Any  # of every group's policy
    epsilon: Fraction
    shares: Any  # if they were given
    grouping: Grouping
    state: Any
    learned: dict[str, Any]
    signs: np.random.Generator | None


class _ContextualSerializer(serialization.Serializer[Contextual]):
    """Save and load a `Contextual` policy."""

    noun = "contextual policy"
    loader = "load_contextual"

    def write(self, policy: Contextual, stream: IO[bytes]) -> None:
        """Write the description, the state, and what the levels learned."""
        state, learned, signs = policy.snapshot()
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
        serialization.write_arrays(stream, about, state, **learned)

    def read(self, about: dict[str, Any], file: Any, sizes: Mapping[str, int], *, exact: bool) -> Contents:
        """Return the contents of an archive."""
        kind = _kind_of(about)
        refuse_more(sizes, ("own", *LEARNED), MAX_DESCRIPTION_BYTES)
        learned = {key: np.array(file[key]) for key in LEARNED}
        epsilon, shares, grouping = read_grouping(about, learned["named"].size)
        state = serialization.read_state(kind, file, sizes, sum(grouping.sizes))
        signs = _read_signs(about.get("signs")) if exact else None
        return Contents(kind, about["policy"].get("parameters"), epsilon, shares, grouping, state, learned, signs)

    def build(self, contents: Contents, path: str, *, exact: bool) -> Contextual:
        """Return the policy, if its parts fit together."""
        kind, parameters, epsilon, shares, grouping, state, learned, signs = contents
        states = [select_state(state, index) for index in range(state.scalars.size)]
        each = [serialization.revive(kind, parameters, own, path, exact=exact) for own in states]
        if not grouping.is_valid() or not _learned_fits(grouping, **learned) or not _policies_fit(grouping, each):
            raise UserError(f"{path} is damaged: its groups contradict each other; load an older copy")
        policy = Contextual(each, epsilon, grouping, shares, signs)
        policy.restore(learned)
        return policy


_serializer = _ContextualSerializer()
save, dumps, build = _serializer.save, _serializer.dumps, _serializer.build


def loads(data: bytes) -> Contextual:
    """Return the contextual policy from `dumps`, with new random numbers."""
    return _serializer.loads(data)


def load_contextual(path: str | Path, *, exact: bool = False) -> Contextual:
    """Load a saved contextual policy, to continue where it stopped.

    The policy knows everything that the saved one knew.

    Parameters
    ----------
    path : str or Path
        A file written by `Contextual.save`.
    exact : bool, optional
        Whether to continue with the random numbers of the saved policy, and with its signs if it had a seed. By default
        the policy draws new random numbers, and new signs from the operating system.

    Returns
    -------
    Contextual
        The policy.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    UserError
        If the file is damaged, or holds something else.

    Examples
    --------
    >>> import tempfile
    >>> from maskedbandits import load_contextual, make_contextual
    >>> policy = make_contextual("klucb-cf", groups=2, arms=3, epsilon=1)
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     policy.save(file.name)
    ...     load_contextual(file.name)
    <klucb-cf, groups=2, arms=3, epsilon=1, bit>

    """
    return _serializer.load(path, exact=exact)


def _kind_of(about: dict[str, Any]) -> Kind:
    """Return the kind of the policies of all groups."""
    if about["format"] != FORMAT:
        raise serialization.OtherFormatError
    return serialization.read_kind(about["policy"])


def read_grouping(about: dict[str, Any], many: int) -> tuple[Fraction, Any, Grouping]:
    """Return epsilon, the shares if they were given, and the levels."""
    shares = None if about["shares"] is None else _validation.check_parts_of_one("shares", about["shares"], many)
    known = np.full(many, 1.0 / many) if shares is None else shares
    epsilon, kinds = as_epsilon(str(about["epsilon"])), tuple(map(str, about["kinds"]))
    parts = np.array(about["parts"], dtype=np.int64)
    return epsilon, shares, Grouping(parts, kinds, float(epsilon), known, bool(about["tree"]))


def _policies_fit(grouping: Grouping, policies: list[Policy]) -> bool:
    """Return whether policies are alike, and have the masks that follow from epsilon and the shares."""
    alike = len({(own.arms, own._mixed) for own in policies}) == 1
    return alike and all(_has_mask(*pair) for pair in zip(policies, grouping.masks, strict=True))


def _has_mask(policy: Policy, mask: RandomizedResponse) -> bool:
    """Return whether all arms of a policy have a mask, up to the rounding of saved shares."""
    state, honest = policy._state, 1.0 - policy.contamination
    low, span = honest * (1.0 - mask.p00), honest * mask.slope
    same = np.allclose(state.lows, low, 0.0, ROUNDING) and np.allclose(1.0 / state.rates, span, 0.0, ROUNDING)
    return bool(same and not state.flips.any() and not state.scalars[0].curved)


def _read_signs(state: Any) -> np.random.Generator | None:
    """Return the generator of signs; None if they come from the operating system."""
    if state is None:
        return None
    source = np.random.PCG64()
    source.state = state
    return np.random.Generator(source)


def _learned_fits(grouping: Grouping, weights: Any, named: Any, expected: Any) -> bool:
    """Return whether saved numbers can be what the levels learned."""
    types = [each.dtype for each in (weights, named, expected)] == [np.float64, np.int64, np.float64]
    if not types or [weights.shape, expected.shape] != [(len(grouping.kinds),), (2,)]:
        return False
    weighed = not np.any(np.isnan(weights)) and weights.max() == 0.0
    counted = named.min() >= 0 and np.all((expected >= 0.0) & (expected <= named.sum() + 1.0))
    return bool(weighed and counted)
