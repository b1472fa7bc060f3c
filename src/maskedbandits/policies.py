"""Policies at work: made by name, played live, saved and loaded."""

import json
import math
import operator
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from maskedbandits import confidence, own
from maskedbandits.core import change, index, memory, policy, state
from maskedbandits.core import own as core_own
from maskedbandits.core.compiled import announce
from maskedbandits.core.state import Floats, Ints, Layout, State
from maskedbandits.corruption import IDENTITY, Corruption, Polyline, per_arm
from maskedbandits.recipes import REGISTRY as REGISTRY
from maskedbandits.recipes import complete, recipe, restart_kind, steps_remembered, whole
from maskedbandits.recipes import names as names

FORMAT = 1  # of saved policies


def make_policy(
    name: str, *, arms: int, corruption: Corruption | Sequence[Corruption] | None = None, **parameters: Any
) -> "Policy":
    """Return a fresh policy that has seen nothing.

    >>> make_policy("klucb", arms=3).choose()
    0
    """
    known = check_policy(name, arms=arms, corruption=corruption, **parameters)
    seen = per_arm(corruption if corruption is not None and recipe(name).sees_corruption else IDENTITY, arms)
    drawn = {id(one): one.polyline for one in {id(one): one for one in seen}.values()}
    share = known.get("contamination", 0.0)
    drawn = {key: _contaminated(line, share) for key, line in drawn.items()}
    lines = [drawn[id(one)] for one in seen]
    return Policy(name, known, *pack(name, known, lines))


def check_policy(
    name: str, *, arms: int, corruption: Corruption | Sequence[Corruption] | None = None, **parameters: Any
) -> dict[str, Any]:
    """Return all parameters of a policy, those not given at their defaults, or refuse it; nothing is made."""
    arms = whole("arms", arms)
    known = complete(name, parameters, arms)
    if recipe(name).sees_corruption and corruption is None:
        raise ValueError(f"{name} needs corruption: the RandomizedResponse that masks the feedback")
    each = per_arm(IDENTITY if corruption is None else corruption, arms)
    if recipe(name).sees_corruption:
        own.refuse_curves(name, recipe(name).own, [one.polyline for one in {id(one): one for one in each}.values()])
    return known


def _contaminated(line: Polyline, share: float) -> Polyline:
    """Return the lowest feedback means that a mean may show if a share of the reports are lies.

    Lies are zeros at the worst, so a feedback mean is at least (1 - share) g(mean): with this line in place of g an
    upper confidence bound stays one, whatever the liars say. Flipped feedback has flipped lies, so the same holds.
    """
    return line if share == 0.0 else line._replace(feedbacks=(1.0 - share) * line.feedbacks)


def pack(name: str, parameters: Mapping[str, Any], lines: Sequence[Polyline]) -> tuple[Ints, Floats]:
    """Return the two arrays of a state that has seen nothing; arms with one polyline share its nodes."""
    distinct = {id(line): line for line in lines}
    ends = np.cumsum([line.means.size for line in distinct.values()])
    nodes = int(ends[-1])
    places = dict(zip(distinct, [0, *ends[:-1]], strict=True))
    first = [places[id(line)] for line in lines]
    kind = recipe(name)
    layout = layout_for(name, parameters, len(lines), nodes)
    box = layout.box
    ints, floats = layout.arrays()
    _write_head(ints, floats, name, parameters)
    view = state.views(ints, floats)
    view.plan[:] = _plan(parameters)
    view.flips[:] = [line.flipped for line in lines]
    view.first_node[:] = first
    view.last_node[:] = [begin + line.means.size - 1 for begin, line in zip(first, lines, strict=True)]
    view.node_means[:] = np.concatenate([line.means for line in distinct.values()])
    view.node_feedbacks[:] = np.concatenate([line.feedbacks for line in distinct.values()])
    view.lows[:] = [line.feedbacks[0] for line in lines]
    view.rates[:] = [1.0 / (line.feedbacks[-1] - line.feedbacks[0]) for line in lines]
    for arm in range(len(lines)):
        change.configure(kind.detector, view.boxes[arm * box : (arm + 1) * box], parameters.get("width", change.HULL))
    own.configure(view, kind.own, parameters)
    start(ints, floats)
    return ints, floats


def start(ints: Ints, floats: Floats) -> None:
    """Forget everything that a policy has seen."""
    begin = core_own.start_packed if ints[state.INDEX] == index.OWN else policy.start_packed
    announce(begin)
    begin(ints, floats)


def _plan(parameters: Mapping[str, Any]) -> list[int]:
    """Return the times at which to restart."""
    restarts = parameters.get("restarts")
    return [time for time in restarts if time > 0] if isinstance(restarts, list) else []


def layout_for(name: str, parameters: Mapping[str, Any], arms: int, nodes: int) -> Layout:
    """Return the layout of a policy that has seen nothing."""
    window = steps_remembered(parameters)
    ring = 0 if window == state.FOREVER else window
    box = change.box_size(recipe(name).detector, parameters.get("width", change.HULL))
    alone = own.size(recipe(name).own, arms, parameters)
    return Layout(arms, ring, nodes, box=box, plan=len(_plan(parameters)), own=alone)


def _write_head(ints: Ints, floats: Floats, name: str, parameters: Mapping[str, Any]) -> None:
    """Write down what kind of policy it is."""
    kind = recipe(name)
    ints[state.MEMORY] = kind.memory
    ints[state.INDEX] = kind.index
    ints[state.OWN_KIND] = kind.own
    ints[state.DETECTOR] = kind.detector
    ints[state.RESTART] = restart_kind(parameters)
    ints[state.LOCAL] = parameters.get("local", False)
    ints[state.WINDOW] = steps_remembered(parameters)
    floats[state.C] = parameters.get("c", 0.0)
    floats[state.XI] = parameters.get("xi", 0.0)
    floats[state.GAMMA] = parameters.get("gamma", 1.0)
    floats[state.HORIZON] = parameters.get("horizon") or 0.0
    floats[state.DELTA] = parameters.get("delta", 0.0)
    floats[state.EXPLORATION] = parameters.get("exploration", 0.0)
    floats[state.PRIOR_CHANGES] = parameters.get("prior_changes", 0.0)
    floats[state.FOLLOW_UP] = parameters.get("follow_up", 0.0)
    floats[state.DETECTION + change.DRIFT] = parameters.get("drift", 0.0)
    floats[state.DETECTION + change.THRESHOLD] = parameters.get("threshold", 0.0)
    floats[state.DETECTION + change.SAMPLES] = parameters.get("samples", 0)


# What a state holds from the beginning, and what it has gathered.
_GIVEN = ("flips", "first_node", "last_node", "node_means", "node_feedbacks", "lows", "rates", "plan", "boxes", "own")
_TOURNAMENT = ("winners", "values", "anchors", "bounds", "slopes")
_GATHERED = ("counts", "sums", "since", "last", "ring_arms", "ring_feedbacks", *_TOURNAMENT)


def _relaid(ints: Ints, floats: Floats, layout: Layout, sections: Sequence[str]) -> tuple[Ints, Floats]:
    """Return copies of the arrays in another layout, with the heads and the sections named."""
    new_ints, new_floats = layout.arrays()
    new_ints[len(layout) + 1 : state.INT_HEAD] = ints[len(layout) + 1 : state.INT_HEAD]
    new_floats[: state.FLOAT_HEAD] = floats[: state.FLOAT_HEAD]
    old, new = state.views(ints, floats), state.views(new_ints, new_floats)
    for section in sections:
        getattr(new, section)[:] = getattr(old, section)
    new.memo_keys[:] = -1
    return new_ints, new_floats


def layout_of(ints: Ints) -> Layout:
    """Return the layout that the head tells."""
    places = (state.ARMS, state.RING, state.NODES, state.MEMO, state.BOX, state.PLAN, state.MIXED, state.OWN)
    return Layout(*(int(ints[place]) for place in places))


class Policy:
    """A policy at work: choose an arm, observe what came back, again and again.

    Made by ``make_policy``; nothing but masked feedback ever enters it, but for two that are there for comparison: see
    ``observe``.
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, Any],
        ints: Ints,
        floats: Floats,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.name = name
        self.parameters = dict(parameters)
        self.arms = int(ints[state.ARMS])
        self._ints = ints
        self._floats = floats
        self._random = recipe(name).random
        self._sees_corruption = recipe(name).sees_corruption
        self._alone = bool(recipe(name).own)
        self._rng = rng or np.random.default_rng()

    def __repr__(self) -> str:
        settings = "".join(f", {key}={value!r}" for key, value in self.parameters.items())
        return f"<{self.name}, arms={self.arms}{settings}, {self.observations} observations>"

    @property
    def observations(self) -> int:
        """How many observations it has taken in."""
        return int(self._ints[state.TIME])

    def choose(self, rng: np.random.Generator | None = None) -> int:
        """Return the arm to pull next.

        Asked again without observing, a policy gives the same answer, unless it draws lots: then it draws again, from
        the generator given, or else from one of its own, so that a play can be repeated exactly.
        """
        if self._alone:
            return core_own.decide_packed(self._ints, self._floats, rng or self._rng)
        if self._random:
            return policy.decide_packed(self._ints, self._floats, rng or self._rng)
        return policy.choose_packed(self._ints, self._floats)

    def observe(
        self,
        arm: int,
        feedback: float,
        corruption: Corruption | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        """Take in the masked feedback, a number in [0, 1], that came back for an arm.

        A report may come with a corruption of its own, such as another epsilon; it has to be a RandomizedResponse. Two
        policies, ``ldp-ucb-l`` and ``dp-ucb``, are given the reward itself instead, and mask it with noise from the
        generator given, or else from one of their own.
        """
        if type(arm) is not int or type(feedback) not in (int, float):  # the usual kinds need no second look
            arm, feedback = _plain_numbers(arm, feedback)
        place = arm
        if not 0 <= place < self.arms:
            raise ValueError(f"arm {arm} does not exist: arms are numbered 0 to {self.arms - 1}")
        value = float(feedback)
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"feedback {feedback} is out of range: give a number in [0, 1]")
        if self._alone:
            self._refuse_own(corruption)
            core_own.observe_packed(self._ints, self._floats, place, value, rng or self._rng)
        elif (corruption is not None and self._sees_corruption) or self._ints[state.MIXED]:
            self._observe_own(place, value, corruption)
        else:
            policy.observe_packed(self._ints, self._floats, place, value)

    def _refuse_own(self, corruption: Corruption | None) -> None:
        if corruption is not None:
            raise ValueError(f"{self.name} takes no corruption of a report's own: give the feedback alone")

    def _observe_own(self, arm: int, feedback: float, corruption: Corruption | None) -> None:
        """Take in a feedback that has a corruption of its own."""
        view = state.views(self._ints, self._floats)
        line = getattr(corruption, "polyline", None)
        if corruption is not None and (line is None or line.means.size != 2):
            raise ValueError("corruption of a report is not affine: give a RandomizedResponse")
        if not self._ints[state.MIXED]:
            self._begin_mixing()
            view = state.views(self._ints, self._floats)
        honest = 1.0 - self.contamination
        arms_own = float(view.lows[arm] / honest), float(1.0 / (view.rates[arm] * honest))
        flipped, low, span = bool(view.flips[arm]), *arms_own
        if line is not None:
            flipped, low, span = line.flipped, float(line.feedbacks[0]), float(line.feedbacks[1] - line.feedbacks[0])
        value = 1.0 - feedback if flipped else feedback
        shown = _masked_on(value, (low, span), arms_own)
        policy.observe_own_packed(self._ints, self._floats, arm, value, honest * low, honest * span, shown)

    def _begin_mixing(self) -> None:
        """Make room for the corruption of every observation; those so far had the arm's own."""
        view = state.views(self._ints, self._floats)
        if np.any(view.last_node - view.first_node > 1):
            raise ValueError(
                "reports with a corruption of their own need arms with a RandomizedResponse, not a Monotone"
            )
        self._ints[state.SETTLED] = 0
        layout = layout_of(self._ints)._replace(mixed=1)
        ints, floats = _relaid(self._ints, self._floats, layout, _GIVEN + _GATHERED)
        new = state.views(ints, floats)
        new.low_sums[:] = new.lows * new.counts
        new.span_sums[:] = new.counts / new.rates
        if layout.ring:
            new.ring_lows[:] = new.lows[new.ring_arms]
            new.ring_spans[:] = 1.0 / new.rates[new.ring_arms]
        self._ints, self._floats = ints, floats

    def indices(self) -> Floats:
        """Return what is compared to choose, one number per arm: not clipped, infinite for an arm not remembered."""
        out = np.empty(self.arms)
        write = core_own.scores_packed if self._alone else policy.scores_packed
        write(self._ints, self._floats, out)
        return out

    @property
    def contamination(self) -> float:
        """The share of reports that may be lies."""
        return float(self.parameters.get("contamination", 0.0))

    def estimates(self) -> Floats:
        """Return the estimated mean reward of every arm, clipped to [0, 1]; NaN for an arm not remembered.

        Where reports may be lies, the middle of what the mean may be.
        """
        view = state.views(self._ints, self._floats)
        return np.array(
            [
                _mean_of(view, arm, view.sums[arm] / view.counts[arm] - 0.5 * self.contamination)
                if view.counts[arm] > 0.0
                else math.nan
                for arm in range(self.arms)
            ]
        )

    def intervals(self, delta: float = 0.05) -> Floats:
        """Return for every arm a lower and an upper confidence bound of its mean reward, (K, 2), clipped to [0, 1].

        The bounds of an arm hold at all times together but for a probability of delta, if the arm's mean stays and
        everything is remembered; with a window, a discount or restarts, at every single time. They hold whatever the
        share of ``contamination`` says.
        """
        view = self._masked_only(delta)
        rows = []
        for arm in range(self.arms):
            low, high = confidence.interval(*_remembered(view, arm), delta)
            ends = _mean_of(view, arm, low - self.contamination), _mean_of(view, arm, high)
            rows.append(ends if view.counts[arm] > 0.0 else (0.0, 1.0))
        return np.array(rows)

    def alarm(self, delta: float = 0.001) -> NDArray[np.bool_]:
        """Tell of which arms the feedback lies outside what honest reports can give, such as [1-p, p].

        Without liars, none is told of with a probability of at least 1 - delta: at all times together if everything
        is remembered, at every single time with a window, a discount or restarts. With ``contamination``, what so many
        liars can do is no cause for alarm.
        """
        view = self._masked_only(delta)
        told = np.zeros(self.arms, dtype=np.bool_)
        for arm in range(self.arms):
            (count, total), (low, span) = _remembered(view, arm), _line(view, arm)
            above = confidence.evidence_above(count, total, low + span + self.contamination)
            told[arm] = max(above, confidence.evidence_below(count, total, low)) >= math.log(2.0 * self.arms / delta)
        return told

    def _masked_only(self, delta: float) -> State:
        """Return the views, if what is remembered is masked feedback and the probability is one."""
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta = {delta!r}: give a probability above 0 and below 1")
        if recipe(self.name).sees_rewards:
            raise ValueError(f"{self.name} keeps noisy rewards, no masked feedback: ask a policy that is shown reports")
        return state.views(self._ints, self._floats)

    @property
    def restarts(self) -> int:
        """How often a detector has sounded the alarm."""
        return int(self._ints[state.ALARMS])

    def save(self, path: str | Path) -> None:
        """Write everything down: the copy that load_policy returns goes on exactly as this one would."""
        about = {
            "format": FORMAT,
            "name": self.name,
            "parameters": self.parameters,
            "generator": self._rng.bit_generator.state if self._random else None,
        }
        target = Path(path)
        draft = target.with_name(target.name + ".part")
        try:
            with draft.open("wb") as file:  # an open file, so that numpy adds no ending to the name
                np.savez_compressed(file, about=np.array(json.dumps(about)), ints=self._ints, floats=self._floats)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)

    def for_simulation(self, horizon: int, memo: int) -> tuple[Ints, Floats]:
        """Return the arrays of a fresh policy of this kind, with no window longer than the horizon."""
        layout = layout_of(self._ints)._replace(memo=memo, mixed=0)
        endless = self._ints[state.WINDOW] >= horizon
        ints, floats = _relaid(self._ints, self._floats, layout._replace(ring=0) if endless else layout, _GIVEN)
        if endless:
            ints[state.WINDOW] = state.FOREVER
        start(ints, floats)
        return ints, floats


def _plain_numbers(arm: Any, feedback: Any) -> tuple[int, float]:
    """Return an arm and a feedback of whatever kind of number as plain ones; text and truth values are no arms."""
    if isinstance(arm, (bool, np.bool_)) or not isinstance(arm, SupportsIndex):
        raise ValueError(f"arm {arm!r} is not a whole number: arms are numbered from 0")
    if not isinstance(feedback, (Real, np.bool_)):
        raise ValueError(f"feedback {feedback!r} is not a number: give one in [0, 1]")
    return operator.index(arm), float(feedback)


def _masked_on(feedback: float, own: tuple[float, float], arms: tuple[float, float]) -> float:
    """Return what a report shows on average if it is masked on, from a corruption of its own up to the arm's.

    So a detector sees one mean, whatever corruption reports come with. NaN for a report that says less than one under
    the arm's corruption would: it cannot be masked less, and shows the detector nothing.
    """
    share = arms[1] / own[1]
    lowest = arms[0] - share * own[0]
    if lowest < -1e-12 or lowest + share > 1.0 + 1e-12:
        return math.nan
    return min(max(lowest + share * feedback, 0.0), 1.0)


def _remembered(view: State, arm: int) -> tuple[float, float]:
    """Return how many feedbacks count and their sum, between 0 and as many; weights are 1 but under a discount."""
    weight = view.real[state.WEIGHT] if view.head[state.MEMORY] == memory.DISCOUNTED else 1.0
    count = float(view.counts[arm] / weight)
    return count, min(max(float(view.sums[arm] / weight), 0.0), count)


def _line(view: State, arm: int) -> tuple[float, float]:
    """Return the feedback mean of the mean 0, and by how much it rises up to 1."""
    if view.low_sums.size and view.counts[arm] > 0.0:
        return float(view.low_sums[arm] / view.counts[arm]), float(view.span_sums[arm] / view.counts[arm])
    return float(view.lows[arm]), float(1.0 / view.rates[arm])


def _mean_of(view: State, arm: int, feedback_mean: float) -> float:
    """Return the mean that gives this feedback mean, clipped to [0, 1]."""
    if view.low_sums.size:
        low, span = _line(view, arm)
        return float(np.clip((feedback_mean - low) / span, 0.0, 1.0))
    first, last = view.first_node[arm], view.last_node[arm] + 1
    return float(np.interp(feedback_mean, view.node_feedbacks[first:last], view.node_means[first:last]))
