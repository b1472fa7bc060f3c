"""A policy at work: what a user holds."""

import copy
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits.corruption import Corruption, Polyline
from maskedbandits.errors import UserError, whole
from maskedbandits.maths import lots
from maskedbandits.policies import arguments, estimates
from maskedbandits.policies.axes import reports
from maskedbandits.policies.entries import Entries, entries
from maskedbandits.policies.forks import look_after
from maskedbandits.policies.kinds import Kind
from maskedbandits.policies.state import FOREVER
from maskedbandits.record import Floats, Ints, Words, copied, relaid

MOST = 1 << 27  # decisions or draws at once: what answers them takes up a GiB


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

    __slots__ = (
        *("__weakref__", "_arms", "_entries", "_given", "_kind", "_lock", "_mixed", "_most", "_parameters", "_state"),
    )

    def __init__(self, kind: Kind, given: Mapping[str, Any], state: Any, words: Words, *, fresh: bool = True) -> None:
        self._kind = kind
        self._given = copy.deepcopy(dict(given))  # lists may change in the hands of whoever gave them
        self._parameters = kind.complete(given, int(state.own[0].arms))
        self._state = state
        self._arms = int(state.own[0].arms)
        self._mixed = kind.on_axes and bool(state.own[0].mixed)
        self._most = 1.0 if self.sigma is None else arguments.LARGEST
        self._lock = threading.Lock()
        self._entries = entries(kind.layout, kind.name)
        state.lots[:] = words
        if fresh:
            self._entries.start(state)
        look_after(self)

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
    def sigma(self) -> float | None:
        """How far feedback strays that is no bits, and may be any number; None if it is in [0, 1]."""
        sigma: float | None = self._parameters.get("sigma")
        return sigma

    @property
    def observations(self) -> int:
        """How many observations it has taken in."""
        return int(self._state.own[0].time)

    @property
    def nbytes(self) -> int:
        """How many bytes what it remembers takes up."""
        return sum(array.nbytes for array in self._state)

    @property
    def alarms(self) -> int:
        """How many changes it has seen."""
        return int(self._state.own[0].alarms)

    def __repr__(self) -> str:
        settings = "".join(f", {key}={value!r}" for key, value in self.parameters.items())
        return f"<{self.name}, arms={self.arms}{settings}, {self.observations} observations>"

    def _part(self, name: str) -> Entries:
        """Return the entry points that few need, compiled on their own."""
        return entries(self._kind.layout, self.name, name)

    @property
    def pending(self) -> Ints:
        """How many decisions for each arm await their report."""
        with self._lock:
            return np.array(self._state.pending)

    @overload
    def choose(self) -> int: ...

    @overload
    def choose(self, n: int) -> Ints: ...

    def choose(self, n: int | None = None) -> int | Ints:
        """Decide: return the arm to pull next, or the arms of the next n decisions.

        Each is a decision, whose report is awaited until ``observe`` takes it in, or ``expire`` gives it up. While
        reports are awaited, arms count as pulled as often as that: a burst of decisions explores as one by one would.
        ``indices`` and ``probabilities`` look without deciding.
        """
        if n is None:
            with self._lock:
                return self._entries.choose(self._state)
        out = np.zeros(whole("n", n, 0, MOST), dtype=np.int64)
        with self._lock:
            self._part(".many").choose_many(self._state, out)
        return out

    def expire(self, arm: int, n: int = 1) -> int:
        """Give up awaiting reports of an arm that will never come; return how many were awaited of those n."""
        arm = arguments.one_of(arm, self._arms)
        with self._lock:
            given_up = min(whole("n", n, 0), int(self._state.pending[arm]))
            self._state.pending[arm] -= given_up
            self._state.own[0].awaited -= given_up
        return given_up

    def observe_many(self, arms: ArrayLike, feedbacks: ArrayLike) -> None:
        """Take in many reports, such as a log, in their order: as ``observe`` does, and much faster."""
        pulled, seen = arguments.many(arms, feedbacks, self._arms, self._most)
        with self._lock:
            if not self._mixed or not self._kind.sees_corruption:
                self._part(".many").observe_many(self._state, pulled, seen)
                return
        for arm, feedback in zip(pulled.tolist(), seen.tolist(), strict=True):
            self.observe(arm, feedback)

    def observe(self, arm: int, feedback: float, corruption: Corruption | None = None) -> None:
        """Take in the masked feedback, a number in [0, 1], or any number under noise, that came back for an arm.

        A report may come with a corruption of its own, such as another epsilon; it has to be a RandomizedResponse. Two
        policies, ``ldp-ucb-l`` and ``dp-ucb``, are given the reward itself instead, and add noise of their own.
        """
        if type(arm) is not int or type(feedback) not in (int, float):  # the usual kinds need no second look
            arm, feedback = arguments.plain_numbers(arm, feedback)
        if not 0 <= arm < self._arms:
            raise arguments.no_such_arm(arm, self._arms)
        value = float(feedback)
        if not 0.0 <= value <= 1.0 and (self._most == 1.0 or not abs(value) <= self._most):
            raise arguments.no_feedback(feedback, self._most)
        if corruption is None:
            with self._lock:
                if not self._mixed:  # which another thread may just have changed
                    self._entries.observe(self._state, arm, value)
                    return
        self._observe_masked(arm, value, corruption)

    def _observe_masked(self, arm: int, feedback: float, corruption: Corruption | None) -> None:
        """Take in a feedback that has a corruption of its own."""
        if not self._kind.takes_masks or self.sigma is not None:
            raise UserError(f"{self.name} takes no corruption of a report's own: give the feedback alone")
        if corruption is not None:
            reports.check(corruption)
        with self._lock:
            if not self._kind.sees_corruption or (not self._mixed and self._is_arms_own(arm, corruption)):
                self._entries.observe(self._state, arm, feedback)
                return
            reports.refuse_curves(self._state)
            if self._kind.on_axes and not self._mixed:
                self._state = reports.mixed(self._state)
                self._mixed = True
            seen = reports.as_seen(self._state, arm, feedback, corruption, self.contamination)
            self._part(".masked").observe_masked(self._state, arm, *seen)

    def _is_arms_own(self, arm: int, corruption: Corruption | None) -> bool:
        return corruption is None or reports.is_the_arms(self._state, arm, corruption, self.contamination)

    def indices(self) -> Floats:
        """Return what is compared to choose, one number per arm: not clipped, infinite for an arm not remembered."""
        out = np.empty(self.arms)
        with self._lock:
            self._part(".scores").scores(self._state, out)
        return out

    def probabilities(self, draws: int = 10_000) -> Floats:
        """Return the chance of each arm to be chosen next, without choosing.

        Exact, but for those that draw from a posterior: of these it is the share of so many draws, none of which
        changes what the policy itself will draw. The standard error is at most 0.5 / sqrt(draws).
        """
        tries = whole("draws", draws, 1, MOST)
        if self._kind.draws_from == "scores":
            return self.indices()
        if self._kind.draws_from != "posterior":
            tries = 1
        counts = np.zeros(self._arms, dtype=np.int64)
        snapshot = self._snapshot()
        snapshot.lots[:] = lots.seeded()
        self._part(".look").look(snapshot, tries, counts)
        return np.asarray(counts / tries, dtype=np.float64)

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
        return estimates.intervals(self._masked_only(), self.contamination, delta, self.sigma)

    def suspects(self, delta: float = 0.001) -> NDArray[np.bool_]:
        """Tell of which arms the feedback lies outside what honest reports can give, such as [1-p, p].

        Without liars, none is told of with a probability of at least 1 - delta: at all times together if everything
        is remembered, at every single time with a window, a discount or restarts. With ``contamination``, what so many
        liars can do makes no arm suspect.
        """
        return estimates.suspects(self._masked_only(), self.contamination, delta, self.sigma)

    def _masked_only(self) -> Any:
        """Return the state, if what is remembered is masked feedback."""
        if self._kind.sees_rewards:
            raise UserError(f"{self.name} keeps noisy rewards, no masked feedback: ask a policy that is shown reports")
        if self._parameters.get("tail") is not None:
            raise UserError("with a heavy tail no bounds are known that hold at all times: ask for estimates")
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
