"""Making a contextual policy: which groups, which kind of answers, whether groups are pooled."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits import _validation
from maskedbandits.contextual import masks
from maskedbandits.contextual.hierarchy import Grouping
from maskedbandits.contextual.policy import Contextual
from maskedbandits.errors import UserError, WrongValueError, check_int, shown
from maskedbandits.policies import check_policy, kind_of, make_policy
from maskedbandits.policies.index.restarts import times
from maskedbandits.privacy import Partition
from maskedbandits.privacy.exact import Number

MOST_GROUPS = 1 << 12

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
    """Return a contextual policy that has seen nothing: a policy of this name for every group.

    Shares are how many of the visitors belong to each group; without them all groups are taken for equally large, and
    answers of one of many tell what they are. ``answers`` are a "bit" or "one of many"; without it the kind is taken
    that needs fewer visitors. With ``pool`` some questions, or most, treat all groups as one, by how well that predicts
    what is answered, until they are seen to differ (``policies/grains.py``); without a word they are pooled where
    answers are bits, as one of many answers tells groups apart soon enough. A ``partition`` of features stands for as
    many groups as it has cells. If it is a tree, coarse cells decide until finer ones are seen to differ, and have
    learnt enough; with ``pool=False`` the finest decide from the beginning.

    A parameter that is a time, such as a window or a horizon, is counted in the answers that a group hears: in visitors
    where answers are bits and nothing is pooled, and else in fewer (``masks.named``; of those asked as one, the pool
    hears all and a group none). So restarts at given times are refused there.

    >>> question = make_contextual("klucb-cf", groups=2, arms=3, epsilon=1).ask()
    >>> question.table
    (0, 0)
    """
    exact, grouping, given = grouped(name, groups, partition, epsilon, shares, answers, pool)
    _refuse_another_mask(parameters)
    seen = grouping.masks
    seeds = np.random.SeedSequence(None if seed is None else check_int("seed", seed, 0)).generate_state(len(seen) + 1)
    each = [
        make_policy(name, arms=arms, corruption=mask, seed=int(own), **parameters)
        for mask, own in zip(seen, seeds[1:], strict=True)
    ]
    _refuse_visitors_times(grouping, each[0].parameters)
    return Contextual(each, exact, grouping, given, None if seed is None else np.random.default_rng(int(seeds[0])))


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
    """Return the kind of answers of a contextual policy, all that it is given checked, without making one."""
    _, grouping, _ = grouped(name, groups, None, epsilon, shares, answers, pool)
    _refuse_another_mask(parameters)
    for mask in dict.fromkeys(grouping.masks):
        _refuse_visitors_times(grouping, check_policy(name, arms=arms, corruption=mask, **parameters))
    return grouping.kinds[-1]


def grouped(
    name: str,
    groups: int | None,
    partition: Partition | None,
    epsilon: Number,
    shares: ArrayLike | None,
    answers: str | None,
    pool: bool | None,
) -> tuple[Fraction, Grouping, Floats | None]:
    """Return epsilon as it is kept, how groups are asked, and the shares if they are given; refuse what is none."""
    exact = masks.checked_epsilon(epsilon)
    many = _how_many(groups, partition)
    given = None if shares is None else _validation.parts_of_one("shares", shares, many)
    known = np.full(many, 1.0 / many) if given is None else given
    if not kind_of(name).sees_corruption or kind_of(name).sees_rewards:
        raise UserError(f"{name} does not learn through a mask: take one that does, such as auto or klucb-cf")
    masks.refuse_unknown(answers)
    if pool is not None and not (isinstance(pool, (int, np.bool_)) and pool in (True, False)):
        raise WrongValueError("pool", pool, "True, False, or nothing")
    if partition is not None and partition.depth > 0 and pool is not False:
        return exact, Grouping.of_tree(np.array(partition.parts), answers, float(exact), known), given
    return exact, Grouping.of_groups(answers, float(exact), known, pool), given


def _refuse_another_mask(parameters: Mapping[str, Any]) -> None:
    """Refuse a corruption: nobody has to say what follows from the rest."""
    if "corruption" in parameters:
        raise UserError("corruption: how each group sees answers follows from epsilon and the shares; leave it out")


def _refuse_visitors_times(grouping: Grouping, parameters: Mapping[str, Any]) -> None:
    """Refuse times of visitors to a policy that counts fewer of them."""
    if times(parameters) and not grouping.everybody_hears:
        raise UserError(
            f"restarts = {shown(parameters['restarts'])}: times are counted in the answers that a group hears, and "
            'here not every group hears every answer: give answers="bit" and pool=False'
        )


def _how_many(groups: int | None, partition: Partition | None) -> int:
    """Return the number of groups: as given, or of cells."""
    if (groups is None) == (partition is None):
        raise UserError("a contextual policy has groups, or a partition whose cells they are: give one of the two")
    if partition is None:
        return check_int("groups", groups, 1, MOST_GROUPS)
    if not isinstance(partition, Partition):
        raise WrongValueError("partition", partition, "a privacy.Partition")
    return partition.cells
