"""What an audit has found, in words for a person and as plain values for a program."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from maskedbandits.privacy.audit import Findings, Link, Power, Restarts
from maskedbandits.privacy.events import POWER, Event
from maskedbandits.privacy.exact import as_text
from maskedbandits.privacy.mechanism import Randomizer

GRID = ("0", "0.01", "0.1", "0.25", "0.5", "1", "2", "4", "8", "16")  # epsilons of the exact statement
Rows = Sequence[Sequence[str]]


def lines(findings: Findings) -> list[str]:
    """Return the findings for a person: a table, facts, and the verdict last."""
    drawn = f"{findings.trials:,} trials for each input, joint confidence {percent(findings.confidence)}"
    retried = f", every decision sent {findings.retries} times" if findings.retries > 1 else ""
    heading = ("event", "given 0", "given 1", "epsilon at least")
    return [
        f"{findings.subject}: {drawn}{retried}",
        "",
        *aligned([heading, *map(event_row, findings.events)]),
        "",
        *(f"{name:21} {text}" for name, text in facts(findings)),
        "",
        verdict(findings),
    ]


def aligned(rows: Rows) -> list[str]:
    """Return rows as lines: the first column on the left, the others on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]


def event_row(event: Event) -> tuple[str, str, str, str]:
    """Return an event as a row of the table."""
    first, second = event.shares
    return event.name, f"{first:.4%}", f"{second:.4%}", at_least(event.epsilon)


def at_least(epsilon: float) -> str:
    """Return a lower bound, rounded down."""
    return f"{math.floor(epsilon * 1e5) / 1e5:.5f}"


def percent(share: float) -> str:
    """Return a confidence without a digit too many."""
    return f"{100 * share:.10g} %"


def facts(findings: Findings) -> Iterable[tuple[str, str]]:
    """Yield what was found, by name."""
    yield "claimed epsilon", as_text(findings.claimed)
    yield "epsilon at least", at_least(findings.epsilon)
    yield "smallest excess seen", excess_text(findings.power)
    yield "g", link_text(findings.link)
    if findings.restarts is not None:
        yield "seed", restarts_text(findings.restarts)
    if findings.randomizer is not None:
        words, bits = findings.randomizer.flips[0], findings.randomizer.word_bits
        yield "exactly", f"{words} of 2^{bits} words flip a bit: epsilon = {findings.randomizer.exact_epsilon}"


def excess_text(power: Power) -> str:
    """Return what so many trials could have seen."""
    if power.excess is not None:
        return f"{power.excess:.4f}, with a probability of {percent(POWER)} or more"
    return f"none, not even of a randomiser that never flips: that takes --trials {power.needed}"


def link_text(link: Link | None) -> str:
    """Return how often a 1 is reported, for each input."""
    if link is None:
        return "not checked: reports are more than a 0 or a 1"
    pairs = zip((0, 1), link.intervals, link.stated, strict=True)
    return "; ".join(
        f"P(1 | {bit}) in [{low:.5g}, {high:.5g}], stated {share:.5g}" for bit, (low, high), share in pairs
    )


def restarts_text(restarts: Restarts) -> str:
    """Return what starting the program several times has shown."""
    if not restarts.telling:
        return f"cannot be judged: {restarts.runs} runs may agree on {restarts.lines:,} inputs by chance"
    same = f"{restarts.same} of" if restarts.same else "no two of"
    seen = f"{same} {restarts.runs} runs give the same answers to the same {restarts.lines:,} inputs"
    return f"{seen} (by chance: {restarts.chance:.0e} at most)"


def verdict(findings: Findings) -> str:
    """Return one line that says what follows."""
    claimed = as_text(findings.claimed)
    if findings.outcome == "refuted":
        return f"REFUTED: epsilon is at least {at_least(findings.epsilon)}, the claim was {claimed}."
    if findings.outcome == "fixed seed":
        return "REFUTED: the seed is fixed, so whoever has the program can undo the mask."
    if findings.outcome == "other g":
        return "REFUTED: epsilon holds, but g is not the stated one: a learner that believes it would be misled."
    return f"Not refuted: nothing that was seen contradicts epsilon = {claimed}."


def as_json(findings: Findings) -> dict[str, Any]:
    """Return the findings as plain values."""
    link, restarts, randomizer = findings.link, findings.restarts, findings.randomizer
    return {
        "subject": findings.subject,
        "claimed_epsilon": as_text(findings.claimed),
        "trials": findings.trials,
        "retries": findings.retries,
        "confidence": findings.confidence,
        "epsilon_at_least": findings.epsilon,
        "outcome": findings.outcome,
        "verdict": verdict(findings),
        "smallest_excess": findings.power.excess,
        "trials_needed": findings.power.needed,
        "events": [
            {"event": one.name, "hits": one.hits, "trials": one.trials, "epsilon_at_least": one.epsilon}
            for one in findings.events
        ],
        "g": link and {"holds": link.holds, "intervals": link.intervals, "stated": link.stated},
        "seed": restarts and {**vars(restarts), "fixed": restarts.fixed, "telling": restarts.telling},
        "exact": randomizer and exact_as_json(randomizer),
    }


def exact_as_json(randomizer: Randomizer) -> dict[str, Any]:
    """Return the exact statement of a randomiser; whole numbers above 2^53 are words, for whoever reads floats."""
    exact = randomizer.exact_epsilon
    return {
        "epsilon": as_text(randomizer.epsilon),
        "word_bits": randomizer.word_bits,
        "words_that_flip": str(randomizer.flips[0]),
        "odds": [str(exact.odds.numerator), str(exact.odds.denominator)],
        "epsilon_at_most": f"{exact.rounded_up():f}",
    }


def exact_lines(randomizers: Sequence[Randomizer]) -> list[str]:
    """Return the exact statements of some randomisers, as a table."""
    heading = ("stated epsilon", "a report is true", "words of 2^64 that flip", "real epsilon, rounded up")
    return aligned([heading, *map(exact_row, randomizers)])


def exact_row(randomizer: Randomizer) -> tuple[str, str, str, str]:
    """Return one epsilon as a row of the table."""
    statement = exact_as_json(randomizer)
    truth = f"{float(randomizer.p00):.6%}"
    return statement["epsilon"], truth, statement["words_that_flip"], statement["epsilon_at_most"]
