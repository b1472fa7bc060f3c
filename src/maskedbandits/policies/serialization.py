"""Save and load policies. Compiled code trusts its arrays blindly, so every array is checked.

`Serializer` is shared by all classes of policies; contextual policies and policies over features have a subclass each.
"""

import io
import json
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, ClassVar, Generic, TypeVar

import numpy as np

from maskedbandits._numba.state import layout_of
from maskedbandits._util.files import (
    MAX_DESCRIPTION_BYTES,
    MAX_HEADER_BYTES,
    WrongLoaderError,
    open_file,
    refuse_more,
    refuse_others,
    unpacked_sizes,
    write_whole,
)
from maskedbandits.corruption import Polyline
from maskedbandits.errors import DAMAGED, UserError
from maskedbandits.math import rng
from maskedbandits.policies import KINDS, pending
from maskedbandits.policies.initial_state import build_state
from maskedbandits.policies.policy import Policy
from maskedbandits.policies.registry import Kind

FORMAT = 13
ARRAYS = ("own", "ints", "floats")

AnyPolicy = TypeVar("AnyPolicy")

# numpy parses headers as Python literals, and Python 3.11 sometimes fails when two threads do that at once
_parsing = threading.Lock()


class OtherFormatError(Exception):
    """A file of another version."""


class Serializer(ABC, Generic[AnyPolicy]):
    """Save and load policies of one class, as a numpy archive with a JSON description named ``about``."""

    noun: ClassVar[str]  # for error messages, such as "policy"
    loader: ClassVar[str]  # the public function that loads such a file

    @abstractmethod
    def write(self, policy: AnyPolicy, stream: IO[bytes]) -> None:
        """Write the archive of a policy."""

    @abstractmethod
    def read(self, about: dict[str, Any], file: Any, sizes: Mapping[str, int], *, exact: bool) -> Any:
        """Return the contents of an archive; any error means that the file is damaged.

        ``sizes`` are the unpacked sizes of the arrays: check them before reading an array.
        """

    @abstractmethod
    def build(self, contents: Any, path: str, *, exact: bool) -> AnyPolicy:
        """Return the policy with these contents; raise UserError if they contradict each other."""

    def save(self, policy: AnyPolicy, path: str | Path) -> None:
        """Write a policy to a file, which appears whole or not at all."""
        write_whole(Path(path), lambda stream: self.write(policy, stream))

    def dumps(self, policy: AnyPolicy) -> bytes:
        """Return a policy as bytes."""
        stream = io.BytesIO()
        self.write(policy, stream)
        return stream.getvalue()

    def loads(self, data: bytes) -> AnyPolicy:
        """Return the policy from `dumps`, with new random numbers."""
        return self._load(io.BytesIO(data), "these bytes", exact=False)

    def load(self, path: str | Path, *, exact: bool) -> AnyPolicy:
        """Return the policy in a file, with new random numbers unless it is to be exact."""
        with open_file(path) as stream:
            return self._load(stream, str(path), exact=exact)

    def _load(self, stream: IO[bytes], path: str, *, exact: bool) -> AnyPolicy:
        try:
            sizes = unpacked_sizes(stream)
            with _parsing, np.errstate(all="ignore"), np.load(stream, allow_pickle=False) as file:
                refuse_more(sizes, ("about",), MAX_DESCRIPTION_BYTES)
                about = json.loads(str(file["about"]))
                refuse_others(about, self.loader, path)
                contents = self.read(about, file, sizes, exact=exact)
        except WrongLoaderError:
            raise
        except OtherFormatError:
            raise UserError(f"{path} was saved in another format: load it with the version that saved it") from None
        except DAMAGED as error:
            raise UserError(f"{path} is not a saved {self.noun}, or is damaged: save it again ({error})") from None
        return self.build(contents, path, exact=exact)


class _PolicySerializer(Serializer[Policy]):
    """Save and load a `Policy`."""

    noun = "policy"
    loader = "load_policy"

    def write(self, policy: Policy, stream: IO[bytes]) -> None:
        """Write the description and the state."""
        write_arrays(stream, description(policy), policy.snapshot())

    def read(self, about: dict[str, Any], file: Any, sizes: Mapping[str, int], *, exact: bool) -> Any:
        """Return the kind, the parameters and the state."""
        refuse_more(sizes, ("about", "own"), MAX_DESCRIPTION_BYTES)
        kind = read_kind(about)
        return kind, about.get("parameters"), read_state(kind, file, sizes, 1)

    def build(self, contents: Any, path: str, *, exact: bool) -> Policy:
        """Return the policy, if its state is consistent."""
        kind, given, state = contents
        return revive(kind, given, state, path, exact=exact)


_serializer = _PolicySerializer()
save, dumps = _serializer.save, _serializer.dumps


def loads(data: bytes) -> Policy:
    """Return the policy from `dumps`, with new random numbers."""
    return _serializer.loads(data)


def load_policy(path: str | Path, *, exact: bool = False) -> Policy:
    """Load a saved policy, to continue where it stopped.

    The policy knows everything that the saved one knew.

    Parameters
    ----------
    path : str or Path
        A file written by `Policy.save`.
    exact : bool, optional
        Whether to continue with the random numbers of the saved policy, bit for bit. By default the policy draws new
        ones, because several processes that load one file should not all draw the same.

    Returns
    -------
    Policy
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
    >>> from maskedbandits import load_policy, make_policy
    >>> policy = make_policy("klucb", arms=2)
    >>> policy.observe(1, 1)
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     policy.save(file.name)
    ...     load_policy(file.name).observations
    1

    """
    return _serializer.load(path, exact=exact)


def description(policy: Policy) -> dict[str, Any]:
    """Return the description of a policy, without its state."""
    return {"format": FORMAT, "name": policy.name, "parameters": policy._given}


def write_arrays(stream: IO[bytes], about: dict[str, Any], state: Any, **others: Any) -> None:
    """Write a description, a state, and other arrays."""
    arrays: dict[str, Any] = {key: np.asarray(array) for key, array in zip(ARRAYS, state, strict=True)}
    arrays["own"] = layout_of(state).pack(state.scalars)
    np.savez_compressed(stream, about=np.array(json.dumps(about, default=to_plain)), **arrays, **others)


def to_plain(value: Any) -> Any:
    """Return a parameter as a value that JSON knows."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return list(value)


def read_state(kind: Kind, file: Any, sizes: Mapping[str, int], many: int) -> Any:
    """Return the state in an archive, of ``many`` policies side by side (``_numba/state.py``)."""
    scalars = kind.layout.unpack(file["own"])
    if scalars.shape != (many,):
        raise ValueError("its number of policies is wrong")
    _, lengths = kind.layout.check_extents(scalars[:1])
    refuse_more(sizes, ("ints", "floats"), many * 8 * sum(lengths.values()) + MAX_HEADER_BYTES)
    state = kind.layout.State(scalars, file["ints"], file["floats"])
    if [state.ints.shape, state.floats.shape] != [(many * lengths["ints"],), (many * lengths["floats"],)]:
        raise ValueError("the lengths disagree")
    return state


def revive(kind: Kind, given: Any, state: Any, path: str, *, exact: bool) -> Policy:
    """Return a policy with a state from a file; refuse a state that contradicts itself."""
    fault = _fault(kind, given, state)
    if fault:
        raise UserError(f"{path} is damaged: {fault}; load an older copy")
    if "ahead_weight" in kind.layout.variables:
        state.scalars[0].ahead_weight = 0.0  # intermediate results of choices are computed again
    words = state.rng.copy() if exact else rng.seed_words()
    return Policy(kind, given, state, words, fresh=False)


def read_kind(about: Any) -> Kind:
    """Return the kind of policy that a description names."""
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise OtherFormatError
    if not isinstance(about.get("name"), str) or about["name"] not in KINDS:
        raise ValueError("its policy is unknown")
    given = about.get("parameters")
    return KINDS[about["name"]].variant(given if isinstance(given, dict) else {})


def _fault(kind: Kind, given: Any, state: Any) -> str:
    """Return what is wrong with the arrays, or an empty text."""
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
        for key, value in kind.sizes(parameters).items():  # before arrays of that size are allocated
            if state.scalars[0][key] != value:
                return "its size contradicts its parameters"
        with np.errstate(all="ignore"):  # a line without a slope is refused below
            fresh = build_state(kind, parameters, _lines(state, parameters.get("contamination", 0.0)))
    except (ValueError, IndexError, OverflowError, ZeroDivisionError) as error:
        return f"its parameters are invalid ({error})"
    return _difference(layout, state, fresh) or _contradiction(kind, parameters, state)


def _lines(state: Any, contamination: float) -> list[Polyline]:
    """Return the polylines of the arms; arms that share their nodes share a polyline."""
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
    """Return where a state wrongly differs from the initial one, or an empty text."""
    scalars, new = state.scalars[0], fresh.scalars[0]
    for key in (*layout.sizes, *layout.stored, *layout.computed):
        tolerance = 1e-12 if key in layout.computed else 0.0  # the last bits depend on the machine
        if not math.isclose(scalars[key], new[key], rel_tol=tolerance) and key not in ("mixed", "memo"):
            return f"its {key} contradicts its parameters"
    if "mixed" in layout.sizes and scalars["mixed"] > 1:
        return "its size contradicts its parameters"
    for key, section in layout.arrays.items():
        if section.fixed and not np.allclose(getattr(state, key), getattr(fresh, key), rtol=1e-12, atol=0.0):
            return f"its {key} contradict its parameters"
    return ""


def _contradiction(kind: Kind, parameters: dict[str, Any], state: Any) -> str:
    """Return how a state contradicts itself, or an empty text."""
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
        fault = module.contradiction(state, parameters) if hasattr(module, "contradiction") else ""
        if fault:
            return str(fault)
    return ""
