"""Corruption functions: they link the mean of a reward to the mean of its masked feedback.

Randomised response flips bits. It reports a reward 0 truthfully with probability p00 and a reward 1 with p11, so
``g(m) = 1 - p00 + (p00 + p11 - 1) m``. ``Monotone`` takes any continuous, strictly monotone g on [0, 1]. Outside [0, 1]
every g continues as a straight line with its secant slope g(1) - g(0).

The classes here describe masks for simulations and policies. They do not protect real data.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from maskedbandits import _validation
from maskedbandits.errors import UserError, abbreviate, check_number

Floats = NDArray[np.float64]


class Polyline(NamedTuple):
    """An increasing g for the compiled code: nodes, and whether the feedback is flipped to make it increase."""

    means: Floats
    feedbacks: Floats
    flipped: bool


@runtime_checkable
class Corruption(Protocol):
    """The interface of corruption functions for policies and problems."""

    @property
    def increasing(self) -> bool:
        """Tell whether a higher mean gives a higher feedback mean."""

    @property
    def polyline(self) -> Polyline:
        """Return the function as data."""

    def __call__(self, mean: float) -> float:
        """Return the mean feedback for a mean reward."""

    def inverse(self, feedback_mean: float) -> float:
        """Return the mean reward for a mean feedback."""


def expand_per_arm(corruption: Corruption | Sequence[Corruption], arms: int) -> tuple[Corruption, ...]:
    """Return one corruption for every arm, from one for all or one for each."""
    if type(corruption) is not tuple and _is_corruption(corruption):
        return (cast(Corruption, corruption),) * arms
    # Reports are tuples, too, but they have a corruption.
    several = isinstance(corruption, Sequence) and not hasattr(type(corruption), "corruption")
    each: tuple[Any, ...] = tuple(cast(Any, corruption)) if several else (corruption,) * arms
    if len(each) != arms:
        raise UserError(f"{len(each)} corruptions for {arms} arms: give one for all, or one for each")
    for arm, one in enumerate(each):
        if not _is_corruption(one):
            raise UserError(f"corruption of arm {arm} is {abbreviate(one)}: give {_suggest(one)}")
    return each


def _is_corruption(one: object) -> bool:
    """Tell whether this is a corruption; built-in classes come first, because protocol checks are slow."""
    return isinstance(one, (RandomizedResponse, Monotone, Corruption))


def _suggest(one: object) -> str:
    """Suggest a replacement for a value that is not a corruption; randomisers and reports have one."""
    if hasattr(type(one), "corruption"):
        return f"{type(one).__name__.lower()}.corruption for its mechanism"
    return "a RandomizedResponse, a Monotone, a GaussianNoise or a LaplaceNoise"


@dataclass(frozen=True)
class RandomizedResponse:
    """Randomised response: report a 0 truthfully with probability p00, and a 1 with probability p11.

    Parameters
    ----------
    p00 : float
        Probability that a reward 0 is reported as 0.
    p11 : float
        Probability that a reward 1 is reported as 1.

    Raises
    ------
    UserError
        If a probability is not in [0, 1].
    ValueError
        If p00 + p11 = 1, because feedback is then independent of the reward.

    Examples
    --------
    >>> response = RandomizedResponse(0.75, 0.75)
    >>> response(1.0), response.slope
    (0.75, 0.5)
    >>> response.inverse(0.5)
    0.5

    """

    p00: float
    p11: float

    def __post_init__(self) -> None:
        for name in ("p00", "p11"):
            object.__setattr__(self, name, check_number(name, getattr(self, name), 0.0, 1.0))
        if abs(self.slope) < 1e-12:  # 0 but for rounding
            raise ValueError(
                f"p00 + p11 = 1 (p00 = {self.p00}, p11 = {self.p11}) makes feedback independent of the reward: "
                "change either of them"
            )

    @classmethod
    def from_epsilon(cls, epsilon: float) -> "RandomizedResponse":
        """Return the most informative response that is epsilon-locally differentially private.

        This is Eq. (DPmatrix) of the paper: p00 = p11 = e^epsilon / (1 + e^epsilon).

        Parameters
        ----------
        epsilon : float
            Privacy loss of one report, above 0; infinity reports the reward itself.

        Returns
        -------
        RandomizedResponse
            The response.

        Raises
        ------
        ValueError
            If epsilon is not above 0, or too small to leave any information.

        Examples
        --------
        >>> round(RandomizedResponse.from_epsilon(1.0).p11, 4)
        0.7311

        """
        epsilon = check_number("epsilon", epsilon, 0.0, above=True, infinite=True)
        truth = 1.0 / (1.0 + math.exp(-epsilon))
        if truth == 0.5:
            raise ValueError(f"epsilon = {epsilon} is too small, feedback would be pure noise: give a larger one")
        return cls(truth, truth)

    @property
    def slope(self) -> float:
        """Share of a difference of means that is left in the feedback: p00 + p11 - 1."""
        return self.p11 - (1.0 - self.p00)

    @property
    def epsilon(self) -> float:
        """Privacy loss of one report: the largest log-ratio of its probabilities under the two rewards."""
        ratios = [(self.p00, 1.0 - self.p11), (self.p11, 1.0 - self.p00)]
        return max(_compute_log_ratio(a, b) for a, b in ratios)

    @property
    def increasing(self) -> bool:
        """Tell whether a higher mean gives a higher feedback mean."""
        return self.slope > 0.0

    @property
    def polyline(self) -> Polyline:
        """Return the function as data: two nodes are exact."""
        flipped = not self.increasing
        ends = [self.p00, 1.0 - self.p11] if flipped else [1.0 - self.p00, self.p11]
        return Polyline(np.array([0.0, 1.0]), np.array(ends), flipped)

    def __call__(self, mean: float) -> float:
        """Return the mean feedback for a mean reward.

        Parameters
        ----------
        mean : float
            Mean reward.

        Returns
        -------
        float
            Mean feedback, g(mean).

        """
        return 1.0 - self.p00 + self.slope * mean

    def inverse(self, feedback_mean: float) -> float:
        """Return the mean reward for a mean feedback.

        Parameters
        ----------
        feedback_mean : float
            Mean feedback.

        Returns
        -------
        float
            Mean reward. It is not clipped to [0, 1].

        """
        return (feedback_mean - (1.0 - self.p00)) / self.slope


def _compute_log_ratio(a: float, b: float) -> float:
    """Return the absolute log-ratio of two probabilities."""
    if a == b:
        return 0.0
    return abs(math.log(a) - math.log(b)) if a > 0.0 and b > 0.0 else math.inf


@dataclass(frozen=True, repr=False)
class Population:
    """People who each choose their own randomised response, such as their own epsilon.

    In a simulation each report has the mask of a random person. A policy that takes masks of single reports is given
    it; for others the population is the ``average`` response, which has the same distribution of reports.

    Parameters
    ----------
    responses : sequence of RandomizedResponse
        The randomised responses that people have chosen.
    shares : sequence of float, optional
        Share of people with each of them. By default they are equally frequent.

    Attributes
    ----------
    average : RandomizedResponse
        The response of a random person.

    Raises
    ------
    UserError
        If a response or a share is missing or out of range.
    ValueError
        If the average response is independent of the reward.

    Examples
    --------
    >>> people = Population.from_epsilons([0.5, 4.0], shares=[0.75, 0.25])
    >>> round(people.average.p11, 4)
    0.7123

    """

    responses: tuple[RandomizedResponse, ...]
    shares: tuple[float, ...]
    average: RandomizedResponse = field(init=False, repr=False, compare=False)

    def __init__(self, responses: Sequence[RandomizedResponse], shares: Sequence[float] | None = None) -> None:
        each: tuple[Any, ...] = tuple(responses) if isinstance(responses, Sequence) else (responses,)
        for one in each:
            if type(one) is not RandomizedResponse:
                raise UserError(f"responses: {abbreviate(one)} is not a RandomizedResponse: give one for each choice")
        if not each:
            raise UserError("responses is empty: give at least one RandomizedResponse")
        parts = _validation.check_parts_of_one(
            "shares", [1.0 / len(each)] * len(each) if shares is None else shares, len(each), "response"
        )
        object.__setattr__(self, "responses", each)
        if shares is not None and abs(math.fsum(shares) - 1.0) <= SUM_ROUNDING:
            parts = np.asarray(shares, dtype=np.float64)  # exactly as given, so that they survive being written
        object.__setattr__(self, "shares", tuple(parts.tolist()))
        p00, p11 = (
            math.fsum(share * getattr(one, key) for share, one in zip(self.shares, each, strict=True))
            for key in ("p00", "p11")
        )
        object.__setattr__(self, "average", RandomizedResponse(min(p00, 1.0), min(p11, 1.0)))

    @classmethod
    def from_epsilons(cls, epsilons: Sequence[float], shares: Sequence[float] | None = None) -> "Population":
        """Return people who choose between these epsilons.

        Parameters
        ----------
        epsilons : sequence of float
            The epsilons, above 0; infinity reports the reward itself.
        shares : sequence of float, optional
            Share of people with each of them. By default they are equally frequent.

        Returns
        -------
        Population
            The population.

        Examples
        --------
        >>> len(Population.from_epsilons([0.5, 1.0, 2.0]).responses)
        3

        """
        given: Any = epsilons
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise UserError(f"epsilons = {abbreviate(given)}: give a list, an epsilon for each choice")
        return cls([RandomizedResponse.from_epsilon(epsilon) for epsilon in given], shares)

    def __repr__(self) -> str:
        each = ", ".join(
            f"{share:.3g} of people at epsilon {one.epsilon:.4g}"
            for share, one in zip(self.shares[:MAX_SHOWN], self.responses, strict=False)
        )
        more = len(self.shares) - MAX_SHOWN
        return f"<Population: {each}{f', {more} more' if more > 0 else ''}>"

    @property
    def increasing(self) -> bool:
        """Tell whether a higher mean gives a higher feedback mean."""
        return self.average.increasing

    @property
    def polyline(self) -> Polyline:
        """Return the average response as data."""
        return self.average.polyline

    def draw(self, generator: np.random.Generator) -> RandomizedResponse:
        """Draw the response of a person.

        Parameters
        ----------
        generator : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        RandomizedResponse
            The response.

        """
        place = int(np.searchsorted(np.cumsum(self.shares), generator.random(), side="right"))
        return self.responses[min(place, len(self.responses) - 1)]

    def __call__(self, mean: float) -> float:
        """Return the mean feedback for a mean reward.

        Parameters
        ----------
        mean : float
            Mean reward.

        Returns
        -------
        float
            Mean feedback of a random person.

        """
        return self.average(mean)

    def inverse(self, feedback_mean: float) -> float:
        """Return the mean reward for a mean feedback.

        Parameters
        ----------
        feedback_mean : float
            Mean feedback.

        Returns
        -------
        float
            Mean reward. It is not clipped to [0, 1].

        """
        return self.average.inverse(feedback_mean)


MAX_SHOWN = 4  # choices of a population in its short form
SUM_ROUNDING = 1e-15  # by which shares may miss 1 and are used as they are
ROUNDINGS = 4.0  # units of the last digit by which equal values of g may differ
IDENTITY = RandomizedResponse(1.0, 1.0)


class Monotone:
    """Any continuous, strictly monotone function g from [0, 1] to [0, 1], increasing or decreasing.

    Compiled code uses a polyline through g. Its error and that of its inverse are measured, and below 1e-9.

    Parameters
    ----------
    g : callable
        The function from mean reward to mean feedback.
    inverse : callable, optional
        The inverse of g. By default it is computed by bisection.

    Attributes
    ----------
    increasing : bool
        Whether g increases.
    polyline : Polyline
        The nodes for compiled code.
    error : float
        Measured error of the polyline.

    Raises
    ------
    ValueError
        If g leaves [0, 1], is not strictly monotone, is not continuous, or the inverse is not that of g.

    Examples
    --------
    >>> square = Monotone(lambda mean: mean * mean)
    >>> square(0.5), round(square.inverse(0.25), 9)
    (0.25, 0.5)

    """

    TOLERANCE = 1e-9
    MAX_NODES = 1 << 18

    def __init__(self, g: Callable[[float], float], inverse: Callable[[float], float] | None = None) -> None:
        self._g = g
        self._inverse = inverse
        self.increasing = self._at(1.0) > self._at(0.0)
        means, values = _refine(self._at, self.increasing, self.TOLERANCE / 2, self.MAX_NODES)
        feedbacks = values if self.increasing else 1.0 - values
        self.polyline = Polyline(means, feedbacks, not self.increasing)
        self._ends = (float(values[0]), float(values[-1]))
        self.error = self._measure_error()
        if self.error > self.TOLERANCE:
            raise ValueError(
                f"g cannot be approximated to less than {self.error:.1e}: give a continuous, strictly monotone "
                "function on [0, 1]"
            )

    def __repr__(self) -> str:
        name = getattr(self._g, "__name__", type(self._g).__name__)
        direction = "increasing" if self.increasing else "decreasing"
        return f"<Monotone: {name}, {direction} from {self(0.0):.4g} to {self(1.0):.4g}>"

    def _at(self, mean: float) -> float:
        """Return g at a mean, checked."""
        try:
            value = float(self._g(mean))
        except (TypeError, ValueError):
            raise ValueError(f"g({mean:.6g}) is not a number: g must map [0, 1] into [0, 1]") from None
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"g({mean:.6g}) = {value} is not in [0, 1]: g must map [0, 1] into [0, 1]")
        return value

    def __call__(self, mean: float) -> float:
        """Return the mean feedback for a mean reward.

        Parameters
        ----------
        mean : float
            Mean reward.

        Returns
        -------
        float
            Mean feedback, g(mean).

        """
        low, high = self._ends
        if mean < 0.0:
            return low + (high - low) * mean
        if mean > 1.0:
            return high + (high - low) * (mean - 1.0)
        return self._at(mean)

    def inverse(self, feedback_mean: float) -> float:
        """Return the mean reward for a mean feedback.

        Parameters
        ----------
        feedback_mean : float
            Mean feedback.

        Returns
        -------
        float
            Mean reward. It is not clipped to [0, 1].

        """
        low, high = self._ends
        share = (feedback_mean - low) / (high - low)
        if share <= 0.0:
            return share
        if share >= 1.0:
            return 1.0 + (feedback_mean - high) / (high - low)
        if self._inverse is not None:
            return float(self._inverse(feedback_mean))
        return self._solve(feedback_mean)

    def _solve(self, feedback_mean: float) -> float:
        """Bisect within the polyline's cell, to the last digit."""
        means, feedbacks, flipped = self.polyline
        target = 1.0 - feedback_mean if flipped else feedback_mean
        right = int(np.clip(np.searchsorted(feedbacks, target), 1, means.size - 1))
        low, high = float(means[right - 1]), float(means[right])
        while True:
            middle = 0.5 * (low + high)
            if not low < middle < high:
                return middle
            below = self._at(middle) < feedback_mean
            if below == self.increasing:
                low = middle
            else:
                high = middle

    def _measure_error(self) -> float:
        """Compare g, the given inverse and the polyline at points that the refinement did not use."""
        means, feedbacks, flipped = self.polyline
        cells = np.unique(np.linspace(0, means.size - 2, 4096).astype(np.int64))
        # Shares that are not dyadic, so the refinement has not used these points.
        shares = np.array([0.1458980337503155, 0.3819660112501051, 0.8541019662496845])
        points = (means[cells] + np.outer(shares, means[cells + 1] - means[cells])).ravel()
        values = np.array([self._at(float(point)) for point in points])
        seen = 1.0 - values if flipped else values
        followed = np.interp(points, means, feedbacks)
        returned = np.interp(seen, feedbacks, means)
        # Where g is so flat that rounding its value moves the mean, no inverse is closer.
        exact = np.abs(followed - seen) <= 4.0 * ROUNDINGS * np.spacing(values)
        error = np.abs(followed - seen).max()
        back = np.where(exact, 0.0, np.abs(returned - points)).max()
        if self._inverse is not None:
            given = np.array([float(self._inverse(float(value))) for value in values])
            worst = int(np.argmax(np.abs(given - points)))
            if not abs(given[worst] - points[worst]) <= self.TOLERANCE:
                raise ValueError(f"inverse(g({points[worst]:.6g})) = {given[worst]:.9g}: this is not the inverse of g")
        return float(max(error, back))


def _refine(g: Callable[[float], float], increasing: bool, tolerance: float, most: int) -> tuple[Floats, Floats]:
    """Halve the cells of a polyline until it follows g and its inverse within the tolerance everywhere."""
    means = np.linspace(0.0, 1.0, 65)
    values = np.array([g(float(mean)) for mean in means])
    rough = np.ones(means.size - 1, dtype=np.bool_)
    while True:
        _check_monotone(means, values, increasing)
        left = np.flatnonzero(rough)
        if left.size == 0:
            return means, values
        middles = 0.5 * (means[left] + means[left + 1])
        between = (means[left] < middles) & (middles < means[left + 1])
        if means.size + left.size > most or not np.all(between):
            where = means[left[np.argmin(means[left + 1] - means[left])]]
            raise ValueError(
                f"g cannot be approximated near {where:.6g}, where it jumps or is too steep or too flat: "
                "give a continuous, strictly monotone function"
            )
        at = np.array([g(float(middle)) for middle in middles])
        chord = 0.5 * (values[left] + values[left + 1])
        slope = np.abs(values[left + 1] - values[left]) / (means[left + 1] - means[left])
        miss = np.abs(at - chord)
        far = (np.maximum(miss, miss / np.minimum(slope, 1.0)) > tolerance) & (miss > ROUNDINGS * np.spacing(at))
        rough[left[~far]] = False
        after = left[far] + 1
        means = np.insert(means, after, middles[far])
        values = np.insert(values, after, at[far])
        rough = np.insert(rough, after, True)


def _check_monotone(means: Floats, values: Floats, increasing: bool) -> None:
    """Refuse a function that is not strictly monotone."""
    steps = np.diff(values) if increasing else -np.diff(values)
    if not np.all(steps > 0.0):
        worst = int(np.argmin(steps))
        raise ValueError(
            f"g is not strictly monotone: g({means[worst]}) = {values[worst]} and "
            f"g({means[worst + 1]}) = {values[worst + 1]}"
        )
