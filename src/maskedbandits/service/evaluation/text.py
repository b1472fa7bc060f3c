"""What a log says, in words for a person, within 80 columns, and as plain values for a program."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from maskedbandits._util import safe_text
from maskedbandits.service.arm_selection import WHOLE
from maskedbandits.service.evaluation import Baseline, Evaluation, Part
from maskedbandits.service.evaluation.estimators import MANY, Estimate, Judged, Shown
from maskedbandits.service.evaluation.intervals import DELTA, Interval
from maskedbandits.service.evaluation.log import Log
from maskedbandits.service.evaluation.policy_trial import Trial, pace_of
from maskedbandits.service.schemas import MILLION

WIDTH = 80
NAME = 17  # columns of a name, beside three estimates
LONG_NAME = 39  # beside one
MOST_ROWS = 30  # arms of a table


class Words:
    """Writes an evaluation for a person, with sure intervals or with approximate ones."""

    def __init__(self, found: Evaluation, approximate: bool, encoding: str) -> None:
        self.found, self.approximate, self.encoding = found, approximate, encoding
        self.has_few = False  # whether a sure interval stands where an approximate one was asked for

    def lines(self) -> list[str]:
        """Return all of it, line by line."""
        whole, log = self.found.whole, self.found.whole.log
        told = [line for note in (title(log), *changes(log)) for line in self.wrapped(note)]
        told += self.part(whole)
        for number, part in enumerate(self.found.periods, 1):
            told += ["", *self.wrapped(f"Period {number} of {len(self.found.periods)}: {span(part.log)}")]
            told += self.part(part)
        told += ["", *(line for note in self.notes() for line in self.wrapped(note))]
        return [safe_text.spelled(line, self.encoding) for line in told]

    def wrapped(self, text: str) -> list[str]:
        """Return a paragraph as lines."""
        return textwrap.wrap(safe_text.one_line(text), WIDTH, break_on_hyphens=False)

    def part(self, part: Part) -> Iterator[str]:
        """Yield the tables of a stretch of the log."""
        yield ""
        yield f"{'How it went':{LONG_NAME}}{'reports':>11}  mean reward"
        for baseline in part.baselines:
            yield self.row(baseline.name, LONG_NAME, f"{baseline.reports:>11,}", self.shown(baseline.estimate))
        yield ""
        yield self.row("One choice", NAME, *(f"{name:19}" for name in ("IPS", "self-normalised", "doubly robust")))
        for judged in (*listed(part.arms), part.uniform):
            yield from self.judged(judged)
        if len(part.arms) > MOST_ROWS:
            yield f"and {len(part.arms) - MOST_ROWS:,} more arms, which --json shows"
        if part.trials:
            yield ""
            yield f"{'Policies that learn':{LONG_NAME}}{'learn from':>11}  mean reward          runs"
        for trial in part.trials:
            yield from self.trial(trial)
        for judged in part.arms:
            if judged.shown is not None and not judged.shown.fits:
                yield from self.wrapped(mismatch(judged.name, judged.shown))

    def judged(self, judged: Judged) -> Iterator[str]:
        """Yield what is said of a choice."""
        if judged.ips is not None and judged.normalised is not None and judged.robust is not None:
            each = (judged.ips, judged.normalised, judged.robust)
            yield self.row(judged.name, NAME, *map(self.shown, each))
            return
        limits = judged.limits or Interval(0.0, 1.0)
        yield self.row(judged.name, NAME, f"not judged: {unseen(judged)};")
        advice = "give arms a floor" if judged.reports else "wait for some"
        yield self.row("", NAME, f"{advice}; it is between {limits.low:.3f} and {limits.high:.3f}")

    def trial(self, trial: Trial) -> Iterator[str]:
        """Yield what is said of a policy that learns."""
        if trial.estimate is None:
            yield self.row(trial.name, LONG_NAME, "  not judged: give arms a floor")
        else:
            shown = f"{self.shown(trial.estimate):19}"
            yield self.row(trial.name, LONG_NAME, f"{trial.told:>11,.0f}", shown, f"± {trial.spread:.3f}")

    def row(self, name: str, width: int, *cells: str) -> str:
        """Return a row; a name that is too long is cut."""
        plain = safe_text.spelled(safe_text.one_line(name), self.encoding)
        first = plain if len(plain) <= width else plain[: width - 3] + "..."
        return f"{first:{width}}{'' if width == LONG_NAME else '  '}{'  '.join(cells)}".rstrip()

    def shown(self, estimate: Estimate) -> str:
        """Return an estimate with its interval; noise may carry it out of [0, 1], where no mean is."""
        interval = estimate.sure
        if self.approximate:
            interval = estimate.approximate or interval
            self.has_few = self.has_few or estimate.approximate is None
        return f"{min(1.0, max(0.0, estimate.value)):.3f} ({interval.low:.3f}–{interval.high:.3f})"

    def notes(self) -> Iterator[str]:
        """Yield what the tables mean."""
        confidence = f"{100 * (1 - DELTA):g} %"
        if self.approximate:
            few = f" With fewer than {MANY} reports of a choice they are sure ones." if self.has_few else ""
            yield f"In brackets: {confidence} intervals by the normal approximation for martingales.{few}"
        else:
            yield (
                f"In brackets: {confidence} intervals that hold for any number of reports (empirical Bernstein for "
                "martingales), each by itself. --approximate gives narrower ones for many reports."
            )
        yield "One choice: what each arm would have earned if everybody had seen it; uniform: an open arm at random."
        if any(trial.estimate for trial in self.found.whole.trials):
            rate = pace_of(self.found.whole.log)
            yield (
                f"Policies that learn: {self.found.repeats} runs with seed {self.found.seed}; runs: their standard "
                f"deviation. A run learns from one report in {rate:,.0f}, at once: the world changes as much faster "
                "for it than for a policy that decides by itself. Windows and other times of a policy are in reports "
                "of the log."
            )


def listed(arms: Sequence[Judged]) -> list[Judged]:
    """Return the arms that a table shows: all, or those that are judged best, in the order of their places."""
    if len(arms) <= MOST_ROWS:
        return list(arms)
    value = {id(arm): -1.0 if arm.robust is None else arm.robust.value for arm in arms}
    best = {id(arm) for arm in sorted(arms, key=lambda arm: -value[id(arm)])[:MOST_ROWS]}
    return [arm for arm in arms if id(arm) in best]


def title(log: Log) -> str:
    """Return what the log holds."""
    epsilons = sorted({int(epsilon) / MILLION for epsilon in set(log.epsilons.tolist())})
    several = f"epsilon {epsilons[0]:g} to {epsilons[-1]:g}; they weigh as much as they tell"
    told = several if len(epsilons) > 1 else f"epsilon {epsilons[0]:g}"
    left = f" Left out: {log.left_out:,} reports of decisions among eligible arms." if log.left_out else ""
    left += f" Held back: {log.held_back:,} reports over the source limit." if log.held_back else ""
    return f"{log.name}: {log.size:,} reports in the order in which they came, {span(log)}; {told}.{left}"


def span(log: Log) -> str:
    """Return which events these are, and from when."""
    first, last = (datetime.fromtimestamp(3600 * int(hour), UTC) for hour in (log.hour.min(), log.hour.max()))
    return f"events {log.seq[0]:,} to {log.seq[-1]:,}, {first:%Y-%m-%d %H:00} to {last:%Y-%m-%d %H:00} UTC"


def changes(log: Log) -> Iterator[str]:
    """Yield which arms were not there all the time, and by what they are judged."""
    for arm in log.arms:
        if arm.start >= arm.end:
            yield f"Arm {arm.name!r} was open for too short a time: no report is surely of a decision that knew it."
        elif arm.start > 0 or arm.end < log.size:
            when = " and ".join(["added later"] * (arm.start > 0) + ["retired"] * (arm.end < log.size))
            yield f"Arm {arm.name!r} was {when}: judged by the {arm.end - arm.start:,} reports of that time."


def unseen(judged: Judged) -> str:
    """Return why a choice is not judged."""
    if not judged.reports:
        return "there is no report of it"
    if judged.unseen < 0.005:
        return "it is not sure that all decisions could show it"
    return f"about {100 * judged.unseen:.0f} % of decisions could not have shown it"


def mismatch(name: str, shown: Shown) -> str:
    """Say that an arm was shown more often, or more rarely, than its probabilities say."""
    ratio = f"{shown.ratio:.3f} ({shown.low:.3f}–{shown.high:.3f})"
    return (
        f"DO NOT TRUST {name!r}: its reports are {ratio} times as many as its probabilities say. Reports of some arms "
        "get lost more often, or the probabilities are wrong."
    )


def as_json(found: Evaluation) -> dict[str, Any]:
    """Return an evaluation as plain values."""
    log = found.whole.log
    return {
        "experiment": log.name,
        "left_out": log.left_out,
        "held_back": log.held_back,
        "least_probability": log.least / WHOLE,
        "confidence": 1 - DELTA,
        "repeats": found.repeats,
        "seed": found.seed,
        **_part(found.whole),
        "periods": [_part(part) for part in found.periods],
    }


def _part(part: Part) -> dict[str, Any]:
    log = part.log
    return {
        "reports": log.size,
        "events": [int(log.seq[0]), int(log.seq[-1])],
        "hours": [int(log.hour.min()), int(log.hour.max())],
        "epsilons": [epsilon / MILLION for epsilon in sorted(set(log.epsilons.tolist()))],
        "baselines": [_baseline(each) for each in part.baselines],
        "arms": [_judged(each) for each in part.arms],
        "uniform": _judged(part.uniform),
        "policies": [_trial(each) for each in part.trials],
    }


def _estimate(found: Estimate | None) -> dict[str, Any] | None:
    if found is None:
        return None
    approximate = None if found.approximate is None else list(found.approximate)
    return {"value": found.value, "interval": list(found.sure), "approximate": approximate}


def _baseline(found: Baseline) -> dict[str, Any]:
    return {"name": found.name, "reports": found.reports, "mean": _estimate(found.estimate)}


def _judged(found: Judged) -> dict[str, Any]:
    document = {
        "name": found.name,
        "reports": found.reports,
        "of": found.considered,
        "judged": found.ips is not None,
        "ips": _estimate(found.ips),
        "self_normalised": _estimate(found.normalised),
        "doubly_robust": _estimate(found.robust),
    }
    if found.limits is not None:
        document |= {"between": list(found.limits), "could_not_show": found.unseen}
    if found.shown is not None:
        document["shown"] = found.shown._asdict()
    return document


def _trial(found: Trial) -> dict[str, Any]:
    return {
        "policy": found.name,
        "judged": found.estimate is not None,
        "mean": _estimate(found.estimate),
        "learnt_from": found.told,
        "spread": found.spread,
    }
