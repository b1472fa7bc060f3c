"""Findings of an audit as text for a person and as plain values for JSON, for bits and for groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from maskedbandits.privacy.audit.contexts import MAX_PAIR_LAG
from maskedbandits.privacy.audit.exhaustive import WORD_BITS, Enumeration
from maskedbandits.privacy.audit.result import AnswerDistance, Channel, Findings, GroupFindings, NoiseFindings
from maskedbandits.privacy.audit.seeds import Seeds
from maskedbandits.privacy.audit.starts import FRACTIONS, Starts
from maskedbandits.privacy.audit.statistics import POWER, Event
from maskedbandits.privacy.exact import as_text
from maskedbandits.privacy.randomized_response import Randomizer

EPSILON_GRID = ("0", "0.01", "0.1", "0.25", "0.5", "1", "2", "4", "8", "16")  # of the exact statement
MAX_CONTEXT_ROWS = 2  # in the table
MAX_STRATUM_ROWS = 3
UNDETECTABLE = (
    "leaks rarer than its resolution, or that wait for their day",
    f"noise that depends on two inputs of which one is further back than {MAX_PAIR_LAG} lines",
    "noise that depends on finer or longer patterns than those tried",
    "seeds of many more than 16 bits that somebody can guess",
    "what is sent by other ways than standard output, standard error, the exit code and the time of a start",
    "whether this is the program in use",
)
UNDETECTABLE_FOR_GROUPS = (
    "an epsilon above the claim that is believed only within less than a quarter of an interval asked for"
)
START_CHECKS = "seeds from a small range or the process number", "standard error", "exit codes", "time"

Rows = Sequence[Sequence[str]]


def format_findings(findings: Findings) -> list[str]:
    """Return lines for a person: a table, facts, and the verdict last."""
    return [
        f"{findings.subject}: {format_subject(findings)}",
        "",
        *align_columns(list_rows(findings)),
        "",
        *(f"{name:21} {text}" for name, text in list_facts(findings)),
        "",
        format_verdict(findings),
    ]


def format_subject(findings: Findings) -> str:
    """Return the number of trials and the confidence."""
    confidence = f"joint confidence {format_percent(findings.confidence)}"
    if isinstance(findings, GroupFindings):
        return f"{findings.trials:,} trials for each group and reward, answers: {findings.answers}, {confidence}"
    devices = f" by bits(), {findings.devices:,} by report()" if findings.devices else ""
    retried = f", every decision sent {findings.retries} times" if findings.retries > 1 else ""
    return f"{findings.trials:,} trials for each input{devices}, {confidence}{retried}"


def align_columns(rows: Rows) -> list[str]:
    """Return rows as lines: the first column is aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]


# The table of events


def list_rows(findings: Findings) -> Rows:
    """Return the table of events. Events of the input before are listed only if they reveal something."""
    telling = [event for event in findings.events if not event.before or event.epsilon > 0]
    if isinstance(findings, GroupFindings):
        distinct = {event.hits: event for event in reversed(telling)}  # several names may mean the same answers
        ordered = sorted(distinct.values(), key=lambda event: -event.epsilon)
        worst = [stratum for stratum in sort_strata(findings.strata) if stratum.epsilon > findings.claimed]
        heading = ("event", "most often", "least often", "epsilon at least")
        return [heading, *map(format_group_event, ordered), *map(format_stratum, worst[:MAX_STRATUM_ROWS])]
    uneven = () if findings.noise is None else findings.noise.uneven[:MAX_CONTEXT_ROWS]
    events = [*telling, *(event for context in uneven for event in (context.zero, context.one))]
    return [("event", "given 0", "given 1", "epsilon at least"), *map(format_event, events)]


def format_event(event: Event) -> tuple[str, str, str, str]:
    """Return an event of bits as a row of the table."""
    first, second = event.shares
    return format_event_name(event), f"{first:.4%}", f"{second:.4%}", format_lower(event.epsilon)


def format_group_event(event: Event) -> tuple[str, str, str, str]:
    """Return an event of groups as a row of the table."""
    most, least = (f"{event.shares[given]:.4%} of {format_input(given)}" for given in event.apart)
    return format_event_name(event), most, least, format_lower(event.epsilon)


def format_event_name(event: Event) -> str:
    """Return the name of an event and its input."""
    return f"{event.name}, by the input before" if event.before else event.name


def format_stratum(stratum: Event) -> tuple[str, str, str, str]:
    """Return a stratum as a row of the table."""
    true, turned = (f"{share:.4%} {what}" for share, what in zip(stratum.shares, ("true", "turned"), strict=True))
    return f"answers{stratum.name}", true, turned, format_lower(stratum.epsilon)


def sort_strata(strata: Sequence[Event]) -> list[Event]:
    """Return strata, the most revealing first."""
    return sorted(strata, key=lambda stratum: -stratum.epsilon)


def format_input(given: int) -> str:
    """Return a group and a reward."""
    return f"group {given // 2}, reward {given % 2}"


def format_lower(epsilon: float) -> str:
    """Return a lower bound, rounded down."""
    return f"{math.floor(epsilon * 1e5) / 1e5:.5f}"


def format_percent(share: float) -> str:
    """Return a share as a percentage without trailing zeros."""
    return f"{100 * share:.10g} %"


# Facts


def list_facts(findings: Findings) -> Iterator[tuple[str, str]]:
    """Yield the name and text of every fact."""
    yield "claimed epsilon", as_text(findings.claimed)
    yield "epsilon at least", format_lower(findings.epsilon)
    if isinstance(findings, GroupFindings):
        yield "g", format_distances(findings)
        yield "strata", format_strata(findings.strata)
    else:
        yield "smallest excess seen", format_excess(findings)
        for channel in findings.channels:
            yield f"g of {channel.name}" if channel.name else "g", format_channel(channel)
        if not findings.channels:
            yield "g", "not checked: reports are more than a 0 or a 1"
    if findings.seeds is not None:
        yield "seed", format_seeds(findings.seeds)
    if findings.seeds is not None or isinstance(findings, GroupFindings):
        yield "noise", format_checked_noise(findings)
    if findings.seeds is not None and not isinstance(findings, GroupFindings):
        yield "short starts", format_starts(findings.starts)
        yield "fractions", format_fractions(findings)
    yield "tried", "; ".join(list_tried(findings))
    yield "not tried", "; ".join(list_untried(findings))
    yield "cannot be seen", "; ".join(list_undetectable(findings))
    if findings.randomizer is not None:
        words, bits = findings.randomizer.flips[0], findings.randomizer.word_bits
        yield "exactly", f"{words} of 2^{bits} words flip a bit: epsilon = {findings.randomizer.exact_epsilon}"


def format_excess(findings: Findings) -> str:
    """Return the smallest detectable excess. It is one number only where reports are bits."""
    if findings.needed is not None:
        return f"none, not even of a randomiser that never flips: {format_advice(findings)}"
    seen = [channel for channel in findings.channels if channel.excess is not None]
    if not seen:
        return "depends on where reports leak"
    excesses = ", ".join(f"{channel.excess:.4f}{channel.name and ' by '}{channel.name}" for channel in seen)
    return f"{excesses}, of symmetric randomised response, with a probability of {format_percent(POWER)} or more"


def format_advice(findings: Findings) -> str:
    """Return the number of trials needed, or the largest claim that the possible trials can judge."""
    needed, most = findings.needed or 0, findings.most
    if needed <= most:
        return f"that takes --trials {needed}"
    highest = math.floor(10 * (findings.claimed - math.log(needed / most))) / 10  # trials grow with e^epsilon
    return f"that takes {needed:,} trials, of {most:,} at most: no claim above {highest:g} can be judged"


def format_channel(channel: Channel) -> str:
    """Return the probability of a report of 1 for each input."""
    pairs = zip((0, 1), channel.intervals, channel.stated, strict=True)
    return "; ".join(
        f"P(1 | {bit}) in [{low:.5g}, {high:.5g}], stated {share:.5g}" for bit, (low, high), share in pairs
    )


def format_distances(findings: GroupFindings) -> str:
    """Return whether answers are masked as stated."""
    if not findings.distances:
        return "not checked: what is written is no answer"
    if findings.off:
        several = f"{len(findings.off):,} of {findings.distances:,} frequencies are not as stated"
        return f"{several}: {format_distance(findings.off[0])}"
    return f"{findings.distances:,} frequencies as stated: of every group, reward and kind of question"


def format_distance(distance: AnswerDistance) -> str:
    """Return a frequency that is not as stated."""
    low, high = distance.interval
    what = "true" if distance.steps == 0 else f"{distance.steps} from the truth"
    of = f"{format_input(2 * distance.group + distance.reward)}{distance.where}"
    return f"answers of {of} are {what} with a probability in [{low:.5g}, {high:.5g}], stated {distance.stated:.5g}"


def format_strata(strata: Sequence[Event]) -> str:
    """Return the number of strata, and the most revealing one."""
    if not strata:
        return "not checked: what is written is no answer"
    worst = sort_strata(strata)[0]
    kinds = f"{len(strata):,} kinds of questions and of earlier inputs"
    return f"{kinds}; epsilon at least {format_lower(worst.epsilon)}{worst.name}"


def format_seeds(seeds: Seeds) -> str:
    """Return how many starts of the program answered alike."""
    if not seeds.is_conclusive:
        return f"cannot be judged: {seeds.runs} runs may agree on {seeds.lines:,} inputs by chance"
    same = f"{seeds.same} of" if seeds.same else "no two of"
    seen = f"{same} {seeds.runs} runs give the same answers to the same {seeds.lines:,} inputs"
    where = f" in {seeds.part}the reports" if seeds.part else ""
    deaf = ", and to different ones" if seeds.ignores_inputs else ""
    return f"{seen}{where}{deaf} (by chance: {seeds.chance:.0e} at most)"


def format_checked_noise(findings: Findings) -> str:
    """Return what was seen of the noise, or why it was not checked."""
    if findings.noise is not None:
        return format_noise(findings.noise)
    is_fixed = findings.seeds is not None and findings.seeds.is_fixed
    return (
        f"not checked: {'runs with one seed are not independent' if is_fixed else 'reports are more than a 0 or a 1'}"
    )


def format_noise(noise: NoiseFindings) -> str:
    """Return what was seen of the noise, the worst if it is not as stated."""
    if noise.names is not None and noise.names.is_repeated:
        same = f"{noise.names.same:,} of {noise.names.decisions:,}"
        return (
            f"two runs mask {same} decisions of one name alike, stated {format_percent(round(noise.names.stated, 4))}"
        )
    if noise.uneven:
        return f"{noise.uneven[0].name}, {format_channel(noise.uneven[0])}"
    if noise.too_even:
        block = noise.too_even[0]
        seen = f"{block.close:,} of {block.blocks:,} blocks of {block.lines:,} lines are flipped as often as stated"
        return f"{seen}, or almost (by chance: {block.chance:.0e})"
    return f"as stated in {len(noise.contexts)} contexts: by position, after earlier inputs and flips, and in each run"


def format_starts(starts: Starts | None) -> str:
    """Return what many short starts have shown."""
    if starts is None:
        return "not made: give --starts, or more --trials"
    seeds = f"{starts.same} of {starts.starts:,} answer the same {starts.lines:,} inputs alike"
    numbered = f"{starts.same_numbered} of {starts.numbered} with one process number do" if starts.numbered else ""
    if not starts.is_conclusive:
        seeds, numbered = f"seeds cannot be judged: starts may agree on {starts.lines:,} inputs by chance", ""
    least = min(starts.chances, key=lambda name: starts.chances[name])
    tells = f"{least} depends on the input by chance with probability {starts.chances[least]:.1g}"
    return "; ".join(filter(None, [seeds, numbered or "process numbers were not repeated", tells]))


def format_fractions(findings: Findings) -> str:
    """Return what rewards between 0 and 1 have shown."""
    if findings.values is None:
        return "not sent: give --starts, or more --trials"
    if not findings.values.events:
        return "not judged: the program takes a 0 or a 1 only"
    epsilon = max(event.epsilon for event in findings.values.events)
    return f"{len(FRACTIONS)} values, {findings.values.lines:,} lines each: epsilon at least {epsilon:.5f}"


# Coverage


def has_checked_g(findings: Findings) -> bool:
    """Tell whether g was checked."""
    return bool(findings.channels) or (isinstance(findings, GroupFindings) and findings.distances > 0)


def has_fractions(findings: Findings) -> bool:
    """Tell whether the program took rewards between 0 and 1."""
    return findings.values is not None and bool(findings.values.events)


def list_tried(findings: Findings) -> list[str]:
    """Return what this audit tried."""
    tried = ["frequencies of reports by input"]
    if has_checked_g(findings):
        tried.append("g")
    if findings.seeds is not None:
        tried.append("the input before")
        tried += ["a fixed seed"] if findings.seeds.is_conclusive else []
    if findings.noise is not None:
        tried += ["noise by position", "noise after earlier flips and inputs", "noise that is too even"]
    if isinstance(findings, GroupFindings) and findings.strata:
        tried += [f"{len(findings.strata):,} strata of questions and earlier rewards", "epsilons above the claim"]
    if findings.noise is not None and findings.noise.names is not None:
        tried.append("noise from names")
    if findings.starts is not None:
        tried += START_CHECKS[0 if findings.starts.is_conclusive else 1 :]
    return [*tried, "rewards between 0 and 1"] if has_fractions(findings) else tried


def list_untried(findings: Findings) -> list[str]:
    """Return what other audits try and this one did not."""
    untried = [] if has_checked_g(findings) else ["g"]
    if findings.seeds is None or not findings.seeds.is_conclusive:
        untried.append("a fixed seed")
    if findings.noise is None:
        untried.append("noise")
    if isinstance(findings, GroupFindings) and not findings.strata:
        untried.append("strata of questions")
    if findings.starts is None or not findings.starts.is_conclusive:
        untried += START_CHECKS if findings.starts is None else START_CHECKS[:1]
    elif not findings.starts.numbered:
        untried.append("seeds from the process number")
    if findings.retries == 1:
        untried.append("several reports of one decision")
    return untried if has_fractions(findings) else [*untried, "rewards between 0 and 1"]


def list_undetectable(findings: Findings) -> list[str]:
    """Return what no audit can detect."""
    if isinstance(findings, GroupFindings):
        return [*UNDETECTABLE, UNDETECTABLE_FOR_GROUPS]
    return list(UNDETECTABLE)


# The verdict


def format_verdict(findings: Findings) -> str:
    """Return the conclusion in one line."""
    claimed, starts = as_text(findings.claimed), findings.starts
    if findings.outcome == "refuted":
        return f"REFUTED: epsilon is at least {format_lower(findings.epsilon)}, the claim was {claimed}."
    if findings.outcome == "fixed seed":
        if findings.seeds is not None and findings.seeds.is_fixed:
            return "REFUTED: the seed is fixed, so anyone who has the program can undo the mask."
        return "REFUTED: seeds come from a small range or the process number: anyone with the program can unmask it."
    if findings.outcome == "side channel" and starts is not None:
        return f"REFUTED: {' and '.join(starts.leaks)} depends on the input."
    if findings.outcome == "other g":
        return f"REFUTED: {format_other_g(findings)}: a learner that believes it would be misled."
    if findings.outcome == "uneven noise" and findings.noise is not None:
        return f"REFUTED: {format_noise(findings.noise)}: {explain_noise(findings.noise)}."
    if findings.outcome == "cannot tell":
        return f"Cannot tell: {explain_doubt(findings)}."
    together = " for group, arm and reward together" if isinstance(findings, GroupFindings) else ""
    return f"Not refuted: nothing that was seen contradicts epsilon = {claimed}{together}{format_unchecked(findings)}."


def format_other_g(findings: Findings) -> str:
    """Return how g differs from the stated one, and what was seen of epsilon."""
    if isinstance(findings, GroupFindings):
        return format_distance(findings.off[0])
    if all(channel.is_private for channel in findings.channels):
        return "epsilon holds, but g is not the stated one"
    return f"g is not the stated one, and whether epsilon holds {findings.trials:,} trials cannot tell"


def explain_noise(noise: NoiseFindings) -> str:
    """Return what follows from noise that is not as stated."""
    if noise.names is not None and noise.names.is_repeated:
        return "anyone who knows the name can undo the mask"
    if noise.uneven:
        return "reports are not all masked alike, each on its own"
    return "noise is dealt, not drawn, so some reports tell of others"


def explain_doubt(findings: Findings) -> str:
    """Return why the audit cannot tell."""
    if findings.needed is not None:
        return f"{findings.trials:,} trials would not even see a randomiser that never flips; {format_advice(findings)}"
    return "runs answer alike, whatever they are asked: a fixed seed, or no randomness at all"


def format_unchecked(findings: Findings) -> str:
    """Return what else a claim promises and was not checked."""
    unjudged = ["the seed"] if findings.seeds is not None and not findings.seeds.is_conclusive else []
    is_program = findings.seeds is not None or isinstance(findings, GroupFindings)
    noise = ["the noise"] if is_program and findings.noise is None else []
    g = [] if has_checked_g(findings) else ["g"]
    missing = [*g, *noise, *unjudged] if isinstance(findings, GroupFindings) else [*g, *unjudged, *noise]
    return f"; not checked: {' and '.join(missing)}" if missing else ""


# JSON


def as_json(findings: Findings) -> dict[str, Any]:
    """Return the findings as plain values."""
    if isinstance(findings, GroupFindings):
        return _groups_as_json(findings)
    channels, starts = findings.channels, findings.starts
    return {
        "subject": findings.subject,
        "claimed_epsilon": as_text(findings.claimed),
        "trials": findings.trials,
        "trials_by_report": findings.devices,
        "retries": findings.retries,
        "confidence": findings.confidence,
        "epsilon_at_least": findings.epsilon,
        "outcome": findings.outcome,
        "verdict": format_verdict(findings),
        "smallest_excess": channels[0].excess if channels else None,
        "trials_needed": findings.needed,
        "events": [event_as_json(event) for event in findings.events],
        "g": [channel_as_json(channel) for channel in channels] or None,
        "noise": noise_as_json(findings.noise),
        "seed": seeds_as_json(findings.seeds),
        "starts": starts and {**vars(starts), "fixed": starts.is_fixed, "leaks": starts.leaks},
        **coverage_as_json(findings),
        "exact": findings.randomizer and exact_as_json(findings.randomizer),
    }


def _groups_as_json(findings: GroupFindings) -> dict[str, Any]:
    """Return the findings of groups as plain values."""
    return {
        "subject": findings.subject,
        "groups": findings.groups,
        "answers": findings.answers,
        "claimed_epsilon": as_text(findings.claimed),
        "trials": findings.trials,
        "confidence": findings.confidence,
        "epsilon_at_least": findings.epsilon,
        "outcome": findings.outcome,
        "verdict": format_verdict(findings),
        "trials_needed": findings.needed,
        "events": [event_as_json(event) for event in findings.events],
        "g": {
            "frequencies": findings.distances,
            "not_as_stated": [{**vars(distance), "interval": distance.interval} for distance in findings.off],
        },
        **coverage_as_json(findings),
        "strata": [event_as_json(stratum) for stratum in sort_strata(findings.strata)],
        "noise": noise_as_json(findings.noise),
        "seed": seeds_as_json(findings.seeds),
    }


def coverage_as_json(findings: Findings) -> dict[str, list[str]]:
    """Return what was tried, what was not, and what no audit can detect."""
    return {
        "tried": list_tried(findings),
        "not_tried": list_untried(findings),
        "cannot_be_seen": list_undetectable(findings),
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


def seeds_as_json(seeds: Seeds | None) -> dict[str, Any] | None:
    """Return what starting the program several times has shown."""
    if seeds is None:
        return None
    return {**vars(seeds), "fixed": seeds.is_fixed, "telling": seeds.is_conclusive}


def noise_as_json(noise: NoiseFindings | None) -> dict[str, Any] | None:
    """Return what was seen of the noise as plain values."""
    if noise is None:
        return None
    return {
        "holds": noise.holds,
        "contexts": [context_as_json(context) for context in noise.contexts],
        "blocks": [{**vars(block), "too_even": block in noise.too_even} for block in noise.blocks],
        "names": {**vars(noise.names), "followed": noise.names.is_repeated} if noise.names is not None else None,
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


# Exact statements


def format_randomizers(randomizers: Sequence[Randomizer]) -> list[str]:
    """Return the exact statements of randomisers as a table."""
    heading = ("stated epsilon", "a report is true", "words of 2^64 that flip", "real epsilon, rounded up")
    rows = []
    for randomizer in randomizers:
        exact = exact_as_json(randomizer)
        truth = f"{float(randomizer.p00):.6%}"
        rows.append((exact["epsilon"], truth, exact["words_that_flip"], exact["epsilon_at_most"]))
    return align_columns([heading, *rows])


def exact_as_json(randomizer: Randomizer) -> dict[str, Any]:
    """Return the exact statement of a randomiser. Numbers above 2^53 are texts, for readers of floats."""
    exact = randomizer.exact_epsilon
    return {
        "epsilon": as_text(randomizer.epsilon),
        "word_bits": randomizer.word_bits,
        "words_that_flip": str(randomizer.flips[0]),
        "odds": [str(exact.odds.numerator), str(exact.odds.denominator)],
        "epsilon_at_most": f"{exact.rounded_up():f}",
    }


def format_enumerations(enumerations: Sequence[Enumeration]) -> list[str]:
    """Return the largest ratios over all words as a table."""
    heading = ("groups", "answers", "questions", "stated epsilon", "e^epsilon", "largest ratio", "at most e^epsilon")
    rows = [
        (
            str(one.groups),
            one.answers,
            f"{one.questions:,}",
            as_text(one.epsilon),
            f"{math.exp(one.epsilon):.6f}",
            format_ratio(one.ratio),
            "yes" if one.holds else "NO",
        )
        for one in enumerations
    ]
    return align_columns([heading, *rows])


def format_ratio(ratio: Fraction | float | None) -> str:
    """Return the largest ratio of counts."""
    if ratio is None:
        return "finer than such words"
    return f"{ratio} = {float(ratio):.6f}" if isinstance(ratio, Fraction) else "infinite"


def enumeration_as_json(enumeration: Enumeration) -> dict[str, Any]:
    """Return an enumeration as plain values."""
    ratio = enumeration.ratio
    return {
        "groups": enumeration.groups,
        "answers": enumeration.answers,
        "questions": enumeration.questions,
        "epsilon": as_text(enumeration.epsilon),
        "word_bits": WORD_BITS,
        "largest_ratio": [ratio.numerator, ratio.denominator] if isinstance(ratio, Fraction) else None,
        "holds": enumeration.holds,
    }
