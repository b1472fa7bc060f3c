"""The table of lost reports matches its model, which a simulation and the client's own constants confirm."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from docs import blocks  # noqa: E402 - from the folder above
from docs import report_times as page  # noqa: E402


def test_tables_match_the_code() -> None:
    assert blocks.names(page.PAGE) == list(page.TABLES)
    assert all(blocks.read(page.PAGE, which) == table() for which, table in page.TABLES.items())


def test_client_has_the_times_of_the_model() -> None:
    client = (ROOT / "client" / "client.js").read_text(encoding="utf-8")
    assert f"const WAKE = {page.GAP_S:g};" in client
    assert page.GAP_S == page.MINUTE_S
    assert f"const PUNCTUAL = {1} / {page.MINUTE_S / page.PUNCTUAL_S:g};" in client
    worker = (ROOT / "client" / "report-worker.js").read_text(encoding="utf-8")
    assert re.search(r"const LIFE = (\d+);", worker)[1] == f"{page.WORKER_LIFE_S:g}"  # type: ignore[index]


def simulate_visits(law: page.Law, report_after: float, jitter: float, life: float, visits: int) -> tuple[float, float]:
    """Return the share of lost reports, and the share of clicks of the others, visit by visit."""
    rng = np.random.default_rng(1)
    arrived = clicks = 0
    unit, mean = law.mean / 1.1, _mean_of_weibull(law.shape) if law.shape > 0 else 1.0
    for _ in range(visits):
        engaged = rng.random() < 0.1
        stay = unit * (2 if engaged else 1)
        if law.shape > 0:
            stay *= rng.weibull(law.shape) / mean
        else:
            stay *= rng.lognormal(-0.5 * law.shape**2, -law.shape)
        departure = report_after + 60 + rng.uniform(0, jitter - 60) + rng.uniform(2, 62)
        if stay >= departure or departure <= life:
            arrived += 1
            clicks += engaged and rng.uniform(0, stay) <= report_after
    return 1 - arrived / visits, clicks / max(arrived, 1)


def _mean_of_weibull(shape: float) -> float:
    """Return the mean of a Weibull law of scale 1 by integration of its survival function."""
    points = np.linspace(0, 400, 2_000_001)
    return float(np.trapezoid(np.exp(-(points**shape)), points))


@pytest.mark.parametrize("law", page.LAWS[1:])
@pytest.mark.parametrize(("report_after", "jitter", "life"), [(60, 60, 0.0), (60, 900, 0.0), (180, 60, 290.0)])
def test_model_agrees_with_simulated_visits(law: page.Law, report_after: float, jitter: float, life: float) -> None:
    lost, estimate = simulate_visits(law, report_after, jitter, life, visits := 20_000)
    outcome = page.play(law, report_after, jitter, life)
    assert abs(outcome.lost - lost) < 0.015  # three times the largest standard error
    arrived = (1 - lost) * visits
    assert abs(outcome.estimate - estimate) < 4 * (0.25 * 4 * 0.1 / arrived) ** 0.5 + 0.01
