"""Writes the example and the table of docs/offline_evaluation.md: `python -m docs.offline_evaluation`."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from docs import blocks
from docs.privacy import markdown
from maskedbandits.policies import make_policy
from maskedbandits.service.arm_selection import DRAWS, PARTS, to_parts
from maskedbandits.service.evaluation import evaluate, read_log
from maskedbandits.service.evaluation.estimators import estimate_arms
from maskedbandits.service.evaluation.text import EvaluationText
from maskedbandits.service.schemas import MILLION
from maskedbandits.service.state import get_mask
from maskedbandits.service.storage.models import EventRow
from maskedbandits.service.tokens import FLAG_FLOOR, FLAG_HOLDOUT

PAGE = Path(__file__).with_suffix(".md")
POLICIES, PERIODS = ("klucb-cf", "sw-klucb-cf:window=10000"), 2
OPTIONS = " ".join([*(f"--policy {policy}" for policy in POLICIES), f"--periods {PERIODS}"])
COMMAND = f"maskedbandits evaluate headlines --storage sqlite:///bandits.db \\\n    {OPTIONS}"
NAMES = ("plain", "question", "number")
MEANS = ((0.30, 0.50, 0.40), (0.30, 0.35, 0.55))  # before and after the world changes, in the middle
FLOOR, HOLDOUT, EPSILON = 0.05, 0.05, MILLION
START = 494_000  # the hour of the first report
REPORTS, AN_HOUR = 40_000, 250
LOGS = 400
SIZES = ((500, 0.1), (2000, 0.1), (2000, 0.02), (20_000, 0.02))  # reports, and the floor


def made_up(reports: int, means: Sequence[Sequence[float]], floor: float, holdout: float, seed: int) -> list[EventRow]:
    """Return the log of a made-up service with klucb-cf, whose reports come at once; means are of equal parts of it."""
    rng, mask, arms = random.Random(seed), get_mask(EPSILON), len(means[0])  # noqa: S311 -- nobody is protected
    policy = make_policy("klucb-cf", arms=arms, corruption=mask)
    config = {"epsilon": 1.0, "floor": floor, "holdout": holdout, "report_after": 60}
    detail = {"config": config, "default_arm": 0, "arms": [{"name": name} for name in NAMES[:arms]]}
    events = [EventRow(1, "create", None, None, None, None, None, None, START, json.dumps(detail))]
    share, held = to_parts(floor), to_parts(holdout)
    for place in range(reports):
        chosen, lot = policy.choose(), rng.randrange(PARTS)
        arm, flags = chosen, 0
        if lot < share * arms:
            arm, flags = lot // share, FLAG_FLOOR
        elif lot < share * arms + held:
            arm, flags = 0, FLAG_HOLDOUT
        own = share + (held if arm == 0 else 0) + (PARTS - share * arms - held if arm == chosen else 0)
        reward = rng.random() < means[place * len(means) // reports][arm]
        bit = int(reward == (rng.random() < mask.p00))
        policy.expire(chosen)
        policy.observe(arm, bit)
        hour = START + place // AN_HOUR
        events.append(EventRow(place + 2, "report", arm, bit, EPSILON, DRAWS * own, flags, None, hour, None))
    return events


def example() -> str:
    """Return what the command prints."""
    log = read_log("headlines", made_up(REPORTS, MEANS, FLOOR, HOLDOUT, seed=1))
    found = evaluate(log, POLICIES, periods=PERIODS)
    return "\n".join(["```text", f"$ {COMMAND}", *EvaluationText(found, False, "utf-8").format_lines(), "```"])


def coverage() -> str:
    """Return how often intervals miss the truth, and how wide they are where there are both."""
    rows = []
    for reports, floor in SIZES:
        sure, approximate, widths = [], [], []
        for seed in range(LOGS):
            judged = estimate_arms(read_log("log", made_up(reports, MEANS[:1], floor, 0.0, seed)))
            for each, mean in zip(judged[:-1], MEANS[0], strict=True):
                for found in filter(None, (each.ips, each.normalised, each.robust)):
                    sure.append(not found.interval.low <= mean <= found.interval.high)
                    if found.approximate is not None:
                        approximate.append(not found.approximate.low <= mean <= found.approximate.high)
                        widths.append([np.ptp(found.interval), np.ptp(found.approximate)])
        wide, narrow = (f"{width:.3f}" for width in np.mean(widths, axis=0))
        missed = [f"{100 * np.mean(which):.2f} %" for which in (sure, approximate)]
        rows.append([f"{reports:,}", f"{floor:g}", missed[0], missed[1], wide, narrow])
    return markdown(
        ["reports", "floor", "sure: missed", "approximate: missed", "sure: width", "approximate: width"], rows
    )


BLOCKS = {"example": example, "coverage": coverage}


def main() -> None:
    """Write what is asked for, or all, into the page."""
    blocks.fill(PAGE, {which: BLOCKS[which]() for which in sys.argv[1:] or BLOCKS})


if __name__ == "__main__":
    main()
