"""The policy of an application: it chooses arms, learns from reports, and describes its state."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits._numba.state import Floats, Ints, Words, copy_state, digest
from maskedbandits.corruption import Corruption
from maskedbandits.errors import check_int
from maskedbandits.math import rng
from maskedbandits.policies import arms as arm_changes
from maskedbandits.policies import estimates, log_times, validation
from maskedbandits.policies import pending as pending_reports
from maskedbandits.policies.initial_state import rebuild_state, simulation_state
from maskedbandits.policies.pending import EXPIRE_AFTER, FOREVER
from maskedbandits.policies.registry import Kind
from maskedbandits.policies.reports import Reports, is_mixed
from maskedbandits.policies.runtime import Entries, get_entries, hold_during_forks

MAX_AT_ONCE = 1 << 27  # decisions or draws in one call: the array of arms takes a GiB


class Policy:
    """Choose an arm, observe the report, and repeat.

    Create one with `make_policy`. A policy only ever sees masked feedback, except for two that exist for comparison
    (see `observe`). Threads may share a policy. After a fork, parent and child draw different random numbers.

    Examples
    --------
    >>> from maskedbandits import RandomizedResponse, make_policy
    >>> mask = RandomizedResponse.from_epsilon(1.0)
    >>> policy = make_policy("klucb-cf", arms=2, corruption=mask)
    >>> for feedback in (1, 0, 1, 1):
    ...     policy.observe(policy.choose(), feedback)
    >>> policy.observations
    4

    """

    __slots__ = (
        "__weakref__",
        "_arms",
        "_entries",
        "_given",
        "_kind",
        "_lock",
        "_mixed",
        "_most",
        "_parameters",
        "_state",
    )

    def __init__(self, kind: Kind, given: Mapping[str, Any], state: Any, words: Words, *, fresh: bool = True) -> None:
        self._kind = kind
        self._given = copy.deepcopy(dict(given))  # the caller may change its lists later
        self._parameters: Mapping[str, Any] = kind.complete(given, int(state.scalars[0].arms))
        self._state: Any = state
        self._arms = int(state.scalars[0].arms)
        self._mixed = is_mixed(kind, state)
        self._most = 1.0 if self.sigma is None else validation.MAX_FEEDBACK
        self._lock = threading.Lock()
        self._entries = get_entries(kind.layout, kind.name)
        state.rng[:] = words
        if fresh:
            self._entries.start(state)
        hold_during_forks(self)

    def __repr__(self) -> str:
        usual = ("expire_after", EXPIRE_AFTER)  # of interest only if it was changed
        settings = "".join(f", {key}={value!r}" for key, value in self.parameters.items() if (key, value) != usual)
        return f"<{self.name}, arms={self.arms}{settings}, {self.observations} observations>"

    @property
    def name(self) -> str:
        """Name of the policy, such as ``"klucb-cf"``."""
        return self._kind.name

    @property
    def kind(self) -> Kind:
        """Description of the policy's name: its code and its parameters."""
        return self._kind

    @property
    def entries(self) -> Entries:
        """Compiled entry points, shared by all policies of the same kind."""
        return self._entries

    @property
    def arms(self) -> int:
        """Number of arms, retired ones included."""
        return self._arms

    @property
    def retired(self) -> NDArray[np.bool_]:
        """Which arms are retired, as an array of shape (K,)."""
        with self._lock:
            return np.asarray(self._state.closed > 0)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """All parameters by name, defaults included."""
        return MappingProxyType({key: self._parameters[key] for key in self._kind.parameters})

    @property
    def contamination(self) -> float:
        """Largest share of reports that may be lies.

        Lies are zeros at worst, so a feedback mean is at least (1 - share) g(mean). With this line instead of g, an
        upper confidence bound holds for any lies. Flipped feedback has flipped lies, so the same holds.
        """
        return float(self._parameters.get("contamination", 0.0))

    @property
    def sigma(self) -> float | None:
        """Sub-Gaussian parameter of feedback that may be any number; None if feedback is in [0, 1]."""
        sigma: float | None = self._parameters.get("sigma")
        return sigma

    @property
    def observations(self) -> int:
        """Number of reports that the policy has learned from."""
        return int(self._state.scalars[0].time)

    @property
    def nbytes(self) -> int:
        """Size of the state in bytes."""
        return sum(array.nbytes for array in self._state)

    @property
    def alarms(self) -> int:
        """Number of changes detected."""
        return int(self._state.scalars[0].alarms)

    @property
    def pending(self) -> Ints:
        """Number of decisions for each arm whose report is pending, as an array of shape (K,)."""
        with self._lock:
            return np.array(self._state.pending)

    @overload
    def choose(self, n: None = None, *, among: ArrayLike | None = None) -> int: ...

    @overload
    def choose(self, n: int, *, among: ArrayLike | None = None) -> Ints: ...

    def choose(self, n: int | None = None, *, among: ArrayLike | None = None) -> int | Ints:
        """Decide which arm to pull next.

        Every arm returned is a decision. Its report is pending until `observe` receives it, until `expire` gives it
        up, or until the policy itself gives it up after ``expire_after`` further decisions. A burst of n decisions
        explores like n single ones. `indices`, `probabilities` and `sample` do not decide.

        Parameters
        ----------
        n : int, optional
            Number of decisions. Without it, a single arm is returned.
        among : array_like of int, optional
            Arms to choose from. By default all arms that are not retired.

        Returns
        -------
        int or ndarray
            The arm, or an array of n arms.

        Raises
        ------
        UserError
            If ``among`` holds an arm that is retired or does not exist, or the policy's arms cannot change.

        Examples
        --------
        >>> from maskedbandits import make_policy
        >>> policy = make_policy("klucb", arms=3)
        >>> policy.choose()
        0
        >>> policy.choose(2).tolist()
        [1, 2]
        >>> policy.pending.tolist()
        [1, 1, 1]

        """
        if among is not None:
            chosen = self._choose_among(among, check_int("n", 1 if n is None else n, 0, MAX_AT_ONCE), decides=True)
            return int(chosen[0]) if n is None else chosen
        if n is None:
            with self._lock:
                return self._entries.choose(self._state)
        out = np.zeros(check_int("n", n, 0, MAX_AT_ONCE), dtype=np.int64)
        with self._lock:
            self._entries_of(".many").choose_many(self._state, out)
        return out

    def sample(self, n: int, *, among: ArrayLike | None = None) -> Ints:
        """Draw arms as `choose` would choose right now, without deciding.

        Deterministic policies always return the same arm.

        Parameters
        ----------
        n : int
            Number of arms to draw.
        among : array_like of int, optional
            Arms to choose from, as for `choose`.

        Returns
        -------
        ndarray
            n arms. No report is expected for any of them.

        """
        n = check_int("n", n, 0, MAX_AT_ONCE)
        once = n if self._kind.draws_from else min(n, 1)
        if among is not None:
            out = self._choose_among(among, once, decides=False)
        else:
            out = np.zeros(once, dtype=np.int64)
            with self._lock:
                self._entries_of(".sample").sample(self._state, out)
        return out if once == n else np.repeat(out, n)

    def _choose_among(self, among: ArrayLike, n: int, *, decides: bool) -> Ints:
        """Choose with all other arms closed for the moment."""
        arm_changes.check_kind(self._kind)
        places = validation.some("among", among, self._arms)
        out = np.zeros(n, dtype=np.int64)
        with self._lock, arm_changes.only_open(self._state.closed, places):
            self._entries_of(".among").choose_open(self._state, out, int(decides))
        return out

    def observe(self, arm: int, feedback: float, corruption: Corruption | None = None) -> None:
        """Update the policy with a report.

        Parameters
        ----------
        arm : int
            The arm that was pulled.
        feedback : float
            The masked feedback: a number in [0, 1], or any number under noise. Two policies, ``ldp-ucb-l`` and
            ``dp-ucb``, take the reward itself and add noise to it.
        corruption : RandomizedResponse, optional
            The mask of this report, if it is not the arm's, such as one with another epsilon.

        Raises
        ------
        UserError
            If the arm does not exist, the feedback is out of range, or the policy takes no masks of single reports.

        Examples
        --------
        >>> from maskedbandits import RandomizedResponse, make_policy
        >>> policy = make_policy("auto", arms=2, corruption=RandomizedResponse.from_epsilon(1.0))
        >>> policy.observe(0, 1)
        >>> policy.observe(1, 0, corruption=RandomizedResponse.from_epsilon(0.5))
        >>> policy.observations
        2

        """
        if type(arm) is not int or type(feedback) not in (int, float):  # the usual types need no second look
            arm, feedback = validation.plain_numbers(arm, feedback)
        if not 0 <= arm < self._arms:
            raise validation.no_such_arm(arm, self._arms)
        value = float(feedback)
        if not 0.0 <= value <= 1.0 and (self._most == 1.0 or not abs(value) <= self._most):
            raise validation.no_feedback(feedback, self._most)
        if corruption is None:
            with self._lock:
                if not self._mixed:  # another thread may just have changed it
                    self._entries.observe(self._state, arm, value)
                    return
        self._take_in(Reports.read(np.array([arm]), np.array([value]), [corruption]))

    def observe_many(
        self, arms: ArrayLike, feedbacks: ArrayLike, corruptions: Sequence[Corruption | None] | None = None
    ) -> None:
        """Update the policy with many reports, in order. Equal to `observe` for each, and much faster.

        Parameters
        ----------
        arms : array_like of int
            The arm of each report.
        feedbacks : array_like of float
            The masked feedback of each report.
        corruptions : sequence of RandomizedResponse or None, optional
            The mask of each report; None means the arm's own mask.

        Raises
        ------
        UserError
            If a report is invalid. Then the policy does not change.

        Examples
        --------
        >>> from maskedbandits import make_policy
        >>> policy = make_policy("klucb", arms=2)
        >>> policy.observe_many([0, 1, 1], [0, 1, 1])
        >>> policy.estimates().tolist()
        [0.0, 1.0]

        """
        pulled, seen = validation.many(arms, feedbacks, self._arms, self._most)
        self._take_in(Reports.read(pulled, seen, corruptions))

    def _take_in(self, reports: Reports) -> None:
        """Update the state; a refused call changes nothing."""
        with self._lock:
            self._state = reports.take_in(self._kind, self._state, self.contamination, self.sigma)
            self._mixed = is_mixed(self._kind, self._state)

    def note(self, arm: int, n: int = 1) -> None:
        """Expect n more reports of an arm, for decisions that were made elsewhere or come from `sample`.

        Parameters
        ----------
        arm : int
            The arm that was decided on.
        n : int, optional
            Number of decisions.

        """
        arm, n = validation.check_arm(arm, self._arms), check_int("n", n, 0, MAX_AT_ONCE)
        with self._lock:
            self._entries.wait(self._state, arm, n)

    def expire(self, arm: int, n: int = 1) -> int:
        """Give up on pending reports of an arm, the oldest first.

        Parameters
        ----------
        arm : int
            The arm whose reports are lost.
        n : int, optional
            Largest number of reports to give up on.

        Returns
        -------
        int
            The number of reports given up on: n, or all that were pending.

        Examples
        --------
        >>> from maskedbandits import make_policy
        >>> policy = make_policy("klucb", arms=2)
        >>> policy.expire(policy.choose(), 5)
        1

        """
        arm, n = validation.check_arm(arm, self._arms), min(check_int("n", n, 0), FOREVER)
        with self._lock:
            return -self._entries.wait(self._state, arm, -n)

    def await_exactly(self, pending: ArrayLike) -> None:
        """Set the number of pending reports of every arm.

        Parameters
        ----------
        pending : array_like of int
            The number for each arm, of shape (K,).

        """
        counts = validation.counts("pending", pending, self._arms, MAX_AT_ONCE)
        with self._lock:
            pending_reports.set_pending(self._state, counts)

    def add_arm(self, corruption: Corruption | None = None) -> int:
        """Add an arm, and keep everything learned about the others.

        The policy explores the new arm like any arm at the beginning.

        Parameters
        ----------
        corruption : Corruption, optional
            The mask of the new arm. By default that of all other arms.

        Returns
        -------
        int
            The number of the new arm.

        Raises
        ------
        UserError
            If the policy's arms cannot change, or the arms have several masks and none is given.

        Examples
        --------
        >>> from maskedbandits import RandomizedResponse, make_policy
        >>> policy = make_policy("klucb-cf", arms=2, corruption=RandomizedResponse.from_epsilon(1.0))
        >>> policy.add_arm()
        2

        """
        arm_changes.check_kind(self._kind)
        line = arm_changes.polyline_of(self._kind, corruption, self._arms, self.sigma is not None)
        with self._lock:
            parameters = self._kind.complete(self._given, self._arms + 1)
            self._state = arm_changes.add_arm(self._kind, parameters, self._state, line)
            self._parameters = parameters
            self._arms += 1
            return self._arms - 1

    def retire(self, arm: int) -> None:
        """Never choose an arm again. Its observations stay, and the policy still learns from late reports.

        Parameters
        ----------
        arm : int
            The arm to retire.

        Raises
        ------
        UserError
            If the arm is retired already, is the last one left, or the policy's arms cannot change.

        """
        arm_changes.check_kind(self._kind)
        arm = validation.check_arm(arm, self._arms)
        with self._lock:
            arm_changes.retire_arm(self._kind, self._state, arm)

    def indices(self) -> Floats:
        """Return the score of every arm: the numbers compared by `choose`, not clipped.

        Returns
        -------
        ndarray
            An array of shape (K,). An arm without observations has infinity, a retired one minus infinity.

        """
        with self._lock:
            out = np.empty(self._arms)
            self._entries_of(".scores").scores(self._state, out)
            out[self._state.closed > 0] = -np.inf
        return out

    def probabilities(self, draws: int = 10_000) -> Floats:
        """Return the probability of every arm to be chosen next, without choosing.

        Exact, except for policies that draw from a posterior. For these it is a share of draws with a standard error
        of at most 0.5 / sqrt(draws). The draws do not change what the policy chooses later.

        Parameters
        ----------
        draws : int, optional
            Number of draws, where they are needed.

        Returns
        -------
        ndarray
            An array of shape (K,) that sums to 1.

        Examples
        --------
        >>> from maskedbandits import make_policy
        >>> make_policy("uniform", arms=4).probabilities().tolist()
        [0.25, 0.25, 0.25, 0.25]

        """
        tries = check_int("draws", draws, 1, MAX_AT_ONCE)
        if self._kind.draws_from == "scores":
            return self.indices()
        drawn = np.zeros(tries if self._kind.draws_from else 1, dtype=np.int64)
        snapshot = self.snapshot()
        snapshot.rng[:] = rng.seed_words()
        self._entries_of(".sample").sample(snapshot, drawn)
        return np.bincount(drawn, minlength=snapshot.counts.size) / drawn.size

    def estimates(self) -> Floats:
        """Return the estimated mean reward of every arm, clipped to [0, 1].

        With ``contamination`` it is the middle of the possible range.

        Returns
        -------
        ndarray
            An array of shape (K,), with NaN for an arm without observations.

        """
        return estimates.estimates(self.snapshot(), self.contamination)

    def intervals(self, delta: float = 0.05) -> Floats:
        """Return a confidence interval for the mean reward of every arm, clipped to [0, 1].

        If everything is remembered and the arm's mean does not change, an interval holds at all times simultaneously
        with probability 1 - delta. With a window, a discount or restarts it holds at every single time. It allows for
        the share of lies in ``contamination``.

        Parameters
        ----------
        delta : float, optional
            The probability that the interval of an arm misses its mean.

        Returns
        -------
        ndarray
            Lower and upper bounds, of shape (K, 2).

        """
        return estimates.intervals(self._masked_snapshot(), self.contamination, delta, self.sigma)

    def suspects(self, delta: float = 0.001) -> NDArray[np.bool_]:
        """Return which arms have reports that honest devices cannot produce, such as a mean outside [1-p, p].

        If all devices are honest, no arm is suspect with probability 1 - delta: at all times simultaneously if
        everything is remembered, at every single time with a window, a discount or restarts. The share of lies in
        ``contamination`` alone makes no arm suspect.

        Parameters
        ----------
        delta : float, optional
            The probability of a false accusation.

        Returns
        -------
        ndarray of bool
            An array of shape (K,).

        """
        return estimates.suspects(self._masked_snapshot(), self.contamination, delta, self.sigma)

    def _masked_snapshot(self) -> Any:
        """Return a copy of the state, if it holds masked feedback with known bounds."""
        estimates.check_bounds_known(self._kind, self._parameters)
        return self.snapshot()

    def snapshot(self) -> Any:
        """Return a copy of the state. Internal: its sections are not part of the interface."""
        with self._lock:
            return copy_state(self._state)

    def _entries_of(self, part: str) -> Entries:
        """Return entry points that few policies need, and that are compiled separately."""
        return get_entries(self._kind.layout, self.name, part)

    def fold_digest(self) -> str:
        """Return the SHA-256 of everything learned.

        Policies that observed the same reports in the same order have the same digest. Decisions made in between do
        not matter: random numbers, pending reports and intermediate results of choices are left out.

        Returns
        -------
        str
            64 hexadecimal digits.

        """
        return digest(self.snapshot())

    def save(self, path: str | Path) -> None:
        """Write the policy to a file, for `load_policy`.

        Parameters
        ----------
        path : str or Path
            The file. It appears whole or not at all.

        """
        from maskedbandits.policies import serialization

        serialization.save(self, path)

    def __copy__(self) -> Policy:
        state = self.snapshot()
        return Policy(self._kind, self._given, state, state.rng.copy(), fresh=False)

    def __deepcopy__(self, memo: Any) -> Policy:
        return self.__copy__()

    def __reduce__(self) -> Any:
        from maskedbandits.policies import serialization

        return serialization.loads, (serialization.dumps(self),)

    def for_log(self, pace: float) -> tuple[Policy, Ints]:
        """Return a fresh copy for a log that plays one row in ``pace``, and the rows where segments begin.

        Internal: the simulator replays logs with it.
        """
        given = log_times.in_plays(self._kind, self._given, self._arms, pace)
        state = rebuild_state(self._kind, self._kind.complete(given, self._arms), self._state)
        rows = np.array(log_times.rows_of(self._kind, self._given), dtype=np.int64)
        return Policy(self._kind, given, state, self._state.rng.copy()), rows

    def for_simulation(self, horizon: int, memo: int, expire_after: int | None = None) -> Any:
        """Return the initial state of a policy of this kind, with no window longer than the horizon.

        Internal: the simulator plays it.
        """
        return simulation_state(self._state, horizon, memo, expire_after)
