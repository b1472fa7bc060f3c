"""A policy at work: what a user holds."""

import copy
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from maskedbandits._numba.state import Floats, Ints, Words, copy_resized
from maskedbandits.corruption import Corruption, Polyline
from maskedbandits.errors import UserError, check_int
from maskedbandits.policies import arms as changes
from maskedbandits.policies import log_times, validation
from maskedbandits.policies import pending as pending_reports
from maskedbandits.policies.index import report_masks
from maskedbandits.policies.pending import FOREVER
from maskedbandits.policies.registry import Kind
from maskedbandits.policies.runtime import get_entries, hold_during_forks
from maskedbandits.policies.views import MOST, View


def made(kind: Kind, parameters: Mapping[str, Any], lines: Sequence[Polyline]) -> Any:
    """Return the state of a state that has seen nothing; arms with one polyline share its nodes."""
    distinct = {id(line): line for line in lines}
    ends = np.cumsum([line.means.size for line in distinct.values()])
    places = dict(zip(distinct, [0, *ends[:-1]], strict=True))
    first = [places[id(line)] for line in lines]
    common = {"arms": len(lines), "nodes": int(ends[-1]), "leaves": 1 << (len(lines) - 1).bit_length()}
    common["ages"] = pending_reports.age_groups(parameters["expire_after"])
    state = kind.layout.build({**common, **kind.sizes(parameters)}, parameters)
    honest = 1.0 - parameters.get("contamination", 0.0)  # see Policy.contamination
    state.flips[:] = [line.flipped for line in lines]
    state.first_node[:] = first
    state.last_node[:] = [begin + line.means.size - 1 for begin, line in zip(first, lines, strict=True)]
    state.node_means[:] = np.concatenate([line.means for line in distinct.values()])
    state.node_feedbacks[:] = np.concatenate([honest * line.feedbacks for line in distinct.values()])
    state.lows[:] = [honest * line.feedbacks[0] for line in lines]
    state.rates[:] = [1.0 / (honest * line.feedbacks[-1] - honest * line.feedbacks[0]) for line in lines]
    state.scalars[0].curved = any(line.means.size != 2 for line in distinct.values())
    pending_reports.configure(state, parameters["expire_after"])
    kind.configure(state, parameters)
    return state


class Policy(View):
    """A policy at work: choose an arm, observe what came back, again and again.

    Made by ``make_policy``. Nothing but masked feedback ever enters it, but for two that are there for comparison: see
    ``observe``. Threads may share one. After a fork, parent and child draw different lots.
    """

    __slots__ = ("__weakref__", "_given", "_mixed", "_most")

    def __init__(self, kind: Kind, given: Mapping[str, Any], state: Any, words: Words, *, fresh: bool = True) -> None:
        self._kind = kind
        self._given = copy.deepcopy(dict(given))  # lists may change in the hands of whoever gave them
        self._parameters = kind.complete(given, int(state.scalars[0].arms))
        self._state = state
        self._arms = int(state.scalars[0].arms)
        self._mixed = kind.on_axes and bool(state.scalars[0].mixed)
        self._most = 1.0 if self.sigma is None else validation.LARGEST
        self._lock = threading.Lock()
        self._entries = get_entries(kind.layout, kind.name)
        state.rng[:] = words
        if fresh:
            self._entries.start(state)
        hold_during_forks(self)

    @overload
    def choose(self, n: None = None, *, among: ArrayLike | None = None) -> int: ...

    @overload
    def choose(self, n: int, *, among: ArrayLike | None = None) -> Ints: ...

    def choose(self, n: int | None = None, *, among: ArrayLike | None = None) -> int | Ints:
        """Decide: return the arm to pull next, or the arms of the next n decisions; one of some arms, if asked so.

        Each is a decision, whose report is pending until ``observe`` takes one in, or ``expire`` or the policy itself
        (``expire_after``) gives up on it. A burst of decisions explores as decisions one by one would.
        ``indices``, ``probabilities`` and ``sample`` look without deciding.
        """
        if among is not None:
            chosen = self._choose_among(among, check_int("n", 1 if n is None else n, 0, MOST), decides=True)
            return int(chosen[0]) if n is None else chosen
        if n is None:
            with self._lock:
                return self._entries.choose(self._state)
        out = np.zeros(check_int("n", n, 0, MOST), dtype=np.int64)
        with self._lock:
            self._part(".many").choose_many(self._state, out)
        return out

    def sample(self, n: int, *, among: ArrayLike | None = None) -> Ints:
        """Return n arms, each drawn as ``choose`` would choose right now, and none of them a decision.

        What draws no lots would choose the same arm each time.
        """
        n = check_int("n", n, 0, MOST)
        once = n if self._kind.draws_from else min(n, 1)
        if among is not None:
            out = self._choose_among(among, once, decides=False)
        else:
            out = np.zeros(once, dtype=np.int64)
            with self._lock:
                self._part(".sample").sample(self._state, out)
        return out if once == n else np.repeat(out, n)

    def _choose_among(self, among: ArrayLike, n: int, *, decides: bool) -> Ints:
        """Choose with all other arms closed for the moment."""
        changes.check(self._kind)
        places = validation.some("among", among, self._arms)
        out = np.zeros(n, dtype=np.int64)
        with self._lock:
            closed = self._state.closed
            before = closed.copy()
            if before[places].any():
                raise UserError(f"among: arm {places[before[places] > 0][0]} is retired: leave it out")
            try:
                closed[:] = 1
                closed[places] = 0
                self._part(".among").choose_open(self._state, out, int(decides))
            finally:
                closed[:] = before
        return out

    def add_arm(self, corruption: Corruption | None = None) -> int:
        """Add an arm, and return its number; what was learnt of the others stays.

        It is masked as all others are, or as is said. It is explored as every arm is at the beginning.
        """
        changes.check(self._kind)
        line = changes.line_of(self._kind, corruption, self._arms, self.sigma is not None)
        with self._lock:
            parameters = self._kind.complete(self._given, self._arms + 1)
            self._state = changes.added(self._kind, parameters, self._state, line)
            self._parameters = parameters
            self._arms += 1
            return self._arms - 1

    def retire(self, arm: int) -> None:
        """Never choose an arm again; what was seen of it stays, and reports of it that come late are taken in."""
        changes.check(self._kind)
        arm = validation.check_arm(arm, self._arms)
        with self._lock:
            changes.retire(self._kind, self._state, arm)

    def note(self, arm: int, n: int = 1) -> None:
        """Await n more reports of an arm: of decisions that were made elsewhere, or from a ``sample``."""
        arm, n = validation.check_arm(arm, self._arms), check_int("n", n, 0, MOST)
        with self._lock:
            self._entries.wait(self._state, arm, n)

    def expire(self, arm: int, n: int = 1) -> int:
        """Give up on up to n pending reports of an arm, the oldest first; return on how many."""
        arm, n = validation.check_arm(arm, self._arms), min(check_int("n", n, 0), FOREVER)
        with self._lock:
            return -self._entries.wait(self._state, arm, -n)

    def await_exactly(self, pending: ArrayLike) -> None:
        """Await so many reports of each arm, whatever was awaited before."""
        counts = validation.counts("pending", pending, self._arms, MOST)
        with self._lock:
            pending_reports.set_pending(self._state, counts)

    def observe_many(
        self, arms: ArrayLike, feedbacks: ArrayLike, corruptions: Sequence[Corruption | None] | None = None
    ) -> None:
        """Take in many reports, such as a log, in their order: as ``observe`` does, and much faster.

        Corruptions, if there are any, are one for each report; None is that of its arm.
        """
        pulled, seen = validation.many(arms, feedbacks, self._arms, self._most)
        masks = None if corruptions is None else report_masks.read(corruptions, pulled.size)
        with self._lock:
            self._take_in(pulled, seen, masks)

    def observe(self, arm: int, feedback: float, corruption: Corruption | None = None) -> None:
        """Take in the masked feedback, a number in [0, 1], or any number under noise, that came back for an arm.

        A report may come with a corruption of its own, such as another epsilon; it has to be a RandomizedResponse. Two
        policies, ``ldp-ucb-l`` and ``dp-ucb``, are given the reward itself instead, and add noise of their own.
        """
        if type(arm) is not int or type(feedback) not in (int, float):  # the usual kinds need no second look
            arm, feedback = validation.plain_numbers(arm, feedback)
        if not 0 <= arm < self._arms:
            raise validation.no_such_arm(arm, self._arms)
        value = float(feedback)
        if not 0.0 <= value <= 1.0 and (self._most == 1.0 or not abs(value) <= self._most):
            raise validation.no_feedback(feedback, self._most)
        if corruption is None:
            with self._lock:
                if not self._mixed:  # which another thread may just have changed
                    self._entries.observe(self._state, arm, value)
                    return
        masks = report_masks.read([corruption], 1)
        with self._lock:
            self._take_in(np.array([arm]), np.array([value]), masks)

    def _take_in(self, arms: Ints, feedbacks: Floats, masks: report_masks.Masks | None) -> None:
        """Take in reports, with the lock held; what is refused changes nothing."""
        first = self._first_masked(arms, masks)
        self._take_in_plain(arms[:first], feedbacks[:first])
        if first == arms.size:
            return
        if self._kind.on_axes and not self._mixed:
            self._state = report_masks.mixed(self._state)
            self._mixed = True
        places, lines = masks or report_masks.Masks(np.full(arms.size, report_masks.ARMS_OWN), report_masks.NO_LINES)
        observe = self._part(".masked").observe_masked
        observe(self._state, arms[first:], feedbacks[first:], places[first:], lines, 1.0 - self.contamination)

    def _take_in_plain(self, arms: Ints, feedbacks: Floats) -> None:
        if arms.size == 1:  # the code for one is there anyway
            self._entries.observe(self._state, int(arms[0]), float(feedbacks[0]))
        elif arms.size:
            self._part(".many").observe_many(self._state, arms, feedbacks)

    def _first_masked(self, arms: Ints, masks: report_masks.Masks | None) -> int:
        """Return the place of the first report that has another corruption than its arm, or comes after such."""
        if masks is None:
            return 0 if self._mixed else arms.size
        if not self._kind.takes_masks or self.sigma is not None:
            raise UserError(f"{self.name} takes no corruption of a report's own: give the feedback alone")
        if not self._kind.sees_corruption:
            return arms.size
        first = self._part(".masked").tell_apart(self._state, arms, *masks, 1.0 - self.contamination)
        if first < arms.size:
            report_masks.refuse_curves(self._state)
        return 0 if self._mixed else first

    def __copy__(self) -> "Policy":
        state = self._snapshot()
        return Policy(self._kind, self._given, state, state.rng.copy(), fresh=False)

    def __deepcopy__(self, memo: Any) -> "Policy":
        return self.__copy__()

    def __reduce__(self) -> Any:
        from maskedbandits.policies import serialization

        return serialization.loads, (serialization.dumps(self),)

    def save(self, path: str | Path) -> None:
        """Write everything down, for ``load_policy``."""
        from maskedbandits.policies import serialization

        serialization.save(self, path)

    def for_log(self, pace: float) -> "tuple[Policy, Ints]":
        """Return a fresh copy for a log of which one row in ``pace`` is played, and the rows where segments begin."""
        given = log_times.in_plays(self._kind, self._given, self._arms, pace)
        state = log_times.remade(self._kind, self._kind.complete(given, self._arms), self._state)
        rows = np.array(log_times.rows_of(self._kind, self._given), dtype=np.int64)
        return Policy(self._kind, given, state, self._state.rng.copy()), rows

    def for_simulation(self, horizon: int, memo: int, expire_after: int | None = None) -> Any:
        """Return the state of a fresh policy of this kind, with no window longer than the horizon."""
        layout = self._kind.layout
        sizes = {key: value for key, value in (("memo", memo), ("mixed", 0)) if key in layout.sizes}
        scalars = self._state.scalars[0]
        endless = "span" in layout.computed and scalars.span >= horizon
        if endless:
            sizes["ring"] = 0
        if expire_after is not None:
            sizes["ages"] = pending_reports.age_groups(expire_after)
        fixed = [key for key, section in layout.arrays.items() if section.fixed]
        state = copy_resized(self._state, sizes, fixed)
        if expire_after is not None:
            pending_reports.configure(state, expire_after)
        state.scalars[0].retired = 0
        if endless:
            state.scalars[0].span = FOREVER
        return state
