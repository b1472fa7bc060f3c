"""The Gymnasium environment of a problem, for learners that are written for Gymnasium."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maskedbandits._util.extras import GYM, require
from maskedbandits.errors import UserError, WrongValueError
from maskedbandits.problems import ContextualProblem, FeaturedProblem, Log, Problem

if TYPE_CHECKING:
    from maskedbandits.simulation.bandit_environment import BanditEnvironment


def environment(problem: Problem) -> BanditEnvironment:
    """Return the Gymnasium environment of a problem.

    An action is an arm, and the reward is the masked feedback of its pull. The observation is always 0: the number of
    steps would tell a learner of many episodes when the means change. An episode is truncated at the horizon. It needs
    the extra ``gym``.

    ``step`` puts two numbers into ``info``: ``"step"``, the number of steps played, and ``"pseudo_regret"``, the regret
    of this pull as ``simulate`` counts it. Use the second for evaluation only, because no decider knows it.

    Parameters
    ----------
    problem : Problem
        The problem: means that change, replayed rounds, liars, noise, and any corruption.

    Returns
    -------
    BanditEnvironment
        A ``gymnasium.Env`` with action space ``Discrete(K)`` and observation space ``Discrete(1)``.

    Raises
    ------
    UserError
        If Gymnasium is not installed, or the problem has groups or features, or is a log.

    Examples
    --------
    >>> import maskedbandits as mb
    >>> problem = mb.Problem([[0.9, 0.4], [0.4, 0.9]], [0, 500], 1000, mb.RandomizedResponse(0.75, 0.75))
    >>> env = mb.environment(problem)
    >>> env.reset(seed=1)
    (0, {'step': 0})
    >>> observation, feedback, terminated, truncated, info = env.step(1)
    >>> feedback in (0.0, 1.0), truncated, info
    (True, False, {'step': 1, 'pseudo_regret': 0.5})

    """
    _check_problem(problem)
    require("environment", GYM, "gym")
    from maskedbandits.simulation.bandit_environment import BanditEnvironment

    return BanditEnvironment(problem)


def _check_problem(problem: object) -> None:
    """Refuse anything but a problem in which every pull of an arm has feedback."""
    if isinstance(problem, ContextualProblem):
        raise UserError(
            "environment: a problem with groups is played by policies of make_contextual; "
            "give problem.average_groups() to play one arm for all visitors"
        )
    if isinstance(problem, FeaturedProblem):
        raise UserError(
            "environment: a problem with features is played by policies of make_featured; give a Problem without"
        )
    if isinstance(problem, Log):
        raise UserError(
            "environment: a log has the reward of one arm in each row, and no feedback for another; "
            "give problem.as_played(), a Problem with the means of the log"
        )
    if not isinstance(problem, Problem):
        raise WrongValueError("problem", problem, "a Problem")
