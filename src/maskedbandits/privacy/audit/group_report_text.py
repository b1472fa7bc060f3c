"""What an audit of a device of groups has found, in words for a person and as plain values for a program."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from maskedbandits.privacy.audit import coverage, report_text
from maskedbandits.privacy.audit.exhaustive import BITS, Enumerated
from maskedbandits.privacy.audit.result import Distance, GroupFindings
from maskedbandits.privacy.audit.statistics import Event
from maskedbandits.privacy.exact import as_text

MOST_STRATA = 3  # of those that tell, the most telling, in the table


def lines(findings: GroupFindings) -> list[str]:
    """Return the findings for a person: a table, facts, and the verdict last."""
    asked = f"{findings.trials:,} trials for each group and reward, answers: {findings.answers}"
    # the same answers may be one event by several names, and what does not tell the input before is no news
    shown = {one.hits: one for one in reversed(findings.events) if not one.before or one.epsilon > 0}
    rows = [event_row(one) for one in sorted(shown.values(), key=lambda one: -one.epsilon)]
    worst = [one for one in most_telling(findings.strata)[:MOST_STRATA] if one.epsilon > findings.claimed]
    return [
        f"{findings.subject}: {asked}, joint confidence {report_text.percent(findings.confidence)}",
        "",
        *report_text.aligned(
            [("event", "most often", "least often", "epsilon at least"), *rows, *map(stratum_row, worst)]
        ),
        "",
        *(f"{name:21} {text}" for name, text in facts(findings)),
        "",
        verdict(findings),
    ]


def event_row(event: Event) -> tuple[str, str, str, str]:
    """Return an event as a row of the table."""
    most, least = (f"{event.shares[given]:.4%} of {who(given)}" for given in event.apart)
    name = f"{event.name}, by the input before" if event.before else event.name
    return name, most, least, report_text.at_least(event.epsilon)


def most_telling(strata: Sequence[Event]) -> list[Event]:
    """Return strata, the most telling first."""
    return sorted(strata, key=lambda one: -one.epsilon)


def stratum_row(stratum: Event) -> tuple[str, str, str, str]:
    """Return a stratum as a row of the table."""
    true, turned = (f"{share:.4%} {what}" for share, what in zip(stratum.shares, ("true", "turned"), strict=True))
    return f"answers{stratum.name}", true, turned, report_text.at_least(stratum.epsilon)


def who(given: int) -> str:
    """Return an input in words."""
    return f"group {given // 2}, reward {given % 2}"


def facts(findings: GroupFindings) -> Iterator[tuple[str, str]]:
    """Yield what was found, by name."""
    yield "claimed epsilon", as_text(findings.claimed)
    yield "epsilon at least", report_text.at_least(findings.epsilon)
    yield "g", g_text(findings)
    yield "strata", strata_text(findings.strata)
    if findings.seeds is not None:
        yield "seed", report_text.seeds_text(findings.seeds)
    noise = findings.noise
    yield (
        "noise",
        report_text.noise_text(noise) if noise is not None else f"not checked: {report_text.unseen(findings)}",
    )
    yield from coverage.facts(findings)


def g_text(findings: GroupFindings) -> str:
    """Return whether answers are masked as stated."""
    if not findings.distances:
        return "not checked: what is written is no answer"
    if findings.off:
        several = f"{len(findings.off):,} of {findings.distances:,} frequencies are not as stated"
        return f"{several}: {off_text(findings.off[0])}"
    return f"{findings.distances:,} frequencies as stated: of every group, reward and kind of question"


def strata_text(strata: Sequence[Event]) -> str:
    """Return how many kinds of questions were judged, and the most telling."""
    if not strata:
        return "not checked: what is written is no answer"
    worst = most_telling(strata)[0]
    kinds = f"{len(strata):,} kinds of questions and of earlier inputs"
    return f"{kinds}; epsilon at least {report_text.at_least(worst.epsilon)}{worst.name}"


def off_text(distance: Distance) -> str:
    """Return a frequency that is not as stated."""
    low, high = distance.interval
    what = "true" if distance.steps == 0 else f"{distance.steps} from the truth"
    of = f"{who(2 * distance.group + distance.reward)}{distance.where}"
    return f"answers of {of} are {what} with a probability in [{low:.5g}, {high:.5g}], stated {distance.stated:.5g}"


def verdict(findings: GroupFindings) -> str:
    """Return one line that says what follows."""
    if findings.outcome == "other g":
        return f"REFUTED: {off_text(findings.off[0])}: a learner that believes it would be misled."
    if findings.outcome == "not refuted":
        missing = [*([] if findings.distances else ["g"]), *([] if findings.noise is not None else ["the noise"])]
        if findings.seeds is not None and not findings.seeds.telling:
            missing.append("the seed")
        unchecked = f"; not checked: {' and '.join(missing)}" if missing else ""
        return (
            f"Not refuted: nothing that was seen contradicts epsilon = {as_text(findings.claimed)} for group, arm and "
            f"reward together{unchecked}."
        )
    return report_text.verdict(findings)


def as_json(findings: GroupFindings) -> dict[str, Any]:
    """Return the findings as plain values."""
    seeds = findings.seeds
    return {
        "subject": findings.subject,
        "groups": findings.groups,
        "answers": findings.answers,
        "claimed_epsilon": as_text(findings.claimed),
        "trials": findings.trials,
        "confidence": findings.confidence,
        "epsilon_at_least": findings.epsilon,
        "outcome": findings.outcome,
        "verdict": verdict(findings),
        "trials_needed": findings.needed,
        "events": [report_text.event_as_json(one) for one in findings.events],
        "g": {
            "frequencies": findings.distances,
            "not_as_stated": [{**vars(one), "interval": one.interval} for one in findings.off],
        },
        **coverage.as_json(findings),
        "strata": [report_text.event_as_json(one) for one in most_telling(findings.strata)],
        "noise": report_text.noise_as_json(findings.noise) if findings.noise is not None else None,
        "seed": seeds and {**vars(seeds), "fixed": seeds.fixed, "telling": seeds.telling},
    }


def exact_lines(found: Sequence[Enumerated]) -> list[str]:
    """Return the largest ratios over all words, as a table."""
    heading = ("groups", "answers", "questions", "stated epsilon", "e^epsilon", "largest ratio", "at most e^epsilon")
    return report_text.aligned([heading, *map(exact_row, found)])


def exact_row(one: Enumerated) -> tuple[str, ...]:
    """Return one kind of answers to so many groups as a row of the table."""
    stated = as_text(one.epsilon), f"{math.exp(one.epsilon):.6f}"
    return (str(one.groups), one.answers, f"{one.questions:,}", *stated, ratio_text(one), "yes" if one.holds else "NO")


def ratio_text(one: Enumerated) -> str:
    """Return the largest ratio of counts."""
    if one.ratio is None:
        return "finer than such words"
    if not isinstance(one.ratio, Fraction):
        return "infinite"
    return f"{one.ratio} = {float(one.ratio):.6f}"


def exact_as_json(one: Enumerated) -> dict[str, Any]:
    """Return what all words say as plain values."""
    return {
        "groups": one.groups,
        "answers": one.answers,
        "questions": one.questions,
        "epsilon": as_text(one.epsilon),
        "word_bits": BITS,
        "largest_ratio": [one.ratio.numerator, one.ratio.denominator] if isinstance(one.ratio, Fraction) else None,
        "holds": one.holds,
    }
