"""A contextual policy written to a file, or to bytes, and set to work again."""

import io
import json
from pathlib import Path
from typing import IO, Any

import numpy as np

from maskedbandits import arrays
from maskedbandits.context.contextual import Contextual
from maskedbandits.context.grouping import Grouping
from maskedbandits.context.views import LEARNT
from maskedbandits.errors import DAMAGED, UserError
from maskedbandits.files import write_whole
from maskedbandits.policies import saved
from maskedbandits.privacy import as_epsilon

FORMAT = 3


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
    with Path(path).open("rb") as stream:
        return _read(stream, str(path), exact=exact)


def _write(policy: Contextual, stream: IO[bytes]) -> None:
    each, learnt, signs = policy.copied_parts()
    about = {
        "format": FORMAT,
        "epsilon": str(policy.epsilon),
        "kinds": policy.grouping.kinds,
        "parts": policy.grouping.parts.tolist(),
        "tree": policy.grouping.tree,
        "shares": None if policy.known_shares is None else policy.known_shares.tolist(),
        "signs": None if signs is None else signs.bit_generator.state,
    }
    texts: dict[str, Any] = {
        f"policy_{place}": np.frombuffer(saved.dumps(own), dtype=np.uint8) for place, own in enumerate(each)
    }
    np.savez(stream, about=np.array(json.dumps(about)), **texts, **learnt)


def _read(stream: IO[bytes], path: str, *, exact: bool) -> Contextual:
    try:
        with np.load(stream, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            _refuse_others(about["format"], path)
            learnt = {key: np.array(file[key]) for key in LEARNT}
            many = learnt["named"].size
            shares = None if about["shares"] is None else arrays.parts_of_one("shares", about["shares"], many)
            known = np.full(many, 1.0 / many) if shares is None else shares
            epsilon, kinds = as_epsilon(str(about["epsilon"])), tuple(map(str, about["kinds"]))
            grouping = Grouping(
                np.array(about["parts"], dtype=np.int64), kinds, float(epsilon), known, bool(about["tree"])
            )
            texts = [io.BytesIO(file[f"policy_{place}"].tobytes()) for place in range(sum(grouping.sizes))]
            each = [saved._read(text, path, exact=exact) for text in texts]
            signs = _signs(about.get("signs")) if exact else None
    except UserError:
        raise
    except DAMAGED as error:
        raise UserError(f"{path} is not a saved contextual policy, or is damaged: save it again ({error})") from None
    alike = {(own.name, own.arms, own.kind.layout.name, own._mixed) for own in each}
    if len(alike) != 1 or not grouping.fits() or not _are_of_grains(grouping, **learnt):
        raise UserError(f"{path} is damaged: its groups do not fit together; load an older copy")
    made = Contextual(each, epsilon, grouping, shares, signs)
    made.know(learnt)
    return made


def _signs(state: Any) -> np.random.Generator | None:
    """Return what draws signs on; None if the operating system does."""
    if state is None:
        return None
    source = np.random.PCG64()
    source.state = state
    return np.random.Generator(source)


def _refuse_others(found: object, path: str) -> None:
    if found != FORMAT:
        raise UserError(f"{path} was saved in another format: load it with the version that saved it")


def _are_of_grains(grouping: Grouping, weights: Any, named: Any, expected: Any) -> bool:
    """Tell whether numbers that were saved can be what grains have learnt."""
    types = [each.dtype for each in (weights, named, expected)] == [np.float64, np.int64, np.float64]
    if not types or [weights.shape, expected.shape] != [(len(grouping.kinds),), (2,)]:
        return False
    weighed = not np.any(np.isnan(weights)) and weights.max() == 0.0
    counted = named.min() >= 0 and np.all((expected >= 0.0) & (expected <= named.sum() + 1.0))
    return bool(weighed and counted)
