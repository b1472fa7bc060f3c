"""A policy at work: what a user holds."""

import copy
import operator
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from maskedbandits.corruption import Corruption, Polyline
from maskedbandits.errors import UserError
from maskedbandits.maths import lots
from maskedbandits.policies import estimates
from maskedbandits.policies.axes import reports
from maskedbandits.policies.entries import Entries, entries, for_masks, for_scores, go_on, hold_still
from maskedbandits.policies.kinds import Kind
from maskedbandits.policies.state import FOREVER
from maskedbandits.record import Floats, Words, copied, relaid


def made(kind: Kind, parameters: Mapping[str, Any], lines: Sequence[Polyline]) -> Any:
    """Return the state of a state that has seen nothing; arms with one polyline share its nodes."""
    distinct = {id(line): line for line in lines}
    ends = np.cumsum([line.means.size for line in distinct.values()])
    places = dict(zip(distinct, [0, *ends[:-1]], strict=True))
    first = [places[id(line)] for line in lines]
    common = {"arms": len(lines), "nodes": int(ends[-1]), "leaves": 1 << (len(lines) - 1).bit_length()}
    state = kind.layout.made({**common, **kind.sizes(parameters)}, parameters)
    honest = 1.0 - parameters.get("contamination", 0.0)  # see Policy.contamination
    state.flips[:] = [line.flipped for line in lines]
    state.first_node[:] = first
    state.last_node[:] = [begin + line.means.size - 1 for begin, line in zip(first, lines, strict=True)]
    state.node_means[:] = np.concatenate([line.means for line in distinct.values()])
    state.node_feedbacks[:] = np.concatenate([honest * line.feedbacks for line in distinct.values()])
    state.lows[:] = [honest * line.feedbacks[0] for line in lines]
    state.rates[:] = [1.0 / (honest * line.feedbacks[-1] - honest * line.feedbacks[0]) for line in lines]
    state.own[0].curved = any(line.means.size != 2 for line in distinct.values())
    kind.configure(state, parameters)
    return state


class Policy:
    """A policy at work: choose an arm, observe what came back, again and again.

    Made by ``make_policy``. Nothing but masked feedback ever enters it, but for two that are there for comparison: see
    ``observe``. Threads may share one. After a fork, parent and child draw different lots.
    """

    __slots__ = ("__weakref__", "_arms", "_entries", "_given", "_kind", "_lock", "_mixed", "_parameters", "_state")

    def __init__(self, kind: Kind, given: Mapping[str, Any], state: Any, words: Words, *, fresh: bool = True) -> None:
        self._kind = kind
        self._given = copy.deepcopy(dict(given))  # lists may change in the hands of whoever gave them
        self._parameters = kind.complete(given, int(state.own[0].arms))
        self._state = state
        self._arms = int(state.own[0].arms)
        self._mixed = kind.on_axes and bool(state.own[0].mixed)
        self._lock = threading.Lock()
        self._entries = entries(kind.layout, kind.name)
        state.lots[:] = words
        if fresh:
            self._entries.start(state)
        with _forking:
            _alive.add(self)

    @property
    def name(self) -> str:
        """What kind of policy it is."""
        return self._kind.name

    @property
    def kind(self) -> Kind:
        """What its name stands for."""
        return self._kind

    @property
    def entries(self) -> Entries:
        """Its compiled code, which all policies of its kind share."""
        return self._entries

    @property
    def arms(self) -> int:
        """Number of arms."""
        return self._arms

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Its parameters, those with defaults too."""
        return MappingProxyType({key: self._parameters[key] for key in self._kind.parameters})

    @property
    def contamination(self) -> float:
        """The share of reports that may be lies.

        Lies are zeros at the worst, so a feedback mean is at least (1 - share) g(mean): with this line in place of g an
        upper confidence bound stays one, whatever the liars say. Flipped feedback has flipped lies, so the same holds.
        """
        return float(self._parameters.get("contamination", 0.0))

    @property
    def observations(self) -> int:
        """How many observations it has taken in."""
        return int(self._state.own[0].time)

    @property
    def alarms(self) -> int:
        """How many changes it has seen."""
        return int(self._state.own[0].alarms)

    def __repr__(self) -> str:
        settings = "".join(f", {key}={value!r}" for key, value in self.parameters.items())
        return f"<{self.name}, arms={self.arms}{settings}, {self.observations} observations>"

    def choose(self) -> int:
        """Return the arm to pull next.

        Asked again without observing, a policy gives the same answer, unless it draws lots: then it draws again.
        """
        with self._lock:
            return self._entries.choose(self._state)

    def observe(self, arm: int, feedback: float, corruption: Corruption | None = None) -> None:
        """Take in the masked feedback, a number in [0, 1], that came back for an arm.

        A report may come with a corruption of its own, such as another epsilon; it has to be a RandomizedResponse. Two
        policies, ``ldp-ucb-l`` and ``dp-ucb``, are given the reward itself instead, and add noise of their own.
        """
        if type(arm) is not int or type(feedback) not in (int, float):  # the usual kinds need no second look
            arm, feedback = _plain_numbers(arm, feedback)
        if not 0 <= arm < self._arms:
            raise UserError(f"arm {arm} does not exist: arms are numbered 0 to {self._arms - 1}")
        value = float(feedback)
        if not 0.0 <= value <= 1.0:
            raise UserError(f"feedback {feedback} is out of range: give a number in [0, 1]")
        if corruption is None:
            with self._lock:
                if not self._mixed:  # which another thread may just have changed
                    self._entries.observe(self._state, arm, value)
                    return
        self._observe_masked(arm, value, corruption)

    def _observe_masked(self, arm: int, feedback: float, corruption: Corruption | None) -> None:
        """Take in a feedback that has a corruption of its own."""
        if not self._kind.on_axes:
            raise UserError(f"{self.name} takes no corruption of a report's own: give the feedback alone")
        if corruption is not None:
            reports.check(corruption)
        with self._lock:
            if not self._kind.sees_corruption or (not self._mixed and self._is_arms_own(arm, corruption)):
                self._entries.observe(self._state, arm, feedback)
                return
            if not self._mixed:
                self._state = reports.mixed(self._state)
                self._mixed = True
            seen = reports.as_seen(self._state, arm, feedback, corruption, self.contamination)
            for_masks(self._kind.layout, self.name).observe_masked(self._state, arm, *seen)

    def _is_arms_own(self, arm: int, corruption: Corruption | None) -> bool:
        return corruption is None or reports.is_the_arms(self._state, arm, corruption, self.contamination)

    def indices(self) -> Floats:
        """Return what is compared to choose, one number per arm: not clipped, infinite for an arm not remembered."""
        out = np.empty(self.arms)
        with self._lock:
            for_scores(self._kind.layout, self.name).scores(self._state, out)
        return out

    def estimates(self) -> Floats:
        """Return the estimated mean reward of every arm, clipped to [0, 1]; NaN for an arm not remembered.

        Where reports may be lies, the middle of what the mean may be.
        """
        return estimates.estimates(self._snapshot(), self.contamination)

    def intervals(self, delta: float = 0.05) -> Floats:
        """Return for every arm a lower and an upper confidence bound of its mean reward, (K, 2), clipped to [0, 1].

        The bounds of an arm hold at all times together but for a probability of delta, if the arm's mean stays and
        everything is remembered; with a window, a discount or restarts, at every single time. They hold whatever the
        share of ``contamination`` says.
        """
        return estimates.intervals(self._masked_only(), self.contamination, delta)

    def suspects(self, delta: float = 0.001) -> NDArray[np.bool_]:
        """Tell of which arms the feedback lies outside what honest reports can give, such as [1-p, p].

        Without liars, none is told of with a probability of at least 1 - delta: at all times together if everything
        is remembered, at every single time with a window, a discount or restarts. With ``contamination``, what so many
        liars can do makes no arm suspect.
        """
        return estimates.suspects(self._masked_only(), self.contamination, delta)

    def _masked_only(self) -> Any:
        """Return the state, if what is remembered is masked feedback."""
        if self._kind.sees_rewards:
            raise UserError(f"{self.name} keeps noisy rewards, no masked feedback: ask a policy that is shown reports")
        return self._snapshot()

    def _snapshot(self) -> Any:
        """Return a copy of the state that nobody changes."""
        with self._lock:
            return copied(self._state)

    def __copy__(self) -> "Policy":
        state = self._snapshot()
        return Policy(self._kind, self._given, state, state.lots.copy(), fresh=False)

    def __deepcopy__(self, memo: Any) -> "Policy":
        return self.__copy__()

    def __reduce__(self) -> Any:
        from maskedbandits.policies import saved

        return saved.loads, (saved.dumps(self),)

    def save(self, path: str | Path) -> None:
        """Write everything down, for ``load_policy``."""
        from maskedbandits.policies import saved

        saved.save(self, path)

    def for_simulation(self, horizon: int, memo: int) -> Any:
        """Return the state of a fresh policy of this kind, with no window longer than the horizon."""
        layout = self._kind.layout
        sizes = {key: value for key, value in (("memo", memo), ("mixed", 0)) if key in layout.sizes}
        own = self._state.own[0]
        endless = "span" in layout.derived and own.span >= horizon
        if endless:
            sizes["ring"] = 0
        fixed = [key for key, section in layout.sections.items() if section.fixed]
        state = relaid(self._state, sizes, fixed)
        if endless:
            state.own[0].span = FOREVER
        return state


def _plain_numbers(arm: Any, feedback: Any) -> tuple[int, float]:
    """Return an arm and a feedback of whatever kind of number as plain ones; text and truth values are no arms."""
    if isinstance(arm, (bool, np.bool_)) or not isinstance(arm, SupportsIndex):
        raise UserError(f"arm {arm!r} is not a whole number: arms are numbered from 0")
    if not isinstance(feedback, (Real, np.bool_)):
        raise UserError(f"feedback {feedback!r} is not a number: give one in [0, 1]")
    return operator.index(arm), float(feedback)


_alive: "weakref.WeakSet[Policy]" = weakref.WeakSet()
_held: list[Policy] = []  # during a fork
_forking = threading.RLock()  # forks do not meet, and nobody joins those alive meanwhile


def _hold_still() -> None:
    """Let no policy be in the middle of a step when the process forks."""
    _forking.acquire()
    _held.extend(_alive)
    for policy in _held:
        policy._lock.acquire()
    hold_still()


def _go_on(*, in_child: bool = False) -> None:
    go_on(in_child=in_child)
    while _held:
        policy = _held.pop()
        if in_child:  # or parent and child would draw the same
            policy._state.lots[:] = lots.seeded()
        policy._lock.release()
    _forking.release()


def _go_on_apart() -> None:
    _go_on(in_child=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_still, after_in_parent=_go_on, after_in_child=_go_on_apart)
