"""Problems: means that change abruptly or drift, masked by a corruption; given, recorded, or drawn from a seed."""

from maskedbandits.problems.contextual import ContextualProblem
from maskedbandits.problems.featured import FeaturedProblem
from maskedbandits.problems.generators import (
    GENERATORS,
    best_stays_best,
    linear,
    one_ahead,
    one_arm_at_a_time,
    random_segments,
    random_walk,
    sinusoid,
    some_arms_change,
)
from maskedbandits.problems.groups import GROUP_GENERATORS, independent_groups, similar_groups
from maskedbandits.problems.problem import Problem
from maskedbandits.problems.replay import Log, Replay
from maskedbandits.problems.rewards import Beta, Gaussian

__all__ = [
    "GENERATORS",
    "GROUP_GENERATORS",
    "Beta",
    "ContextualProblem",
    "FeaturedProblem",
    "Gaussian",
    "Log",
    "Problem",
    "Replay",
    "best_stays_best",
    "independent_groups",
    "linear",
    "one_ahead",
    "one_arm_at_a_time",
    "random_segments",
    "random_walk",
    "similar_groups",
    "sinusoid",
    "some_arms_change",
]
