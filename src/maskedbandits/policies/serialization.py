"""A policy written to a file, and set to work again: compiled code trusts its arrays blindly, so all is checked."""

import io
import json
import math
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from maskedbandits._numba.state import layout_of
from maskedbandits._util.files import (
    HEADERS,
    MOST,
    WrongLoaderError,
    refuse_more,
    refuse_others,
    unpacked_sizes,
    write_whole,
)
from maskedbandits.corruption import Polyline
from maskedbandits.errors import DAMAGED, UserError
from maskedbandits.math import rng
from maskedbandits.policies import KINDS, pending
from maskedbandits.policies.policy import Policy, made
from maskedbandits.policies.registry import Kind

FORMAT = 11
ARRAYS = ("own", "ints", "floats")

# numpy reads headers as Python's own, and Python 3.11 fails now and then when two threads do that at once
one_at_a_time = threading.Lock()


def save(policy: Policy, path: str | Path) -> None:
    """Write a policy down."""
    write_whole(Path(path), lambda stream: _write(policy, stream))


def dumps(policy: Policy) -> bytes:
    """Return a policy as bytes."""
    stream = io.BytesIO()
    _write(policy, stream)
    return stream.getvalue()


def loads(text: bytes) -> Policy:
    """Return the policy that ``dumps`` wrote down, with lots of its own."""
    return _read(io.BytesIO(text), "these bytes", exact=False)


def _write(policy: Policy, stream: IO[bytes]) -> None:
    write_arrays(stream, description(policy), policy._snapshot())


def description(policy: Policy) -> dict[str, Any]:
    """Return what a policy is, beside its state."""
    return {"format": FORMAT, "name": policy.name, "parameters": policy._given}


def write_arrays(stream: IO[bytes], about: dict[str, Any], state: Any, **others: Any) -> None:
    """Write a description and a state down, and other arrays."""
    arrays: dict[str, Any] = {key: np.asarray(array) for key, array in zip(ARRAYS, state, strict=True)}
    arrays["own"] = layout_of(state).pack(state.scalars)
    np.savez_compressed(stream, about=np.array(json.dumps(about, default=_plain)), **arrays, **others)


def _plain(value: Any) -> Any:
    """Return a parameter that JSON does not know as one that it does."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return list(value)


def load_policy(path: str | Path, *, exact: bool = False) -> Policy:
    """Return the policy that was saved, to go on where it stood.

    It knows all that the saved one knew. One that draws lots draws new ones, because several processes that load one
    file should not all draw the same; ``exact`` makes it go on with the lots of the saved one, to the last bit.
    """
    with Path(path).open("rb") as stream:
        return _read(stream, str(path), exact=exact)


def _read(stream: IO[bytes], path: str, *, exact: bool) -> Policy:
    try:
        sizes = unpacked_sizes(stream)
        with one_at_a_time, np.errstate(all="ignore"), np.load(stream, allow_pickle=False) as file:
            refuse_more(sizes, ("about",), MOST)
            about = json.loads(str(file["about"]))
            refuse_others(about, "load_policy", path)
            refuse_more(sizes, ("about", "own"), MOST)
            kind = kind_told(about)
            state = state_of(kind, file, sizes, 1)
    except WrongLoaderError:
        raise
    except OtherFormatError:
        raise UserError(f"{path} was saved in another format: load it with the version that saved it") from None
    except DAMAGED as error:
        raise UserError(f"{path} is not a saved policy, or is damaged: save it again ({error})") from None
    return revived(kind, about.get("parameters"), state, path, exact=exact)


def state_of(kind: Kind, file: Any, sizes: Mapping[str, int], many: int) -> Any:
    """Return the state that an archive holds, of so many policies side by side (``_numba/state.py``)."""
    scalars = kind.layout.unpack(file["own"])
    if scalars.shape != (many,):
        raise ValueError("it does not hold as many policies as it says")
    _, lengths = kind.layout.check_extents(scalars[:1])
    refuse_more(sizes, ("ints", "floats"), many * 8 * sum(lengths.values()) + HEADERS)
    state = kind.layout.State(scalars, file["ints"], file["floats"])
    if [state.ints.shape, state.floats.shape] != [(many * lengths["ints"],), (many * lengths["floats"],)]:
        raise ValueError("the lengths disagree")
    return state


def revived(kind: Kind, given: Any, state: Any, path: str, *, exact: bool) -> Policy:
    """Return a policy that has this state, which comes from elsewhere; refuse one that contradicts itself."""
    fault = _fault(kind, given, state)
    if fault:
        raise UserError(f"{path} is damaged: {fault}; load an older copy")
    if "ahead_weight" in kind.layout.variables:
        state.scalars[0].ahead_weight = 0.0  # what was found on the way to a choice is found again, not believed
    words = state.rng.copy() if exact else rng.seeded()
    return Policy(kind, given, state, words, fresh=False)


class OtherFormatError(Exception):
    """A file of another version."""


def kind_told(about: Any) -> Kind:
    """Return the kind of policy that a file says it holds."""
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise OtherFormatError
    if not isinstance(about.get("name"), str) or about["name"] not in KINDS:
        raise ValueError("no policy of that name is known")
    given = about.get("parameters")
    return KINDS[about["name"]].variant(given if isinstance(given, dict) else {})


def _fault(kind: Kind, given: Any, state: Any) -> str:
    """Return what is wrong with the arrays, if anything."""
    layout = kind.layout
    if not isinstance(given, dict):
        return "its parameters are missing"
    if not layout.fits(state):
        return "the lengths disagree"
    arms = int(state.scalars[0].arms)
    if arms < 1:
        return "it has no arms"
    try:
        parameters = kind.complete(given, arms)
        for key, value in kind.sizes(parameters).items():  # before arrays are made as large as asked for
            if state.scalars[0][key] != value:
                return "it is not of the size that its parameters say"
        with np.errstate(all="ignore"):  # a line without a slope is refused below
            fresh = made(kind, parameters, _lines(state, parameters.get("contamination", 0.0)))
    except (ValueError, IndexError, OverflowError, ZeroDivisionError) as error:
        return f"its parameters are not those of a policy ({error})"
    return _difference(layout, state, fresh) or _contradiction(kind, parameters, state)


def _lines(state: Any, contamination: float) -> list[Polyline]:
    """Return the polylines of the arms; those that share their nodes are one."""
    known: dict[tuple[int, int, bool], Polyline] = {}
    keys = []
    for a, b, flip in zip(state.first_node, state.last_node, state.flips, strict=True):
        key = int(a), int(b), bool(flip)
        if not 0 <= key[0] < key[1] < state.node_means.size:
            raise ValueError("its corruption is cut off")
        line = Polyline(
            state.node_means[a : b + 1], state.node_feedbacks[a : b + 1] / (1.0 - contamination), bool(flip)
        )
        known.setdefault(key, line)
        keys.append(key)
    return [known[key] for key in keys]


def _difference(layout: Any, state: Any, fresh: Any) -> str:
    """Return where a state differs from a fresh one of the same kind though it should not."""
    scalars, new = state.scalars[0], fresh.scalars[0]
    for key in (*layout.sizes, *layout.stored, *layout.computed):
        if scalars[key] != new[key] and key not in ("mixed", "memo"):
            return f"its {key} is not what its parameters say"
    if "mixed" in layout.sizes and scalars["mixed"] > 1:
        return "it is not of the size that its parameters say"
    for key, section in layout.arrays.items():
        if section.fixed and not np.allclose(getattr(state, key), getattr(fresh, key), rtol=1e-12, atol=0.0):
            return f"its {key} are not what its parameters say"
    return ""


def _contradiction(kind: Kind, parameters: dict[str, Any], state: Any) -> str:
    """Return where a state contradicts itself."""
    scalars = state.scalars[0]
    for key, what in kind.layout.variables.items():
        most = what.most(scalars) if callable(what.most) else what.most
        if not what.least <= scalars[key] <= most:  # nor is NaN
            return "a number is out of range"
    for key, section in kind.layout.arrays.items():
        numbers = getattr(state, key)
        most = section.most(scalars) if callable(section.most) else section.most
        if section.least > -math.inf and not np.all(numbers >= section.least):
            return "a number is out of range"
        if numbers.dtype == np.float64 and (np.any(np.isnan(numbers)) or not np.all(numbers <= most)):
            return "a number is out of range"
        if numbers.dtype == np.int64 and most < math.inf and not np.all(numbers <= most):
            return "a number is out of range"
    if fault := pending.contradiction(state):
        return fault
    if state.closed.sum() != scalars.retired or (scalars.retired and not kind.takes_arms):
        return "not as many arms are closed as are retired"
    for module in kind.modules:
        told = module.contradiction(state, parameters) if hasattr(module, "contradiction") else ""
        if told:
            return str(told)
    return ""
