"""Policies by name: each is a point on the axes memory x index, and one object that plays it live."""

import json
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from maskedbandits.core import policy as core
from maskedbandits.core.compiled import announce
from maskedbandits.corruption import IDENTITY, Corruption, Polyline
from maskedbandits.environments import per_arm

FORMAT = 1  # of saved policies
REQUIRED = ...


@dataclass(frozen=True)
class Recipe:
    """What a name stands for."""

    summary: str
    parameters: Mapping[str, float | EllipsisType]  # with their defaults; ... where one must be given
    sees_corruption: bool = True


REGISTRY: dict[str, Recipe] = {
    "sw-klucb-cf": Recipe(
        "sliding window x KL index, the paper's policy; needs a window", {"window": REQUIRED, "c": 3.0}
    ),
    "klucb-cf": Recipe("everything x KL index: for a world that stands still (Gajane et al. 2018)", {"c": 3.0}),
    "klucb": Recipe(
        "klucb-cf that takes feedback at face value (Cappe et al. 2013)", {"c": 3.0}, sees_corruption=False
    ),
}


def names() -> list[str]:
    """Return all policy names."""
    return sorted(REGISTRY)


def make_policy(
    name: str, *, arms: int, corruption: Corruption | Sequence[Corruption] | None = None, **parameters: Any
) -> "Policy":
    """Return a fresh policy that has seen nothing.

    >>> make_policy("klucb", arms=3).choose()
    0
    """
    recipe = _recipe(name)
    arms = _whole_number("arms", arms, 1)
    if recipe.sees_corruption and corruption is None:
        raise ValueError(f"{name} needs corruption: the RandomizedResponse that masks the feedback")
    known = _checked_parameters(name, recipe, parameters)
    window = _checked_window(known.get("window", math.inf), arms)
    c = _checked_c(known["c"])
    each = per_arm(IDENTITY if corruption is None else corruption, arms)
    lines = [one.polyline for one in (each if recipe.sees_corruption else (IDENTITY,) * arms)]
    ints, floats = _pack(lines, window, 0 if window == core.FOREVER else window, c, memo=1)
    return Policy(name, known, ints, floats)


def _recipe(name: str) -> Recipe:
    if name not in REGISTRY:
        raise ValueError(f"no policy is called {name!r}{_nearest(name, REGISTRY)}")
    return REGISTRY[name]


def _nearest(word: str, known: Mapping[str, Any]) -> str:
    """Return the end of an error line: the nearest known word, or all of them."""
    import difflib

    close = difflib.get_close_matches(str(word), known, n=1)
    return f": did you mean {close[0]!r}?" if close else f": known are {', '.join(sorted(known)) or 'none'}"


def _checked_parameters(name: str, recipe: Recipe, given: Mapping[str, Any]) -> dict[str, Any]:
    for key in given:
        if key not in recipe.parameters:
            raise ValueError(f"{name} has no parameter {key!r}{_nearest(key, recipe.parameters)}")
    known: dict[str, Any] = {**recipe.parameters, **given}
    for key, value in known.items():
        if value is REQUIRED:
            hint = "; theory.paper_window(horizon, changes) gives the paper's" if key == "window" else ""
            raise ValueError(f"{name} needs the parameter {key!r}{hint}")
    return known


def _whole_number(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{name} = {value!r}: give a whole number, {least} or more")
    return number


def _checked_window(window: Any, arms: int) -> int:
    if isinstance(window, float) and window == math.inf:
        return core.FOREVER
    number = _whole_number("window", window, 1)
    if number < arms:
        raise ValueError(
            f"window {number} is smaller than the number of arms {arms}: some arm would always be out of sight, "
            f"and be pulled for that alone; give {arms} or more"
        )
    if number > 1 << 32:
        raise ValueError(f"window {number} is more than can be kept in memory: for no limit give math.inf")
    return number


def _checked_c(c: Any) -> float:
    if isinstance(c, (int, float)) and 0.0 <= c < math.inf:
        return float(c)
    raise ValueError(f"c = {c!r}: give a number, 0 or more")


def _pack(
    lines: Sequence[Polyline], window: int, ring: int, c: float, memo: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the two arrays of a state that has seen nothing; arms with one polyline share its nodes."""
    places: dict[tuple[bytes, bytes], int] = {}
    distinct: list[Polyline] = []
    first: list[int] = []
    nodes = 0
    for line in lines:
        key = (line.means.tobytes(), line.feedbacks.tobytes())
        if key not in places:
            places[key] = nodes
            distinct.append(line)
            nodes += line.means.size
        first.append(places[key])
    sizes = core.layout(len(lines), ring, nodes, memo)
    ints, floats = np.zeros(sizes.ints, dtype=np.int64), np.zeros(sizes.floats)
    for place, value in (
        (core.ARMS, len(lines)),
        (core.WINDOW, window),
        (core.RING, ring),
        (core.LEAVES, sizes.leaves),
        (core.MEMO, memo),
        (core.NODES, nodes),
    ):
        ints[place] = value
    floats[core.C] = c
    state = core.views(ints, floats)
    state.flips[:] = [line.flipped for line in lines]
    state.first_node[:] = first
    state.last_node[:] = [begin + line.means.size - 1 for begin, line in zip(first, lines, strict=True)]
    state.node_means[:] = np.concatenate([line.means for line in distinct])
    state.node_feedbacks[:] = np.concatenate([line.feedbacks for line in distinct])
    state.lows[:] = [line.feedbacks[0] for line in lines]
    state.rates[:] = [1.0 / (line.feedbacks[-1] - line.feedbacks[0]) for line in lines]
    announce(core.start_packed)
    core.start_packed(ints, floats)
    return ints, floats


class Policy:
    """A policy at work: choose an arm, observe what came back, again and again.

    Made by ``make_policy``; nothing but masked feedback ever enters it.
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, Any],
        ints: NDArray[np.int64],
        floats: NDArray[np.float64],
    ) -> None:
        self.name = name
        self.parameters = dict(parameters)
        self.arms = int(ints[core.ARMS])
        self._ints = ints
        self._floats = floats

    def __repr__(self) -> str:
        settings = "".join(f", {key}={value!r}" for key, value in self.parameters.items())
        return f"<{self.name}, arms={self.arms}{settings}, {self.observations} observations>"

    @property
    def observations(self) -> int:
        """How many observations it has taken in."""
        return int(self._ints[core.TIME])

    def choose(self) -> int:
        """Return the arm to pull next; asking again without observing gives the same answer."""
        return core.choose_packed(self._ints, self._floats)

    def observe(self, arm: int, feedback: float) -> None:
        """Take in the masked feedback, a number in [0, 1], that came back for an arm."""
        place = operator.index(arm)
        if not 0 <= place < self.arms:
            raise ValueError(f"arm {arm} does not exist: arms are numbered 0 to {self.arms - 1}")
        value = float(feedback)
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"feedback {feedback} is out of range: give a number in [0, 1]")
        core.observe_packed(self._ints, self._floats, place, value)

    def indices(self) -> NDArray[np.float64]:
        """Return what is compared to choose, one number per arm: not clipped, infinite for an arm not remembered."""
        out = np.empty(self.arms)
        core.scores_packed(self._ints, self._floats, out)
        return out

    def estimates(self) -> NDArray[np.float64]:
        """Return the estimated mean reward of every arm, clipped to [0, 1]; NaN for an arm not remembered."""
        state = core.views(self._ints, self._floats)
        return np.array([_estimate(state, arm) for arm in range(self.arms)])

    def save(self, path: str | Path) -> None:
        """Write everything down: the copy that load_policy returns goes on exactly as this one would."""
        about = {"format": FORMAT, "name": self.name, "parameters": self.parameters}
        target = Path(path)
        draft = target.with_name(target.name + ".part")
        with draft.open("wb") as file:  # an open file, so that numpy adds no ending to the name
            np.savez_compressed(file, about=np.array(json.dumps(about)), ints=self._ints, floats=self._floats)
        draft.replace(target)

    def for_simulation(self, horizon: int, memo: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the arrays of a fresh policy of this kind, with no window longer than the horizon."""
        state = core.views(self._ints, self._floats)
        lines = [
            Polyline(state.node_means[a : b + 1], state.node_feedbacks[a : b + 1], bool(flip))
            for a, b, flip in zip(state.first_node, state.last_node, state.flips, strict=True)
        ]
        window = int(self._ints[core.WINDOW])
        if window >= horizon:
            window = core.FOREVER
        ring = 0 if window == core.FOREVER else window
        return _pack(lines, window, ring, float(self._floats[core.C]), memo)


def _estimate(state: core.State, arm: int) -> float:
    if state.counts[arm] <= 0.0:
        return math.nan
    first, last = state.first_node[arm], state.last_node[arm] + 1
    mean = state.sums[arm] / state.counts[arm]
    return float(np.interp(mean, state.node_feedbacks[first:last], state.node_means[first:last]))


def load_policy(path: str | Path) -> Policy:
    """Return the policy that was saved, to go on where it stood."""
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            ints, floats = file["ints"], file["floats"]
    except (BadZipFile, KeyError, ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a saved policy, or is damaged: save it again ({error})") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ValueError(f"{path} was saved in another format: load it with the version that saved it")
    fault = _fault(about, ints, floats)
    if fault:
        raise ValueError(f"{path} is damaged: {fault}; load an older copy")
    return Policy(about["name"], about["parameters"], ints, floats)


def _fault(about: dict[str, Any], ints: NDArray[np.int64], floats: NDArray[np.float64]) -> str:
    """Return what is wrong with the arrays, if anything: compiled code would trust them blindly."""
    if about.get("name") not in REGISTRY or not isinstance(about.get("parameters"), dict):
        return "no policy of that name is known"
    if ints.dtype != np.int64 or floats.dtype != np.float64 or ints.ndim != 1 or floats.ndim != 1:
        return "the arrays have the wrong type"
    if ints.size < core.INT_HEAD or floats.size < core.FLOAT_HEAD or np.any(ints[: core.INT_HEAD] < 0):
        return "the head is cut off"
    arms, ring, nodes, memo = (int(ints[place]) for place in (core.ARMS, core.RING, core.NODES, core.MEMO))
    sizes = core.layout(arms, ring, nodes, memo)
    if arms < 1 or (ints.size, floats.size, ints[core.LEAVES]) != (sizes.ints, sizes.floats, sizes.leaves):
        return "the lengths disagree"
    state = core.views(ints, floats)
    time, slot = int(ints[core.TIME]), int(ints[core.SLOT])
    held = min(time, ring)
    ranges = (
        (state.ring_arms, 0, arms - 1),
        (state.winners, 0, sizes.leaves - 1),
        (state.first_node, 0, nodes - 2),
        (state.last_node, 1, nodes - 1),
        (np.array(slot), 0, max(ring - 1, 0)),
        (np.array(memo), 1, memo & -memo),
    )
    if any(np.any((numbers < low) | (numbers > high)) for numbers, low, high in ranges):
        return "a number is out of range"
    if np.any(state.first_node >= state.last_node) or not np.all(np.isfinite(state.sums)):
        return "a number is out of range"
    if ring and not np.array_equal(np.bincount(state.ring_arms[:held], minlength=arms), state.counts):
        return "counts and observations disagree"
    return ""
