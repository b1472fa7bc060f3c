"""What an audit has found, in words for a person and as plain values for a program."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from maskedbandits.privacy.audit import coverage
from maskedbandits.privacy.audit.result import Channel, Findings, Noise
from maskedbandits.privacy.audit.seeds import Seeds
from maskedbandits.privacy.audit.statistics import POWER, Event
from maskedbandits.privacy.exact import as_text
from maskedbandits.privacy.randomized_response import Randomizer

GRID = ("0", "0.01", "0.1", "0.25", "0.5", "1", "2", "4", "8", "16")  # epsilons of the exact statement
MOST_CONTEXTS = 2  # of those that tell, the most telling, in the table
Rows = Sequence[Sequence[str]]


def lines(findings: Findings) -> list[str]:
    """Return the findings for a person: a table, facts, and the verdict last."""
    drawn = f"{findings.trials:,} trials for each input"
    devices = f" by bits(), {findings.devices:,} by report()" if findings.devices else ""
    retried = f", every decision sent {findings.retries} times" if findings.retries > 1 else ""
    heading = ("event", "given 0", "given 1", "epsilon at least")
    # what does not tell the input before is no news
    shown = [one for one in findings.events if not one.before or one.epsilon > 0]
    if findings.noise is not None:  # nor what is as stated
        shown += [one for context in findings.noise.uneven[:MOST_CONTEXTS] for one in (context.zero, context.one)]
    return [
        f"{findings.subject}: {drawn}{devices}, joint confidence {percent(findings.confidence)}{retried}",
        "",
        *aligned([heading, *map(event_row, shown)]),
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
    name = f"{event.name}, by the input before" if event.before else event.name
    return name, f"{first:.4%}", f"{second:.4%}", at_least(event.epsilon)


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
    yield "smallest excess seen", excess_text(findings)
    for channel in findings.channels:
        yield f"g of {channel.name}" if channel.name else "g", channel_text(channel)
    if not findings.channels:
        yield "g", "not checked: reports are more than a 0 or a 1"
    if findings.seeds is not None:
        yield "seed", seeds_text(findings.seeds)
        yield "noise", noise_text(findings.noise) if findings.noise is not None else f"not checked: {unseen(findings)}"
        yield "short starts", coverage.starts_text(findings.starts)
        yield "fractions", coverage.values_text(findings)
    yield from coverage.facts(findings)
    if findings.randomizer is not None:
        words, bits = findings.randomizer.flips[0], findings.randomizer.word_bits
        yield "exactly", f"{words} of 2^{bits} words flip a bit: epsilon = {findings.randomizer.exact_epsilon}"


def excess_text(findings: Findings) -> str:
    """Return what so many trials could have seen; only where reports are bits, one number says it."""
    if findings.needed is not None:
        return f"none, not even of a randomiser that never flips: {advice(findings)}"
    seen = [channel for channel in findings.channels if channel.excess is not None]
    if not seen:
        return "depends on where reports leak"
    excesses = ", ".join(f"{channel.excess:.4f}{channel.name and ' by '}{channel.name}" for channel in seen)
    return f"{excesses}, of symmetric randomised response, with a probability of {percent(POWER)} or more"


def advice(findings: Findings) -> str:
    """Return how many trials it takes, or what can be judged with as many as one can have."""
    needed, most = findings.needed or 0, findings.most
    if needed <= most:
        return f"that takes --trials {needed}"
    highest = math.floor(10 * (findings.claimed - math.log(needed / most))) / 10  # trials grow with e^epsilon
    return f"that takes {needed:,} trials, of {most:,} at most: no claim above {highest:g} can be judged"


def channel_text(channel: Channel) -> str:
    """Return how often a 1 is reported, for each input."""
    pairs = zip((0, 1), channel.intervals, channel.stated, strict=True)
    return "; ".join(
        f"P(1 | {bit}) in [{low:.5g}, {high:.5g}], stated {share:.5g}" for bit, (low, high), share in pairs
    )


def seeds_text(seeds: Seeds) -> str:
    """Return what starting the program several times has shown."""
    if not seeds.telling:
        return f"cannot be judged: {seeds.runs} runs may agree on {seeds.lines:,} inputs by chance"
    same = f"{seeds.same} of" if seeds.same else "no two of"
    seen = f"{same} {seeds.runs} runs give the same answers to the same {seeds.lines:,} inputs"
    where = f" in {seeds.part}the reports" if seeds.part else ""
    deaf = ", and to different ones" if seeds.deaf else ""
    return f"{seen}{where}{deaf} (by chance: {seeds.chance:.0e} at most)"


def noise_text(noise: Noise) -> str:
    """Return what was seen of the noise, the worst if it is not as it should be."""
    if noise.names is not None and noise.names.followed:
        same = f"{noise.names.same:,} of {noise.names.decisions:,}"
        return f"two runs mask {same} decisions of one name alike, stated {percent(round(noise.names.stated, 4))}"
    if noise.uneven:
        return f"{noise.uneven[0].name}, {channel_text(noise.uneven[0])}"
    if noise.too_even:
        block = noise.too_even[0]
        seen = f"{block.close:,} of {block.blocks:,} blocks of {block.lines:,} lines are flipped as often as stated"
        return f"{seen}, or almost (by chance: {block.chance:.0e})"
    return f"as stated in {len(noise.contexts)} contexts: by position, after earlier inputs and flips, and in each run"


def what_follows(noise: Noise) -> str:
    """Return what noise that is not as it should be means."""
    if noise.followed:
        return "whoever knows the name can undo the mask"
    if noise.uneven:
        return "reports are not all masked alike, each on its own"
    return "noise is dealt, not drawn, so some reports tell of others"


def unseen(findings: Findings) -> str:
    """Return why the noise was not looked at."""
    fixed = findings.seeds is not None and findings.seeds.fixed
    return "runs with one seed are not independent" if fixed else "reports are more than a 0 or a 1"


def verdict(findings: Findings) -> str:
    """Return one line that says what follows."""
    claimed = as_text(findings.claimed)
    if findings.outcome == "refuted":
        return f"REFUTED: epsilon is at least {at_least(findings.epsilon)}, the claim was {claimed}."
    if findings.outcome == "fixed seed":
        if findings.seeds is not None and findings.seeds.fixed:
            return "REFUTED: the seed is fixed, so anyone who has the program can undo the mask."
        return "REFUTED: seeds come from a small range or the process number: who has the program can undo the mask."
    if findings.outcome == "side channel" and findings.starts is not None:
        return f"REFUTED: {' and '.join(findings.starts.leaks)} depends on the input."
    if findings.outcome == "other g":
        return f"REFUTED: {other_g(findings)}: a learner that believes it would be misled."
    if findings.outcome == "uneven noise" and findings.noise is not None:
        return f"REFUTED: {noise_text(findings.noise)}: {what_follows(findings.noise)}."
    if findings.outcome == "cannot tell":
        return f"Cannot tell: {why_not(findings)}."
    return f"Not refuted: nothing that was seen contradicts epsilon = {claimed}{unchecked(findings)}."


def other_g(findings: Findings) -> str:
    """Return that g is another one, and as much of epsilon as was seen."""
    if all(channel.private for channel in findings.channels):
        return "epsilon holds, but g is not the stated one"
    return f"g is not the stated one, and whether epsilon holds {findings.trials:,} trials cannot tell"


def why_not(findings: Findings) -> str:
    """Return why nothing can be said."""
    if findings.needed is not None:
        return f"{findings.trials:,} trials would not even see a randomiser that never flips; {advice(findings)}"
    return "runs answer alike, whatever they are asked: a fixed seed, or no randomness at all"


def unchecked(findings: Findings) -> str:
    """Return what else a claim promises, and could not be looked at."""
    missing = [] if findings.channels else ["g"]
    if findings.seeds is not None and not findings.seeds.telling:
        missing.append("the seed")
    if findings.seeds is not None and findings.noise is None:
        missing.append("the noise")
    return f"; not checked: {' and '.join(missing)}" if missing else ""


def as_json(findings: Findings) -> dict[str, Any]:
    """Return the findings as plain values."""
    seeds, randomizer, channels = findings.seeds, findings.randomizer, findings.channels
    return {
        "subject": findings.subject,
        "claimed_epsilon": as_text(findings.claimed),
        "trials": findings.trials,
        "trials_by_report": findings.devices,
        "retries": findings.retries,
        "confidence": findings.confidence,
        "epsilon_at_least": findings.epsilon,
        "outcome": findings.outcome,
        "verdict": verdict(findings),
        "smallest_excess": channels[0].excess if channels else None,
        "trials_needed": findings.needed,
        "events": [event_as_json(one) for one in findings.events],
        "g": [channel_as_json(channel) for channel in channels] or None,
        "noise": noise_as_json(findings.noise) if findings.noise is not None else None,
        "seed": seeds and {**vars(seeds), "fixed": seeds.fixed, "telling": seeds.telling},
        "starts": findings.starts
        and {
            **vars(findings.starts),
            "fixed": findings.starts.fixed,
            "leaks": findings.starts.leaks,
        },
        **coverage.as_json(findings),
        "exact": randomizer and exact_as_json(randomizer),
    }


def event_as_json(event: Event) -> dict[str, Any]:
    """Return an event as plain values."""
    return {
        "event": event.name,
        "input": "the one before" if event.before else "its own",
        "hits": event.hits,
        "trials": event.trials,
        "epsilon_at_least": event.epsilon,
    }


def channel_as_json(channel: Channel) -> dict[str, Any]:
    """Return what was seen of g as plain values."""
    return {
        "drawn_by": channel.name or None,
        "holds": channel.holds,
        "intervals": channel.intervals,
        "stated": channel.stated,
        "smallest_excess": channel.excess,
    }


def noise_as_json(noise: Noise) -> dict[str, Any]:
    """Return what was seen of the noise as plain values."""
    return {
        "holds": noise.holds,
        "contexts": [context_as_json(context) for context in noise.contexts],
        "blocks": [{**vars(block), "too_even": block in noise.too_even} for block in noise.blocks],
        "names": {**vars(noise.names), "followed": noise.followed} if noise.names is not None else None,
    }


def context_as_json(context: Channel) -> dict[str, Any]:
    """Return what was seen in a context as plain values."""
    return {
        "context": context.name,
        "holds": context.holds,
        "intervals": context.intervals,
        "stated": context.stated,
        "lines": context.one.trials,
        "epsilon_at_least": context.epsilon,
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
