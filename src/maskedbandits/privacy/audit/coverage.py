"""What an audit has tried, what it has not, and what no audit can see, in words."""

from __future__ import annotations

from collections.abc import Iterable

from maskedbandits.privacy.audit.fractions import VALUES
from maskedbandits.privacy.audit.input_history import LONGEST_PAIR
from maskedbandits.privacy.audit.result import Findings, GroupFindings
from maskedbandits.privacy.audit.starts import Starts

NEVER = (
    "leaks rarer than its resolution, or that wait for their day",
    f"noise that depends on two inputs of which one is further back than {LONGEST_PAIR} lines",
    "noise that depends on finer or longer patterns than those tried",
    "seeds of many more than 16 bits that somebody can guess",
    "what is sent by other ways than standard output, standard error, the exit code and the time of a start",
    "whether this is the program in use",
)
GROUPS_NEVER = "an epsilon above the claim that is believed only within less than a quarter of an interval asked for"
STARTS = "seeds from a small range or the process number", "standard error", "exit codes", "time"


def tried(findings: Findings) -> list[str]:
    """Return what was tried."""
    found = ["frequencies of reports by input"]
    if findings.channels or (isinstance(findings, GroupFindings) and findings.distances):
        found.append("g")
    if findings.seeds is not None:
        found.append("the input before")
        found += ["a fixed seed"] if findings.seeds.telling else []
    if findings.noise is not None:
        found += ["noise by position", "noise after earlier flips and inputs", "noise that is too even"]
    if isinstance(findings, GroupFindings) and findings.strata:
        found += [f"{len(findings.strata):,} strata of questions and earlier rewards", "epsilons above the claim"]
    if findings.noise is not None and findings.noise.names is not None:
        found.append("noise from names")
    if findings.starts is not None:
        found += STARTS[0 if findings.starts.telling else 1 :]
    return [*found, "rewards between 0 and 1"] if has_values(findings) else found


def has_values(findings: Findings) -> bool:
    """Tell whether the program took rewards between 0 and 1."""
    return findings.values is not None and bool(findings.values.events)


def values_text(findings: Findings) -> str:
    """Return what rewards between 0 and 1 have shown."""
    if findings.values is None:
        return "not sent: give --starts, or more --trials"
    if not findings.values.events:
        return "not judged: the program takes a 0 or a 1 only"
    epsilon = max(event.epsilon for event in findings.values.events)
    return f"{len(VALUES)} values, {findings.values.lines:,} lines each: epsilon at least {epsilon:.5f}"


def untried(findings: Findings) -> list[str]:
    """Return what an audit tries elsewhere, and this one did not."""
    found = []
    if not (findings.channels or (isinstance(findings, GroupFindings) and findings.distances)):
        found.append("g")
    if findings.seeds is None or not findings.seeds.telling:
        found.append("a fixed seed")
    if findings.noise is None:
        found.append("noise")
    if isinstance(findings, GroupFindings) and not findings.strata:
        found.append("strata of questions")
    if findings.starts is None or not findings.starts.telling:
        found += STARTS if findings.starts is None else STARTS[:1]
    elif not findings.starts.numbered:
        found.append("seeds from the process number")
    if findings.retries == 1:
        found.append("several reports of one decision")
    return found if has_values(findings) else [*found, "rewards between 0 and 1"]


def facts(findings: Findings) -> Iterable[tuple[str, str]]:
    """Yield what was tried, what was not, and what no audit sees."""
    yield "tried", "; ".join(tried(findings))
    yield "not tried", "; ".join(untried(findings))
    yield "cannot be seen", "; ".join(unseen(findings))


def unseen(findings: Findings) -> list[str]:
    """Return what no audit sees."""
    return [*NEVER, GROUPS_NEVER] if isinstance(findings, GroupFindings) else list(NEVER)


def as_json(findings: Findings) -> dict[str, list[str]]:
    """Return all of it as plain values."""
    return {"tried": tried(findings), "not_tried": untried(findings), "cannot_be_seen": unseen(findings)}


def starts_text(starts: Starts | None) -> str:
    """Return what many short starts have shown."""
    if starts is None:
        return "not made: give --starts, or more --trials"
    seeds = f"{starts.same} of {starts.starts:,} answer the same {starts.lines:,} inputs alike"
    numbered = f"{starts.same_numbered} of {starts.numbered} with one process number do" if starts.numbered else ""
    if not starts.telling:
        seeds, numbered = f"seeds cannot be judged: starts may agree on {starts.lines:,} inputs by chance", ""
    least = min(starts.chances, key=lambda name: starts.chances[name])
    tells = f"{least} depends on the input by chance with probability {starts.chances[least]:.1g}"
    return "; ".join(filter(None, [seeds, numbered or "process numbers were not repeated", tells]))
