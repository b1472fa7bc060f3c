"""The class of Gymnasium environments; apart from ``environment``, because it imports Gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Discrete

from maskedbandits.errors import UserError, check_int
from maskedbandits.problems import Problem

OBSERVATION = 0  # always: a bandit has one state
BUILDER = "maskedbandits.simulation.environment:environment"  # builds another one, for spec.make()


class BanditEnvironment(gymnasium.Env[Any, Any]):
    """A problem as a Gymnasium environment; ``environment`` builds it.

    Parameters
    ----------
    problem : Problem
        The problem that is played.

    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.action_space = Discrete(problem.arms)
        self.observation_space = Discrete(1)
        self.spec = EnvSpec("maskedbandits/Bandit-v0", BUILDER, kwargs={"problem": problem})
        self._rows = problem.rows(masked=True)
        self._step = problem.horizon  # there is no episode before the first reset
        self._row = 0

    def __repr__(self) -> str:
        return f"<BanditEnvironment: {self.problem!r}>"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Begin an episode.

        Parameters
        ----------
        seed : int, optional
            Seed of the feedback. By default random numbers go on from the last episode.
        options : dict, optional
            Not used.

        Returns
        -------
        observation : int
            Always 0.
        info : dict
            The number of steps played, ``"step"``.

        """
        super().reset(seed=None if seed is None else check_int("seed", seed, 0), options=options)
        self._step = self._row = 0
        return OBSERVATION, {"step": 0}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Pull an arm.

        Parameters
        ----------
        action : int
            The arm.

        Returns
        -------
        observation : int
            Always 0.
        reward : float
            The masked feedback.
        terminated : bool
            Always False.
        truncated : bool
            Whether this was the last step before the horizon.
        info : dict
            The number of steps played, ``"step"``, and for evaluation the cost of this pull, ``"pseudo_regret"``.

        Raises
        ------
        UserError
            If the arm does not exist, or no episode has begun.

        """
        arm = check_int("action", action, 0, self.problem.arms - 1)
        if self._step == self.problem.horizon:
            raise UserError("step: no episode has begun, or the last has ended: call reset() first")
        rows = self._rows
        self._row += int(self._step == rows.starts[self._row + 1])
        self._step += 1
        feedback = self.problem.feedback(self.np_random, arm, float(rows.seen[self._row, arm]))
        info = {"step": self._step, "pseudo_regret": float(rows.lost[self._row, arm])}
        return OBSERVATION, feedback, False, self._step == self.problem.horizon, info
