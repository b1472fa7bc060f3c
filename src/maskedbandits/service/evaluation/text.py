"""An evaluation as text within 80 columns, and as plain values for JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from maskedbandits._util import safe_text
from maskedbandits.service.arm_selection import WHOLE
from maskedbandits.service.evaluation import Baseline, Evaluation, Part
from maskedbandits.service.evaluation.estimators import (
    MIN_REPORTS_FOR_NORMAL,
    ChoiceEstimate,
    MeanEstimate,
    ShowRatio,
)
from maskedbandits.service.evaluation.intervals import DELTA, Interval
from maskedbandits.service.evaluation.log import ReportLog
from maskedbandits.service.evaluation.policy_trial import PolicyEstimate, compute_pace
from maskedbandits.service.schemas import MILLION

WIDTH = 80
NAME_WIDTH = 17  # beside three estimates
LONG_NAME_WIDTH = 39  # beside one
MAX_ROWS = 30  # arms of a table
ESTIMATORS = ("IPS", "self-normalised", "doubly robust")


class EvaluationText:
    """Formats an evaluation, with exact or approximate intervals."""

    def __init__(self, evaluation: Evaluation, approximate: bool, encoding: str) -> None:
        self.evaluation, self.approximate, self.encoding = evaluation, approximate, encoding
        self.has_few = False  # whether an exact interval replaces an approximate one

    def format_lines(self) -> list[str]:
        """Return all lines."""
        whole, log = self.evaluation.whole, self.evaluation.whole.log
        lines = [line for note in (describe_log(log), *describe_arms(log)) for line in self.wrap(note)]
        lines += self.format_part(whole)
        for number, part in enumerate(self.evaluation.periods, 1):
            title = f"Period {number} of {len(self.evaluation.periods)}: {describe_span(part.log)}"
            lines += ["", *self.wrap(title), *self.format_part(part)]
        lines += ["", *(line for note in self.format_notes() for line in self.wrap(note))]
        return [safe_text.spell(line, self.encoding) for line in lines]

    def wrap(self, text: str) -> list[str]:
        """Return a paragraph as lines."""
        return textwrap.wrap(safe_text.one_line(text), WIDTH, break_on_hyphens=False)

    def format_part(self, part: Part) -> Iterator[str]:
        """Yield the tables of a part of the log."""
        yield ""
        yield f"{'How it went':{LONG_NAME_WIDTH}}{'reports':>11}  mean reward"
        for baseline in part.baselines:
            estimate = self.format_estimate(baseline.estimate)
            yield self.format_row(baseline.name, LONG_NAME_WIDTH, f"{baseline.reports:>11,}", estimate)
        yield ""
        yield self.format_row("One choice", NAME_WIDTH, *(f"{name:19}" for name in ESTIMATORS))
        for choice in (*select_arms(part.arms), part.uniform):
            yield from self.format_choice(choice)
        if len(part.arms) > MAX_ROWS:
            yield f"and {len(part.arms) - MAX_ROWS:,} more arms, which --json shows"
        if part.policies:
            yield ""
            yield f"{'Policies that learn':{LONG_NAME_WIDTH}}{'learn from':>11}  mean reward          runs"
        for policy in part.policies:
            yield self.format_policy(policy)
        for choice in part.arms:
            if choice.show_ratio is not None and not choice.show_ratio.fits:
                yield from self.wrap(format_mismatch(choice.name, choice.show_ratio))

    def format_choice(self, choice: ChoiceEstimate) -> Iterator[str]:
        """Yield the rows of a choice."""
        if choice.ips is not None and choice.normalised is not None and choice.robust is not None:
            each = (choice.ips, choice.normalised, choice.robust)
            yield self.format_row(choice.name, NAME_WIDTH, *map(self.format_estimate, each))
            return
        limits = choice.limits or Interval(0.0, 1.0)
        yield self.format_row(choice.name, NAME_WIDTH, f"not judged: {explain_no_estimate(choice)};")
        advice = "give arms a floor" if choice.reports else "wait for some"
        yield self.format_row("", NAME_WIDTH, f"{advice}; it is between {limits.low:.3f} and {limits.high:.3f}")

    def format_policy(self, policy: PolicyEstimate) -> str:
        """Return the row of a policy that learns."""
        if policy.estimate is None:
            return self.format_row(policy.name, LONG_NAME_WIDTH, "  not judged: give arms a floor")
        cells = f"{policy.learned:>11,.0f}", f"{self.format_estimate(policy.estimate):19}", f"± {policy.spread:.3f}"
        return self.format_row(policy.name, LONG_NAME_WIDTH, *cells)

    def format_row(self, name: str, width: int, *cells: str) -> str:
        """Return a row with its name cut to the width."""
        plain = safe_text.spell(safe_text.one_line(name), self.encoding)
        first = plain if len(plain) <= width else plain[: width - 3] + "..."
        return f"{first:{width}}{'' if width == LONG_NAME_WIDTH else '  '}{'  '.join(cells)}".rstrip()

    def format_estimate(self, estimate: MeanEstimate) -> str:
        """Return an estimate, clipped to [0, 1], with its interval."""
        interval = estimate.interval
        if self.approximate:
            interval = estimate.approximate or interval
            self.has_few = self.has_few or estimate.approximate is None
        return f"{min(1.0, max(0.0, estimate.value)):.3f} ({interval.low:.3f}–{interval.high:.3f})"

    def format_notes(self) -> Iterator[str]:
        """Yield the legend of the tables."""
        confidence = f"{100 * (1 - DELTA):g} %"
        if self.approximate:
            few = (
                f" With fewer than {MIN_REPORTS_FOR_NORMAL} reports of a choice they are sure ones."
                if self.has_few
                else ""
            )
            yield f"In brackets: {confidence} intervals by the normal approximation for martingales.{few}"
        else:
            yield (
                f"In brackets: {confidence} intervals that hold for any number of reports (empirical Bernstein for "
                "martingales), each by itself. --approximate gives narrower ones for many reports."
            )
        yield "One choice: what each arm would have earned if everybody had seen it; uniform: an open arm at random."
        if any(policy.estimate for policy in self.evaluation.whole.policies):
            rate, repeats, seed = compute_pace(self.evaluation.whole.log), self.evaluation.repeats, self.evaluation.seed
            yield (
                f"Policies that learn: {repeats} runs with seed {seed}; runs: their standard "
                f"deviation. A run learns from one report in {rate:,.0f}, at once: the world changes as much faster "
                "for it than for a policy that decides by itself. Windows and other times of a policy are in reports "
                "of the log."
            )


def select_arms(arms: Sequence[ChoiceEstimate]) -> list[ChoiceEstimate]:
    """Return the arms of a table: all, or those with the highest estimates, by index."""
    if len(arms) <= MAX_ROWS:
        return list(arms)
    value = {id(arm): -1.0 if arm.robust is None else arm.robust.value for arm in arms}
    best = {id(arm) for arm in sorted(arms, key=lambda arm: -value[id(arm)])[:MAX_ROWS]}
    return [arm for arm in arms if id(arm) in best]


def describe_log(log: ReportLog) -> str:
    """Return a summary of a log."""
    epsilons = _list_epsilons(log)
    several = f"epsilon {epsilons[0]:g} to {epsilons[-1]:g}; they weigh as much as they tell"
    privacy = several if len(epsilons) > 1 else f"epsilon {epsilons[0]:g}"
    left = f" Left out: {log.left_out:,} reports of decisions among eligible arms." if log.left_out else ""
    left += f" Held back: {log.held_back:,} reports over the source limit." if log.held_back else ""
    if log.first_seq > 1:
        left += f" The log starts at event {log.first_seq:,}: earlier events were removed by retention."
    return f"{log.name}: {log.size:,} reports in the order in which they came, {describe_span(log)}; {privacy}.{left}"


def describe_span(log: ReportLog) -> str:
    """Return the events and hours of a log."""
    first, last = (datetime.fromtimestamp(3600 * int(hour), UTC) for hour in (log.hour.min(), log.hour.max()))
    return f"events {log.seq[0]:,} to {log.seq[-1]:,}, {first:%Y-%m-%d %H:00} to {last:%Y-%m-%d %H:00} UTC"


def describe_arms(log: ReportLog) -> Iterator[str]:
    """Yield a note for each arm that was added or retired."""
    for arm in log.arms:
        if arm.start >= arm.end:
            yield f"Arm {arm.name!r} was open for too short a time: no report is surely of a decision that knew it."
        elif arm.start > 0 or arm.end < log.size:
            when = " and ".join(["added later"] * (arm.start > 0) + ["retired"] * (arm.end < log.size))
            yield f"Arm {arm.name!r} was {when}: judged by the {arm.end - arm.start:,} reports of that time."


def explain_no_estimate(choice: ChoiceEstimate) -> str:
    """Return the reason why a choice has no estimate."""
    if not choice.reports:
        return "there is no report of it"
    if choice.unseen < 0.005:
        return "it is not sure that all decisions could show it"
    return f"about {100 * choice.unseen:.0f} % of decisions could not have shown it"


def format_mismatch(name: str, shown: ShowRatio) -> str:
    """Return the warning for an arm that was shown more, or less, often than its probabilities say."""
    ratio = f"{shown.ratio:.3f} ({shown.low:.3f}–{shown.high:.3f})"
    return (
        f"DO NOT TRUST {name!r}: its reports are {ratio} times as many as its probabilities say. Reports of some arms "
        "get lost more often, or the probabilities are wrong."
    )


def to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as plain values."""
    log = evaluation.whole.log
    return {
        "experiment": log.name,
        "left_out": log.left_out,
        "held_back": log.held_back,
        "first_seq": log.first_seq,
        "least_probability": log.min_probability / WHOLE,
        "confidence": 1 - DELTA,
        "repeats": evaluation.repeats,
        "seed": evaluation.seed,
        **_part_to_json(evaluation.whole),
        "periods": [_part_to_json(part) for part in evaluation.periods],
    }


def _part_to_json(part: Part) -> dict[str, Any]:
    log = part.log
    return {
        "reports": log.size,
        "events": [int(log.seq[0]), int(log.seq[-1])],
        "hours": [int(log.hour.min()), int(log.hour.max())],
        "epsilons": _list_epsilons(log),
        "baselines": [_baseline_to_json(each) for each in part.baselines],
        "arms": [_choice_to_json(each) for each in part.arms],
        "uniform": _choice_to_json(part.uniform),
        "policies": [_policy_to_json(each) for each in part.policies],
    }


def _list_epsilons(log: ReportLog) -> list[float]:
    return [epsilon / MILLION for epsilon in sorted(set(log.epsilon.tolist()))]


def _estimate_to_json(estimate: MeanEstimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    approximate = None if estimate.approximate is None else list(estimate.approximate)
    return {"value": estimate.value, "interval": list(estimate.interval), "approximate": approximate}


def _baseline_to_json(baseline: Baseline) -> dict[str, Any]:
    return {"name": baseline.name, "reports": baseline.reports, "mean": _estimate_to_json(baseline.estimate)}


def _choice_to_json(choice: ChoiceEstimate) -> dict[str, Any]:
    document = {
        "name": choice.name,
        "reports": choice.reports,
        "of": choice.considered,
        "judged": choice.ips is not None,
        "ips": _estimate_to_json(choice.ips),
        "self_normalised": _estimate_to_json(choice.normalised),
        "doubly_robust": _estimate_to_json(choice.robust),
    }
    if choice.limits is not None:
        document |= {"between": list(choice.limits), "could_not_show": choice.unseen}
    if choice.show_ratio is not None:
        document["shown"] = choice.show_ratio._asdict()
    return document


def _policy_to_json(policy: PolicyEstimate) -> dict[str, Any]:
    return {
        "policy": policy.name,
        "judged": policy.estimate is not None,
        "mean": _estimate_to_json(policy.estimate),
        "learnt_from": policy.learned,
        "spread": policy.spread,
    }
