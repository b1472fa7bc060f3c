"""The factory of contextual policies: groups, kinds of answers, and pooling."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits import _validation
from maskedbandits._numba.jit import INTERPRETED
from maskedbandits.contextual import masks
from maskedbandits.contextual.hierarchy import Grouping
from maskedbandits.contextual.policy import Contextual
from maskedbandits.errors import UserError, WrongValueError, abbreviate, check_int
from maskedbandits.policies import check_policy, kind_of, make_policy
from maskedbandits.policies.groups import NO_LEVELS, Groups, advance_groups
from maskedbandits.policies.kernels import Tally, World
from maskedbandits.policies.registry import Kind
from maskedbandits.policies.restarts.planned import restart_times
from maskedbandits.policies.runtime import get_entries
from maskedbandits.privacy import Partition
from maskedbandits.privacy.exact import Number

MAX_GROUPS = 1 << 12

Floats = NDArray[np.float64]


def make_contextual(
    name: str,
    *,
    groups: int | None = None,
    partition: Partition | None = None,
    arms: int,
    epsilon: Number,
    shares: ArrayLike | None = None,
    answers: str | None = None,
    pool: bool | None = None,
    seed: int | None = None,
    **parameters: Any,
) -> Contextual:
    """Return a new contextual policy, with one policy of the given name for every group.

    Parameters
    ----------
    name : str
        Name of a policy that learns from masked feedback, such as ``"auto"`` or ``"klucb-cf"``.
    groups : int, optional
        Number of groups. Give either ``groups`` or ``partition``.
    partition : Partition, optional
        A partition of features, whose cells are the groups. In a tree, coarse cells decide until finer cells are seen
        to differ and have learned enough. With ``pool=False`` the finest decide from the beginning.
    arms : int
        Number of arms.
    epsilon : float, str or Fraction
        The privacy loss of an answer.
    shares : array_like of float, optional
        The share of visitors in each group, summing to 1. By default all groups are presumed equally large, and
        one-of-many answers reveal the shares.
    answers : {"bit", "one of many"}, optional
        The kind of answer. By default the one that needs fewer visitors.
    pool : bool, optional
        Whether questions may treat all groups as one, as long as that predicts answers well (``policies/groups.py``).
        By default yes if answers are bits, because one-of-many answers tell groups apart soon enough.
    seed : int, optional
        The seed of all random numbers, signs included. By default they come from the operating system.
    **parameters
        Parameters of the policies, as for `make_policy`. Times, such as a window or a horizon, are counted in the
        answers that a group learns from. These are all visitors if answers are bits and nothing is pooled, and fewer
        otherwise. So ``restarts`` at given times are refused otherwise.

    Returns
    -------
    Contextual
        The policy.

    Raises
    ------
    UserError
        If a value is out of range, or the policy cannot learn through a mask.

    Examples
    --------
    >>> question = make_contextual("klucb-cf", groups=2, arms=3, epsilon=1).ask()
    >>> question.table
    (0, 0)

    """
    exact, grouping, known_shares = build_grouping(name, groups, partition, epsilon, shares, answers, pool)
    _refuse_another_mask(parameters)
    seen = grouping.masks
    seeds = np.random.SeedSequence(None if seed is None else check_int("seed", seed, 0)).generate_state(len(seen) + 1)
    each = [
        make_policy(name, arms=arms, corruption=mask, seed=int(own), **parameters)
        for mask, own in zip(seen, seeds[1:], strict=True)
    ]
    _refuse_visitors_times(grouping, each[0].parameters)
    signs = None if seed is None else np.random.default_rng(int(seeds[0]))
    return Contextual(each, exact, grouping, known_shares, signs)


def check_contextual(
    name: str,
    *,
    groups: int,
    arms: int,
    epsilon: Number,
    shares: ArrayLike | None = None,
    answers: str | None = None,
    pool: bool | None = None,
    **parameters: Any,
) -> str:
    """Check the arguments of `make_contextual` without building a policy.

    Parameters
    ----------
    name, groups, arms, epsilon, shares, answers, pool, **parameters
        As for `make_contextual`.

    Returns
    -------
    str
        The kind of answer: ``"bit"`` or ``"one of many"``.

    Raises
    ------
    UserError
        If `make_contextual` would raise one.

    Examples
    --------
    >>> check_contextual("auto", groups=5, arms=3, epsilon=1)
    'bit'
    >>> check_contextual("auto", groups=5, arms=3, epsilon=4)
    'one of many'

    """
    _, grouping, _ = build_grouping(name, groups, None, epsilon, shares, answers, pool)
    _refuse_another_mask(parameters)
    for mask in dict.fromkeys(grouping.masks):
        _refuse_visitors_times(grouping, check_policy(name, arms=arms, corruption=mask, **parameters))
    return grouping.kinds[-1]


def build_grouping(
    name: str,
    groups: int | None,
    partition: Partition | None,
    epsilon: Number,
    shares: ArrayLike | None,
    answers: str | None,
    pool: bool | None,
) -> tuple[Fraction, Grouping, Floats | None]:
    """Return the exact epsilon, the levels, and the shares if they are given; refuse invalid arguments."""
    exact = masks.check_epsilon(epsilon)
    many = _group_count(groups, partition)
    known_shares = None if shares is None else _validation.check_parts_of_one("shares", shares, many)
    presumed = np.full(many, 1.0 / many) if known_shares is None else known_shares
    if not kind_of(name).sees_corruption or kind_of(name).sees_rewards:
        raise UserError(f"{name} does not learn from masked feedback: use one that does, such as auto or klucb-cf")
    masks.check_kind(answers)
    if pool is not None and not (isinstance(pool, (int, np.bool_)) and pool in (True, False)):
        raise WrongValueError("pool", pool, "True, False, or nothing")
    if partition is not None and partition.depth > 0 and pool is not False:
        return exact, Grouping.of_tree(np.array(partition.parts), answers, float(exact), presumed), known_shares
    return exact, Grouping.of_groups(answers, float(exact), presumed, pool), known_shares


def _refuse_another_mask(parameters: Mapping[str, Any]) -> None:
    """Refuse a corruption: it follows from the other arguments."""
    if "corruption" in parameters:
        raise UserError("corruption follows from epsilon and the shares: leave it out")


def _refuse_visitors_times(grouping: Grouping, parameters: Mapping[str, Any]) -> None:
    """Refuse times in visitors if the policies of groups count fewer of them."""
    if restart_times(parameters) and not grouping.all_learn:
        raise UserError(
            f"restarts = {abbreviate(parameters['restarts'])}: times are counted in the answers that a group hears, "
            'and here not every group hears every answer: give answers="bit" and pool=False'
        )


def _group_count(groups: int | None, partition: Partition | None) -> int:
    """Return the number of groups, or of cells."""
    if (groups is None) == (partition is None):
        raise UserError("a contextual policy requires either groups or a partition: give one of them")
    if partition is None:
        return check_int("groups", groups, 1, MAX_GROUPS)
    if not isinstance(partition, Partition):
        raise WrongValueError("partition", partition, "a privacy.Partition")
    return partition.cells


def compile_groups(kind: Kind) -> None:
    """Compile the code that asks groups with a kind of policy, and that simulates it on problems with groups."""
    if INTERPRETED:
        return
    layout, title = kind.layout, kind.name
    if kind.sees_corruption and not kind.sees_rewards:
        get_entries(layout, title, ".groups").load()
    times, zeros = np.zeros(1, dtype=np.int64), np.zeros(1)
    world = World(times, np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1), dtype=np.bool_))
    tally = Tally(times, zeros, zeros, times, times, times, times[None, :], times)
    groups = Groups(zeros, times, zeros, zeros[None, :])
    get_entries(layout, title).compile_simulator(advance_groups, world, times, tally, 0, groups, NO_LEVELS)
