"""A plan in words for a person, and as plain values for a program."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from maskedbandits._util import safe_text
from maskedbandits._util.safe_text import percent
from maskedbandits.experiments.canonical_json import plain
from maskedbandits.planner.costs import Level, Plan
from maskedbandits.planner.statistics import TRAFFIC, WON, Estimate
from maskedbandits.privacy.audit.text import align_columns

WIDEST = 100  # columns of a paragraph: longer lines are hard to read
HEADING = ("ε", "successes lost", "per 1,000", "by privacy", "of the gain", "follows after", "pays from")


def lines(plan: Plan, width: int = WIDEST, encoding: str = "utf-8") -> list[str]:
    """Return a plan for a person: a table, what its columns mean, what reports say, and the advice last."""
    narrow = min(width, WIDEST)

    def wrapped(text: str, hanging: int = 0) -> list[str]:
        told = safe_text.spelled(text, encoding)  # before, for it may become longer
        return folded(told, narrow, later=" " * hanging)

    return [
        *wrapped(title(plan)),
        "",
        *table(plan, width, encoding),
        "",
        *(line for name, text in meanings(plan) for line in wrapped(f"{name}: {text}", hanging=2)),
        "",
        *wrapped("What one report says about a person; of several reports, epsilons add up:"),
        *(line for level in plan.levels for line in wrapped(exposed(level), hanging=2)),
        "",
        *wrapped(advice(plan)),
    ]


def title(plan: Plan) -> str:
    """Return what was asked."""
    asked = plan.question
    best = percent(min(1.0, asked.base_rate + asked.gap))
    return (
        f"{asked.arms:,} arms, {asked.horizon:,} people, {counted(asked.changes, 'change')}; the best arm succeeds "
        f"with {best}, the others with {percent(asked.base_rate)}; policy {asked.policy}. Simulated in "
        f"{asked.worlds:,} worlds drawn from seed {asked.seed}; ± and what stands in brackets are 95 % intervals."
    )


def counted(count: int, noun: str) -> str:
    """Return a number of things."""
    return safe_text.counted(count, noun) if count else f"no {noun}"


def table(plan: Plan, width: int, encoding: str) -> list[str]:
    """Return the table; where it does not fit, the same for one epsilon after the other."""
    rows = [HEADING, *(row(plan, level) for level in plan.levels)]
    spelled = [[safe_text.spelled(cell, encoding) for cell in each] for each in rows]
    whole = align_columns(spelled)
    if max(map(len, whole)) <= width:
        return whole
    told = []
    for level, cells in zip(plan.levels, spelled[1:], strict=True):
        told.append(safe_text.spelled(setting(level), encoding))
        for name, cell in zip(spelled[0][1:], cells[1:], strict=True):
            told += folded(f"{name}: {cell}", width, "  ", "    ")
    return told


def folded(text: str, width: int, first: str = "", later: str = "") -> list[str]:
    """Return a text in as many lines as it takes; a number and what it counts in stay together."""
    whole = re.sub(r"(\d) %", "\\1\0%", text)
    lines = textwrap.wrap(whole, max(width, 10), initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def row(plan: Plan, level: Level) -> tuple[str, ...]:
    """Return what was found at one epsilon, as a row of the table."""
    return (
        epsilon_text(level.epsilon),
        with_half(level.loss),
        f"{1000 * level.loss.mean / plan.question.horizon:,.1f}",
        with_half(level.extra) if level.private else "–",
        share_text(level.cost) if level.private else "–",
        "not reached" if level.settling.people is None else f"{level.settling.people:,}",
        f"> {level.looked_to:,}" if level.pays_from is None else f"{level.pays_from:,}",
    )


def epsilon_text(epsilon: float) -> str:
    """Return an epsilon, or that there is none."""
    return "none" if math.isinf(epsilon) else f"{epsilon:g}"


def successes(count: float) -> str:
    """Return how many successes, with a decimal where there are few."""
    return f"{count:,.0f}" if abs(count) >= 10 else f"{count:,.1f}"


def with_half(estimate: Estimate) -> str:
    """Return a mean with half of its interval."""
    return f"{successes(estimate.mean)} ± {successes(estimate.high - estimate.mean)}"


def interval(estimate: Estimate) -> str:
    """Return an interval."""
    return f"{successes(estimate.low)} to {successes(estimate.high)}"


def share_text(cost: Estimate | None) -> str:
    """Return a share with its interval."""
    if cost is None:
        return "no gain"
    return f"{100 * cost.mean:.1f} % ({100 * cost.low:.1f} to {100 * cost.high:.1f})"


def meanings(plan: Plan) -> Iterable[tuple[str, str]]:
    """Yield what the columns mean."""
    beginning = "a change" if plan.question.changes else "the beginning"
    nine, ten = TRAFFIC
    yield "successes lost", "against showing everybody the best arm; then the same per 1,000 people"
    yield "by privacy", "how many more are lost than without privacy, in the same worlds"
    yield (
        "of the gain",
        f"the same, as a share of the {successes(plan.gain.mean)} successes that learning without privacy gains over a "
        f"blind choice (one arm for everybody, chosen by lot, which loses {successes(plan.blind_loss)})",
    )
    yield (
        "follows after",
        f"people after {beginning} until the best arm gets {nine} of {ten} in a stretch of "
        f"{plan.levels[0].settling.stretch:,} people; in half of all cases it is no later. {unreached(plan)}",
    )
    yield (
        "pays from",
        f"about the smallest audience, with as many changes in it, that surely keeps {100 * WON:g} % of what the best "
        f"choice gains over a blind one{unpaid(plan)}",
    )


def unpaid(plan: Plan) -> str:
    """Say what > means, where it stands."""
    return "; after >, the largest that was tried" if any(level.pays_from is None for level in plan.levels) else ""


def unreached(plan: Plan) -> str:
    """Say how often the best arm does not get its traffic in time."""
    often = [level for level in plan.levels if level.settling.reached < 1]
    if not often:
        return "It always happened before the next change." if plan.question.changes else "It always happened."
    told = ", ".join(f"{percent(1 - level.settling.reached)} at {setting(level)}" for level in often)
    return f"It did not happen {'before the next change' if plan.question.changes else 'at all'}: {told}."


def setting(level: Level) -> str:
    """Return at which epsilon."""
    return f"ε = {level.epsilon:g}" if level.private else "no privacy"


def exposed(level: Level) -> str:
    """Return what one report at this epsilon says about a person."""
    if not level.private:
        return "no privacy: a report is the truth; whoever sees it knows what the person did."
    return f"{setting(level)}: {level.exposure.summary}"


def advice(plan: Plan) -> str:
    """Return which epsilon to take, in words, never more than the intervals allow."""
    found, allowed = plan.advice, f"{100 * plan.question.tolerance:g} %"
    if not found.gains:
        return (
            "No epsilon is advised: learning may gain nothing over a blind choice here, even without privacy "
            f"({successes(plan.gain.mean)} successes, {interval(plan.gain)}). {HELP}"
        )
    if found.epsilon is None:
        none = f"None of these epsilons surely costs at most {allowed} of the gain. {next_one(plan)}"
        return " ".join([none, *doubts(plan, plan.levels[-1]), HELP])
    taken = plan.level(found.epsilon)
    costs = (
        f"Take {setting(taken)}: against no privacy it costs {successes(taken.extra.mean)} successes "
        f"({interval(taken.extra)}) among {plan.question.horizon:,} people, {share_text(taken.cost)} of the gain; "
        f"you allow {allowed}."
    )
    return " ".join([costs, *doubts(plan, taken), next_one(plan)])


def doubts(plan: Plan, level: Level) -> list[str]:
    """Say that it does not pay, if so, and for how many people it would."""
    asked = plan.question.horizon
    if level.pays_from is not None and level.pays_from <= asked:
        return []
    where = f"At {setting(level)}" if level.private else "Without privacy"
    enough = f"about {level.pays_from:,} would do" if level.pays_from else f"nor would {level.looked_to:,}"
    tried = "no more were tried" if level.looked_to == asked else enough
    return [
        f"{where} {asked:,} people do not surely keep {100 * WON:g} % of what the best choice gains over a blind one; "
        f"{tried}."
    ]


HELP = "A larger audience helps, a larger gap, fewer arms, fewer changes, or a larger ε."


def next_one(plan: Plan) -> str:
    """Say why no smaller epsilon is advised."""
    if plan.advice.refused is None:
        return "No smaller one was asked for."
    level = plan.level(plan.advice.refused)
    cost = f"{setting(level)} costs {share_text(level.cost)}"
    if plan.advice.in_doubt:
        return f"{cost}: it may be within, {plan.question.worlds:,} worlds cannot tell; more may (--worlds)."
    return f"{cost}: too much."


def as_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain values that JSON can hold; an infinite epsilon is the word "inf"."""
    document = {
        **asdict(plan.question),
        "blind_loss": plan.blind_loss,
        "gain": asdict(plan.gain),
        "levels": [level_as_json(plan, level) for level in plan.levels],
        "advice": {**asdict(plan.advice), "words": advice(plan)},
    }
    return {key: plain(value) for key, value in document.items()}


def level_as_json(plan: Plan, level: Level) -> dict[str, Any]:
    """Return what was found at one epsilon."""
    per_thousand = 1000 * level.loss.mean / plan.question.horizon
    return {**asdict(level), "loss_per_1000": per_thousand, "words": exposed(level)}
