"""Save and load policies over features. Compiled code trusts its arrays blindly, so every array is checked."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util.files import MAX_HEADER_BYTES, refuse_more
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.features.policy import MODULES, Featured, make_featured
from maskedbandits.math import rng
from maskedbandits.policies import serialization

FORMAT = 1


class _FeaturedSerializer(serialization.Serializer[Featured]):
    """Save and load a `Featured` policy."""

    noun = "policy over features"
    loader = "load_featured"

    def write(self, policy: Featured, stream: IO[bytes]) -> None:
        """Write the description and the arrays of the state."""
        about = {
            "format": FORMAT,
            "name": policy.name,
            "arms": policy.arms,
            "features": policy.features,
            "p00": policy.corruption.p00,
            "p11": policy.corruption.p11,
            "parameters": dict(policy.parameters),
        }
        with policy._lock:
            arrays: dict[str, Any] = {key: array.copy() for key, array in _saved_arrays(policy._state).items()}
        np.savez(stream, about=np.array(json.dumps(about)), **arrays)

    def read(self, about: dict[str, Any], file: Any, sizes: Mapping[str, int], *, exact: bool) -> Featured:
        """Return the policy of an archive."""
        policy = _build_initial(about)
        for key, array in _saved_arrays(policy._state).items():
            refuse_more(sizes, (key,), array.nbytes + MAX_HEADER_BYTES)
            _fill(key, array, file[key])
        return policy

    def build(self, contents: Featured, path: str, *, exact: bool) -> Featured:
        """Return the policy, with new random numbers unless it is to be exact."""
        if not exact:
            contents._state.rng[:] = rng.seed_words()
        return contents


def _saved_arrays(state: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of a state that are saved: all but those that every step overwrites."""
    return {key: array for key, array in state._asdict().items() if isinstance(array, np.ndarray) and key != "scratch"}


_serializer = _FeaturedSerializer()
save, dumps = _serializer.save, _serializer.dumps


def loads(data: bytes) -> Featured:
    """Return the policy from `dumps`, with new random numbers."""
    return _serializer.loads(data)


def load_featured(path: str | Path, *, exact: bool = False) -> Featured:
    """Load a saved policy over features, to continue where it stopped.

    Parameters
    ----------
    path : str or Path
        A file written by `Featured.save`.
    exact : bool, optional
        Whether to continue with the random numbers of the saved policy, bit for bit. By default it draws new ones.

    Returns
    -------
    Featured
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
    >>> from maskedbandits import RandomizedResponse, load_featured, make_featured
    >>> policy = make_featured("logistic-ts-cf", arms=3, features=2, corruption=RandomizedResponse.from_epsilon(1))
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     policy.save(file.name)
    ...     load_featured(file.name).arms
    3

    """
    return _serializer.load(path, exact=exact)


def _build_initial(about: dict[str, Any]) -> Featured:
    """Return a policy of the saved kind in its initial state."""
    if about["format"] != FORMAT:
        raise serialization.OtherFormatError
    mask = RandomizedResponse(about["p00"], about["p11"])
    if about["name"] not in MODULES:
        raise ValueError("its policy is unknown")
    return make_featured(
        about["name"], arms=about["arms"], features=about["features"], corruption=mask, **about["parameters"]
    )


def _fill(key: str, array: NDArray[Any], found: NDArray[Any]) -> None:
    """Copy a saved array into the state, if it is valid."""
    if found.shape != array.shape or found.dtype != array.dtype:
        raise ValueError(f"its {key} have another shape than declared")
    if array.dtype != np.uint64 and not np.all(np.isfinite(found)):
        raise ValueError(f"its {key} are not numbers")
    if key in ("pulls", "lengths", "clock") and np.any(found < 0):
        raise ValueError(f"its {key} are below 0")
    if key == "left" and not found[0] > 0.0:
        raise ValueError("its ridge is 0")
    if found.ndim == 3 and np.any(np.diagonal(found, axis1=1, axis2=2) <= 0.0):
        raise ValueError(f"its {key} have a diagonal that is not positive")
    array[:] = found
