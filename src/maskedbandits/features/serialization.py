"""A policy over features, written to a file and set to work again; compiled code trusts arrays, so they are checked."""

import io
import json
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util.files import (
    HEADERS,
    MOST,
    WrongLoaderError,
    opened,
    refuse_more,
    refuse_others,
    unpacked_sizes,
    write_whole,
)
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import DAMAGED, UserError
from maskedbandits.features.policy import MODULES, Featured, make_featured
from maskedbandits.math import rng

FORMAT = 1


def _kept(state: Any) -> dict[str, NDArray[Any]]:
    """Return what is written of a state: its arrays, but for what every step writes anew."""
    return {key: array for key, array in state._asdict().items() if isinstance(array, np.ndarray) and key != "scratch"}


def save(policy: Featured, path: str | Path) -> None:
    """Write a policy down."""
    write_whole(Path(path), lambda stream: _write(policy, stream))


def dumps(policy: Featured) -> bytes:
    """Return a policy over features as bytes."""
    stream = io.BytesIO()
    _write(policy, stream)
    return stream.getvalue()


def loads(text: bytes) -> Featured:
    """Return the policy that ``dumps`` wrote down, with lots of its own."""
    return _read(io.BytesIO(text), "these bytes", exact=False)


def _write(policy: Featured, stream: IO[bytes]) -> None:
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
        arrays: dict[str, Any] = {key: array.copy() for key, array in _kept(policy._state).items()}
    np.savez(stream, about=np.array(json.dumps(about)), **arrays)


def load_featured(path: str | Path, *, exact: bool = False) -> Featured:
    """Return the policy over features that was saved, to go on where it stood.

    It draws new lots; ``exact`` makes it go on with the lots of the saved one, to the last bit.
    """
    with opened(path) as stream:
        return _read(stream, str(path), exact=exact)


def _read(stream: IO[bytes], path: str, *, exact: bool) -> Featured:
    try:
        sizes = unpacked_sizes(stream)
        refuse_more(sizes, ("about",), MOST)
        with np.load(stream, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            refuse_others(about, "load_featured", path)
            policy = _remade(about)
            for key, array in _kept(policy._state).items():
                refuse_more(sizes, (key,), array.nbytes + HEADERS)
                _fill(key, array, file[key])
    except WrongLoaderError:
        raise
    except _OtherFormatError:
        raise UserError(f"{path} was saved in another format: load it with the version that saved it") from None
    except DAMAGED as error:
        raise UserError(f"{path} is not a saved policy over features, or is damaged: save it again ({error})") from None
    if not exact:
        policy._state.rng[:] = rng.seeded()
    return policy


class _OtherFormatError(Exception):
    pass


def _remade(about: dict[str, Any]) -> Featured:
    """Return a policy of the saved kind that has seen nothing."""
    if about["format"] != FORMAT:
        raise _OtherFormatError
    mask = RandomizedResponse(about["p00"], about["p11"])
    if about["name"] not in MODULES:
        raise ValueError("no policy over features of that name is known")
    return make_featured(
        about["name"], arms=about["arms"], features=about["features"], corruption=mask, **about["parameters"]
    )


def _fill(key: str, array: NDArray[Any], found: NDArray[Any]) -> None:
    """Put what was saved in its place, if it can be so."""
    if found.shape != array.shape or found.dtype != array.dtype:
        raise ValueError(f"its {key} are not of the shape that it says")
    if array.dtype != np.uint64 and not np.all(np.isfinite(found)):
        raise ValueError(f"its {key} are no numbers")
    if key in ("pulls", "lengths", "clock") and np.any(found < 0):
        raise ValueError(f"its {key} are below 0")
    if key == "left" and not found[0] > 0.0:
        raise ValueError("nothing is left of its ridge")
    if found.ndim == 3 and np.any(np.diagonal(found, axis1=1, axis2=2) <= 0.0):
        raise ValueError(f"its {key} measure no lengths")
    array[:] = found
