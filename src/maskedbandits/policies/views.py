"""What a policy tells of itself: nothing of this is a decision, or changes what it knows."""

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.state import Floats, Ints, copy_state, digest
from maskedbandits.errors import UserError, check_int
from maskedbandits.math import rng
from maskedbandits.policies import estimates
from maskedbandits.policies.pending import EXPIRE_AFTER
from maskedbandits.policies.registry import Kind
from maskedbandits.policies.runtime import Entries, get_entries

MOST = 1 << 27  # decisions or draws at once: what answers them takes up a GiB


class View:
    """The half of a policy that tells."""

    __slots__ = ("_arms", "_entries", "_kind", "_lock", "_parameters", "_state")

    _arms: int
    _entries: Entries
    _kind: Kind
    _lock: threading.Lock
    _parameters: Mapping[str, Any]
    _state: Any

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
    def retired(self) -> NDArray[np.bool_]:
        """Tell which arms are never chosen again."""
        with self._lock:
            return np.asarray(self._state.closed > 0)

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
        return int(self._state.scalars[0].time)

    @property
    def nbytes(self) -> int:
        """How many bytes what it remembers takes up."""
        return sum(array.nbytes for array in self._state)

    @property
    def alarms(self) -> int:
        """How many changes it has seen."""
        return int(self._state.scalars[0].alarms)

    def __repr__(self) -> str:
        usual = ("expire_after", EXPIRE_AFTER)  # of interest only if it was changed
        settings = "".join(f", {key}={value!r}" for key, value in self.parameters.items() if (key, value) != usual)
        return f"<{self.name}, arms={self.arms}{settings}, {self.observations} observations>"

    def _part(self, name: str) -> Entries:
        """Return the entry points that few need, compiled on their own."""
        return get_entries(self._kind.layout, self.name, name)

    @property
    def pending(self) -> Ints:
        """How many decisions for each arm await their report."""
        with self._lock:
            return np.array(self._state.pending)

    def indices(self) -> Floats:
        """Return what is compared to choose, one number per arm: not clipped.

        It is infinite for an arm not remembered, and minus infinity for one that is retired.
        """
        with self._lock:
            out = np.empty(self._arms)
            self._part(".scores").scores(self._state, out)
            out[self._state.closed > 0] = -np.inf
        return out

    def probabilities(self, draws: int = 10_000) -> Floats:
        """Return the chance of each arm to be chosen next, without choosing.

        Exact, but for those that draw from a posterior: of these it is the share of so many draws, none of which
        changes what the policy itself will draw. The standard error is at most 0.5 / sqrt(draws).
        """
        tries = check_int("draws", draws, 1, MOST)
        if self._kind.draws_from == "scores":
            return self.indices()
        drawn = np.zeros(tries if self._kind.draws_from else 1, dtype=np.int64)
        snapshot = self._snapshot()
        snapshot.rng[:] = rng.seeded()
        self._part(".sample").sample(snapshot, drawn)
        return np.bincount(drawn, minlength=snapshot.counts.size) / drawn.size

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
            return copy_state(self._state)

    def fold_digest(self) -> str:
        """Return the SHA-256 of all that was learnt, in hexadecimal digits: the same if the same was observed in order.

        It does not tell what was chosen meanwhile: neither lots, nor what is awaited, nor what choosing leaves behind.
        """
        return digest(self._snapshot())
