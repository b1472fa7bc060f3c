"""A plan as text for a terminal, and as JSON."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from maskedbandits._util import safe_text
from maskedbandits._util.safe_text import percent
from maskedbandits.experiments.canonical_json import to_plain
from maskedbandits.planner.plans import Level, Plan
from maskedbandits.planner.statistics import MIN_GAIN, TRAFFIC, Estimate
from maskedbandits.privacy.audit.text import align_columns

MAX_WIDTH = 100  # columns of a paragraph: longer lines are hard to read
MIN_BAR_WIDTH = 76  # columns of the heading of the bars
BAR_MARGIN = 20  # columns of an epsilon and its share
HEADING = ("ε", "successes lost", "per 1,000", "by privacy", "of the gain", "follows after", "pays from")


def to_lines(plan: Plan, width: int = MAX_WIDTH, encoding: str = "utf-8") -> list[str]:
    """Return a plan as text: the advice, bars, a table, the meaning of its columns, and the privacy of reports."""

    def wrap(text: str, hanging: int = 0) -> list[str]:
        encodable = safe_text.spell(text, encoding)  # before wrapping, because it may become longer
        return wrap_text(encodable, min(width, MAX_WIDTH), later=" " * hanging)

    return [
        *wrap(describe_advice(plan)),
        "",
        *draw_bars(plan, width, encoding),
        *wrap(format_title(plan)),
        "",
        *format_table(plan, width, encoding),
        "",
        *(line for name, text in explain_columns(plan) for line in wrap(f"{name}: {text}", hanging=2)),
        "",
        *wrap("Privacy of one report; the epsilons of several reports add up:"),
        *(line for level in plan.levels for line in wrap(describe_exposure(level), hanging=2)),
    ]


def draw_bars(plan: Plan, width: int, encoding: str) -> list[str]:
    """Return a bar for each epsilon: the share of the gain that it costs; nothing where there is no room or no gain."""
    costs = [(level, level.cost) for level in plan.levels if level.private and level.cost is not None]
    if width < MIN_BAR_WIDTH or not costs:
        return []
    letters = min(width, MAX_WIDTH) - BAR_MARGIN
    block = "#" if safe_text.spell("█", encoding) != "█" else "█"
    lines = ["Share of the gain from learning that privacy costs, on a scale of 0 to 100 %:"]
    for level, cost in costs:
        bar = block * round(min(max(cost.mean, 0.0), 1.0) * letters)
        lines.append(f"  {format_setting(level):8} {100 * cost.mean:6.1f} % {bar}".rstrip())
    return [*(safe_text.spell(line, encoding) for line in lines), ""]


def format_title(plan: Plan) -> str:
    """Return the inputs in words."""
    inputs = plan.inputs
    best = percent(min(1.0, inputs.base_rate + inputs.gap))
    return (
        f"{inputs.arms:,} arms, {inputs.horizon:,} people, {count_noun(inputs.changes, 'change')}; the best arm "
        f"succeeds with {best}, the others with {percent(inputs.base_rate)}; policy {inputs.policy}. Simulated in "
        f"{inputs.worlds:,} worlds drawn from seed {inputs.seed}; ± and brackets give 95 % confidence intervals."
    )


def count_noun(count: int, noun: str) -> str:
    """Return a number with its noun; no for 0."""
    return safe_text.format_count(count, noun) if count else f"no {noun}"


def format_table(plan: Plan, width: int, encoding: str) -> list[str]:
    """Return the table, or if it is too wide a list for each epsilon."""
    rows = [HEADING, *(format_row(plan, level) for level in plan.levels)]
    cells = [[safe_text.spell(cell, encoding) for cell in row] for row in rows]
    table = align_columns(cells)
    if max(map(len, table)) <= width:
        return table
    lines = []
    for level, row in zip(plan.levels, cells[1:], strict=True):
        lines.append(safe_text.spell(format_setting(level), encoding))
        for name, cell in zip(cells[0][1:], row[1:], strict=True):
            lines += wrap_text(f"{name}: {cell}", width, "  ", "    ")
    return lines


def wrap_text(text: str, width: int, first: str = "", later: str = "") -> list[str]:
    """Return a text in lines; numbers stay together with their per cent signs."""
    whole = re.sub(r"(\d) %", "\\1\0%", text)
    lines = textwrap.wrap(whole, max(width, 10), initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def format_row(plan: Plan, level: Level) -> tuple[str, ...]:
    """Return the row of one epsilon."""
    return (
        format_epsilon(level.epsilon),
        format_mean(level.loss),
        f"{1000 * level.loss.mean / plan.inputs.horizon:,.1f}",
        format_mean(level.extra) if level.private else "–",
        format_share(level.cost) if level.private else "–",
        "not reached" if level.settling.people is None else f"{level.settling.people:,}",
        f"> {level.looked_to:,}" if level.pays_from is None else f"{level.pays_from:,}",
    )


def format_epsilon(epsilon: float) -> str:
    """Return an epsilon, or none."""
    return "none" if math.isinf(epsilon) else f"{epsilon:g}"


def format_count(count: float) -> str:
    """Return a number of successes, with a decimal if it is small."""
    return f"{count:,.0f}" if abs(count) >= 10 else f"{count:,.1f}"


def format_mean(estimate: Estimate) -> str:
    """Return a mean with half the width of its interval."""
    return f"{format_count(estimate.mean)} ± {format_count(estimate.high - estimate.mean)}"


def format_interval(estimate: Estimate) -> str:
    """Return an interval."""
    return f"{format_count(estimate.low)} to {format_count(estimate.high)}"


def format_share(cost: Estimate | None) -> str:
    """Return a share with its interval."""
    if cost is None:
        return "no gain"
    return f"{100 * cost.mean:.1f} % ({100 * cost.low:.1f} to {100 * cost.high:.1f})"


def explain_columns(plan: Plan) -> Iterable[tuple[str, str]]:
    """Yield the columns and their meanings."""
    beginning = "a change" if plan.inputs.changes else "the beginning"
    nine, ten = TRAFFIC
    yield "successes lost", "compared with showing everybody the best arm; then per 1,000 people"
    yield "by privacy", "additional successes lost to privacy, in the same worlds"
    yield (
        "of the gain",
        f"the same, as a share of the {format_count(plan.gain.mean)} successes that learning without privacy gains "
        f"over a blind choice (one arm for everybody, chosen by lot, which loses {format_count(plan.blind_loss)})",
    )
    yield (
        "follows after",
        f"people after {beginning} until the best arm gets {nine} of {ten} in a stretch of "
        f"{plan.levels[0].settling.stretch:,} people; in half of all cases it is no later. {describe_unfollowed(plan)}",
    )
    yield (
        "pays from",
        f"about the smallest audience, with as many changes in it, that surely keeps {100 * MIN_GAIN:g} % of what the "
        f"best choice gains over a blind one{explain_greater_sign(plan)}",
    )


def explain_greater_sign(plan: Plan) -> str:
    """Return what > means, if the table has one."""
    return "; after >, the largest that was tried" if any(level.pays_from is None for level in plan.levels) else ""


def describe_unfollowed(plan: Plan) -> str:
    """Return how often changes are not followed in time."""
    levels = [level for level in plan.levels if level.settling.reached < 1]
    if not levels:
        return "It always happened before the next change." if plan.inputs.changes else "It always happened."
    shares = ", ".join(f"{percent(1 - level.settling.reached)} at {format_setting(level)}" for level in levels)
    return f"It did not happen {'before the next change' if plan.inputs.changes else 'at all'}: {shares}."


def format_setting(level: Level) -> str:
    """Return the epsilon of a level."""
    return f"ε = {level.epsilon:g}" if level.private else "no privacy"


def describe_exposure(level: Level) -> str:
    """Return what one report at this epsilon reveals about a person."""
    if not level.private:
        return "no privacy: a report is the truth; anyone who sees it knows what the person did."
    return f"{format_setting(level)}: {level.exposure.summary}"


def describe_advice(plan: Plan) -> str:
    """Return which epsilon to take, without claims beyond the intervals."""
    advice, allowed = plan.advice, f"{100 * plan.inputs.tolerance:g} %"
    if not advice.gains:
        return (
            "No epsilon is advised: learning may gain nothing over a blind choice here, even without privacy "
            f"({format_count(plan.gain.mean)} successes, {format_interval(plan.gain)}). {HELP}"
        )
    if advice.epsilon is None:
        none = f"None of these epsilons surely costs at most {allowed} of the gain. {describe_next(plan)}"
        return " ".join([none, *describe_doubts(plan, plan.levels[-1]), HELP])
    level = plan.level(advice.epsilon)
    costs = (
        f"Take {format_setting(level)}: compared with no privacy it costs {format_count(level.extra.mean)} successes "
        f"({format_interval(level.extra)}) among {plan.inputs.horizon:,} people, {format_share(level.cost)} of the "
        f"gain; you allow {allowed}."
    )
    return " ".join([costs, *describe_doubts(plan, level), describe_next(plan)])


def describe_doubts(plan: Plan, level: Level) -> list[str]:
    """Return a sentence if learning does not pay, with the audience at which it would."""
    horizon = plan.inputs.horizon
    if level.pays_from is not None and level.pays_from <= horizon:
        return []
    where = f"At {format_setting(level)}" if level.private else "Without privacy"
    enough = f"about {level.pays_from:,} would do" if level.pays_from else f"nor would {level.looked_to:,}"
    tried = "no more were tried" if level.looked_to == horizon else enough
    return [
        f"{where} {horizon:,} people do not surely keep {100 * MIN_GAIN:g} % of what the best choice gains over a "
        f"blind one; {tried}."
    ]


HELP = "A larger audience helps, a larger gap, fewer arms, fewer changes, or a larger ε."


def describe_next(plan: Plan) -> str:
    """Return why no smaller epsilon is advised."""
    if plan.advice.refused is None:
        return "No smaller epsilon was simulated."
    level = plan.level(plan.advice.refused)
    cost = f"{format_setting(level)} costs {format_share(level.cost)}"
    if plan.advice.in_doubt:
        return f"{cost}: it may be within, but {plan.inputs.worlds:,} worlds cannot tell: give more --worlds."
    return f"{cost}: too much."


def to_json(plan: Plan) -> dict[str, Any]:
    """Return a plan in types that JSON has; an infinite epsilon is the word "inf"."""
    document = {
        **asdict(plan.inputs),
        "blind_loss": plan.blind_loss,
        "gain": asdict(plan.gain),
        "levels": [level_to_json(plan, level) for level in plan.levels],
        "advice": {**asdict(plan.advice), "words": describe_advice(plan)},
    }
    return {key: to_plain(value) for key, value in document.items()}


def level_to_json(plan: Plan, level: Level) -> dict[str, Any]:
    """Return the findings at one epsilon."""
    per_thousand = 1000 * level.loss.mean / plan.inputs.horizon
    return {**asdict(level), "loss_per_1000": per_thousand, "words": describe_exposure(level)}
