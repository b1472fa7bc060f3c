"""The benchmarks measure what they say, on a small scale; their figures are nobody's goal here."""

import functools
import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bench import (
    alarms,
    bursts,
    cold,
    context,
    delays,
    features,
    gaps,
    goals,
    growth,
    liars,
    lifecycle,
    peers,
    regret,
    speed,
    store_size,
    suite,
    sweep,
    tries,
)

from maskedbandits import ContextualProblem, Problem, RandomizedResponse, make_featured, make_policy, simulate, theory


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"ARMS": (3,), "EPSILONS": (math.inf,), "FREE_ARMS": (2,), "FREE_SEGMENTS": (3,), "FREE_EPSILONS": (1.0,)}
    many = {"MANY_ARMS": (20,), "MANY_EPSILONS": (1.0,), "SHORT_HORIZON": 500}
    for name, value in {**one, **many, "HORIZON": 3000}.items():
        monkeypatch.setattr(suite, name, value)
    for name in ("FEWEST", "MOST", "ENOUGH"):
        monkeypatch.setattr(regret, name, 2)


@pytest.mark.usefixtures("small")
def test_regret_report_has_table_figure_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["regret", "--policies", "klucb-cf", "uniform", "--out", str(tmp_path)])
    regret.main()
    document = json.loads((tmp_path / "regret.json").read_text(encoding="utf-8"))
    first, last = document["policies"]
    names = [name for problems in first["ratios"].values() for name in problems]
    assert sorted(document["reference"]) == sorted(names)
    assert {family: len(problems) for family, problems in first["ratios"].items()} == {
        "stationary": 1,
        "abrupt": 2,
        "singly": 1,
        "drift": 2,
        "any gap": 1,
        "many arms": 2,
    }
    assert last["means"]["abrupt"] > 2 * first["means"]["abrupt"]
    for row in (first, last):
        abrupt = row["ratios"]["abrupt"].values()
        assert row["means"]["abrupt"] == pytest.approx(math.prod(abrupt) ** (1 / 2))
        merits = [merit for problems in row["merits"].values() for merit in problems.values()]
        assert row["merit"] == pytest.approx(sum(merits) / len(names))
        assert row["worst"]["abrupt"] == max(abrupt) == row["ratios"]["abrupt"][row["worst_case"]]
    assert (tmp_path / "regret.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert f"| uniform | {last['merit']:.3f} ± " in printed
    assert " figure of merit | stationary | abrupt | singly | drift | any gap | many arms | worst |" in printed


@pytest.mark.usefixtures("small")
def test_training_problems_are_others() -> None:
    reported, training = (list(suite.cases(3000, training=each)) for each in (False, True))
    assert [case.name for case in reported] == [case.name for case in training]
    assert len({case.name for case in reported}) == len(reported)
    for one, other in zip(reported, training, strict=True):
        assert not np.array_equal(one.problem.means, other.problem.means)


@pytest.mark.parametrize(("epsilon", "slope"), [(1.0, math.tanh(0.5)), (math.inf, 1.0)])
def test_scale_of_regret_is_minimax(epsilon: float, slope: float) -> None:
    means, starts = [[0.1, 0.9], [0.9, 0.1], [0.1, 0.9]], [0, 100, 300]
    problem = Problem(means, starts, 600, RandomizedResponse.from_epsilon(epsilon))
    assert regret.scale_of(problem) == pytest.approx(60 / slope)


def test_drift_has_as_many_segments_as_oracle_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regret, "RHYTHMS", (4,))
    problem = Problem([[0.1, 0.9]] * 20, range(0, 1000, 50), 1000, RandomizedResponse.from_epsilon(math.inf))
    assert regret.scale_of(problem) == pytest.approx(math.sqrt(2 * 4 * 1000))


@pytest.mark.usefixtures("small")
def test_ratio_is_that_of_the_regrets() -> None:
    case = next(case for case in suite.cases(3000) if case.family == "stationary")
    oracle = make_policy("oracle-klucb-cf", arms=3, corruption=case.problem.corruption, restarts=[0])
    expected = simulate(case.problem, oracle, runs=2, seed=1, checkpoints=1).regret.mean()
    assert regret.yardsticks_of([case]) == [expected]


def row_of(policy: str, ratios: dict[str, float], tail: float) -> regret.Row:
    names = {"abrupt": ratios}
    return regret.Row(
        policy,
        {"abrupt": 1.0},
        0.0,
        {"abrupt": 2.0},
        "",
        1.0,
        names,
        {"abrupt": dict.fromkeys(ratios, tail)},
        {"abrupt": {"a": 0.5, "b": 0.25}},
        0.375,
        0.01,
    )


def test_untuned_policies_are_compared_with_best_tuned() -> None:
    rows = [
        row_of("auto", {"a": 1.0, "b": 4.0}, 2.5),
        row_of("glr-klucb-cf", {"a": 2.0, "b": 8.0}, 1.5),
        row_of("glr-ts-cf", {"a": 4.0, "b": 1.0}, 1.0),
        row_of("oracle-ts-cf", {"a": 0.1, "b": 0.1}, 1.0),
    ]
    _, _, auto, *others = regret.untold_table(rows).splitlines()
    assert auto == "| auto | abrupt | 1.00 | 2.00 | 1.41 | 4.00 | 2.50 | 2 of 2 |"  # sqrt(1/2 * 4/1)
    assert len(others) == 2


def test_table_of_merits_has_worst_and_tails() -> None:
    *_, row = regret.merit_table([row_of("auto", {"a": 1.0, "b": 4.0}, 2.5)]).splitlines()
    assert row == "| auto | 0.375 ± 0.010 | 0.375 | 0.50 | 2.50 | 2 of 2 |"


def test_fitted_exponent_of_a_power() -> None:
    values = [2.0, 8.0, 32.0]
    middle, low, high = growth.exponent(values, np.array([[3.0 * each**0.7] * 5 for each in values]))
    assert (middle, low, high) == pytest.approx((0.7, 0.7, 0.7))


def test_gaps_report_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "HORIZONS", (10_000,))
    assert "| 10,000 | 208 | 535 | 292 | " in gaps.two_thirds_table()


def test_growth_report_has_table_and_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"PROBLEMS": 3, "HORIZON": 500, "HORIZONS": (300, 900), "COUNTS": (2, 4), "EPSILONS": (1.0, math.inf)}
    for name, value in small.items():
        monkeypatch.setattr(growth, name, value)
    monkeypatch.setattr(sys, "argv", ["growth", "--out", str(tmp_path)])
    growth.main()
    assert "| 1/s | 1 | 2.16 |" in capsys.readouterr().out
    assert (tmp_path / "growth.png").stat().st_size > 10_000


@pytest.mark.usefixtures("small")
def test_tries_compare_two_plays_of_auto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tries, "RUNS", 2)
    monkeypatch.setattr(tries, "PAPER", tmp_path / "paper.toml")
    problem = "[[problems]]\nhorizon = 500\nmeans = [[0.2, 0.7]]\nstarts = [0]\n"
    tries.PAPER.write_text(f"epsilons = [1]\n{problem}[[policies]]\nname = 'auto'\n", encoding="utf-8")
    first, second = str(tmp_path / "before.json"), str(tmp_path / "after.json")
    monkeypatch.setattr(sys, "argv", ["tries", first])
    tries.main()
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(sys, "argv", ["tries", second, "--against", first])
    tries.main()
    printed = capsys.readouterr().out
    assert "| stationary | 1 | 1.00 ± " in printed
    assert "| quiet rises | 1 | 1.00 ± " in printed
    assert "Change of the figure of merit: +0.000 ± " in printed


def test_ratio_of_tries_and_its_interval() -> None:
    before = {"a": [1.0, 3.0], "b": [4.0, 4.0]}
    after = {"a": [2.0, 6.0], "b": [2.0, 2.0]}
    middle, half_width = tries.ratio(before, after)
    assert middle == pytest.approx(1.0)
    assert half_width == pytest.approx(1.96 * math.sqrt(0.25 + 0.25) / 2)
    scales = {("a family", "a"): 2.0, ("a family", "b"): 1.0}
    change, half_width = tries.merit_change({"a family": before}, {"a family": after}, scales)
    assert change == pytest.approx((2.0 / 2.0 - 2.0) / 2)
    assert half_width == pytest.approx(1.96 * math.sqrt((1.0 + 4.0) / 4.0) / 2)


def test_liars_turn_policy_where_theory_predicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liars, "RUNS", 4)
    share = theory.turning_share(liars.GAP, math.tanh(0.5))
    assert liars.better_pulls("klucb-cf", 1.0, 0.7 * share) > 0.6
    assert liars.better_pulls("klucb-cf", 1.0, 1.3 * share) < 0.4


def test_robust_policy_survives_longer_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bursts, "HONEST", 2000)
    trusting, wary = (bursts.burst("auto", each, math.inf, 0) for each in ({}, {"contamination": 0.05}))
    assert 5 < trusting.lies < 40 < 80 < wary.lies
    assert trusting.reports < 1000


def test_bursts_report_has_medians_with_intervals() -> None:
    found = [bursts.Burst(float(place), math.inf) for place in range(20)]
    *_, row = bursts.burst_table({"auto": [found] * len(bursts.EPSILONS)}).splitlines()
    assert row == "| `auto` |" + " 10 (5 to 14) | > 5,000 |" * len(bursts.EPSILONS)
    *_, row = bursts.cost_table({"a problem": [(1234.4, 56.1)] * 3}).splitlines()
    assert row == "| a problem |" + " 1,234 ± 56 |" * 3


def test_alarms_report_has_two_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"FAKES": (3.0,)}.items():
        monkeypatch.setattr(alarms, name, value)
    assert alarms.count_until_alarm(1.0, 1) < alarms.count_until_alarm(1.0, 100_000)
    assert alarms.count_until_alarm(0.5, 1) < alarms.count_until_alarm(4.0, 1)
    found: dict[str, Any] = {"unmasked": {"1": [40] * 4}, "surges": {"500.0": {"false": 9, "found": [0.5]}}}
    assert alarms.format_tables(found).splitlines() == [
        "| plain ones until the alarm | ε = 0.5 | ε = 1 | ε = 2 | ε = 4 |",
        "|---|--:|--:|--:|--:|",
        "| pair 1 of the day | 40 | 40 | 40 | 40 |",
        "",
        "| reports in five minutes | false alarms a year | found: 3 to 1 honest report |",
        "|---|--:|--:|",
        "| 500 | 2.2 (1 to 4.3) | 50 % |",
    ]


def test_delays_report_is_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {"ARMS": (3,), "EPSILONS": (1.0,), "RUNS": 4, "HORIZON": 1000, "DELAY": 50}.items():
        monkeypatch.setattr(delays, name, value)
    monkeypatch.setattr(sys, "argv", ["delays", "--policies", "klucb-cf", "ts-cf", "--json"])
    delays.main()
    determined, drawn = json.loads(capsys.readouterr().out)
    assert (determined["draws"], drawn["draws"]) == (False, True)
    problem = next(delays.problems())
    now, late = (delays.regret(problem, "klucb-cf", delay=delay) for delay in (0, 50))
    assert (determined["now"], determined["late"]) == (now, late)
    lost = max(
        delays.regret(each, "klucb-cf", lost=0.01) / (1.2 * delays.regret(each, "klucb-cf") + 100)
        for each in (problem, next(delays.problems(4)))
    )
    assert determined["lost"][0] == pytest.approx(lost)
    assert determined["of_bar"] == pytest.approx(late / (1.5 * now + 50 * problem.gaps.mean()))
    monkeypatch.setattr(sys, "argv", ["delays", "--policies", "klucb-cf"])
    delays.main()
    assert "| `klucb-cf` |" in capsys.readouterr().out


def test_featured_steps_are_timed() -> None:
    mask = RandomizedResponse.from_epsilon(1.0)
    policy = make_featured("logistic-ts-cf", arms=features.ARMS, features=features.FEATURES, corruption=mask)
    assert features.step(policy, steps=500) > 0


def test_features_report_shows_savings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in {"HORIZON": 500, "EPSILONS": (1.0, 16.0), "SIZES": (1.0,), "step": lambda policy: 1.5}.items():
        monkeypatch.setattr(features, name, value)
    monkeypatch.setattr(sys, "argv", ["features", "--problems", "3", "--runs", "1"])
    features.main()
    words, *_, masked, plain, _, speed = capsys.readouterr().out.splitlines()
    assert "`logistic-ts-cf` takes 1.50 us" in speed
    assert "`d-linucb-cf` with gamma = 0.999 1.50 us" in speed
    assert "500 steps" in words
    assert "3 problems, 1 runs" in words
    assert plain.split(" | ")[2] == plain.split(" | ")[3]
    assert masked.split(" | ")[2] != masked.split(" | ")[3]
    row = features.Row(1.0, 1.0, np.array([1.0, 3.0]), np.array([2.0, 6.0]), np.zeros(2))
    assert row.saved == pytest.approx((50.0, 0.0))


@pytest.mark.slow
def test_features_report_meets_its_goal() -> None:
    """Weights of 1, 8 problems of 100,000 steps: the interval is above 15 %; hardly masked, both lose alike."""
    saved, error = features.measure(1.0, 1.0, 8, 2).saved
    assert saved - error > 15.0
    plain = features.measure(1.0, 16.0, 4, 1)
    assert plain.known.sum() == pytest.approx(plain.face_value.sum(), rel=5e-4)


def test_speed_counts_played_steps() -> None:
    assert speed.simulated(3, 50, 500, ramp=100) > 0
    assert speed.bare_loop(3, 50, 500) > 0
    assert speed.live("sw-klucb-cf", 3, 50, 200, window=50) > 0


def test_every_goal_has_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("simulated", "bare_loop", "live", "timed"):
        monkeypatch.setattr(speed, name, lambda *arguments, **parameters: 1.0)
    monkeypatch.setattr(peers, "measure", lambda *arguments, **parameters: SimpleNamespace(cpu_seconds_per_step=1.0))
    measured = {**speed.ours(), **speed.theirs()}
    assert {name for goal in goals.GOALS for name in (goal.slow, goal.fast)} <= set(measured)
    assert "live auto" in measured


def test_cold_start_report_has_goals(capsys: pytest.CaptureFixture[str]) -> None:
    speed.print_starts([cold.Start("one", 1.5, 2.0), cold.Start("other", 12.0, 10.0)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[-2:]]
    assert lines == [["one", "1.5", "<=", "2", "met"], ["other", "12.0", "<=", "10", "missed"]]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are watched in /proc")
@pytest.mark.slow
def test_sweep_report_is_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sweep, "SIZES", {"short": (500, 2), "very short": (100, 2)})
    monkeypatch.setattr(sys, "argv", ["sweep", "--cells", "20", "--backends", "processes", "--sizes", "short"])
    sweep.main()
    table, verdict = capsys.readouterr().out.strip().split("\n\n")
    row = re.fullmatch(r"\| 20 short \| processes \| (.*) ms \| (.*) ms \| (.*) % \|", table.splitlines()[-1])
    assert row
    inside, outside, share = map(float, row.groups())
    assert 0.0 < inside < outside
    assert share == pytest.approx(100 * outside / (inside + outside), abs=0.5)
    assert verdict == (
        "The goal, at most 10 % outside the kernels where cells are short, is missed. "
        "All backends made the same numbers."
    )


def test_context_report_shows_regret_and_goals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        context, "mean_regret", lambda policy, pool, problem, epsilon, runs, seed: 100.0 * epsilon + seed
    )
    monkeypatch.setattr(context, "without_groups", lambda problem, epsilon, runs, seed: 200.0 * epsilon + seed)
    monkeypatch.setattr(context, "step", lambda: 1.5)
    once = {name: (functools.cache(world), goals) for name, (world, goals) in context.WORLDS.items()}
    monkeypatch.setattr(context, "WORLDS", once)  # drawing worlds takes longest
    monkeypatch.setattr(sys, "argv", ["context"])
    context.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "A step of klucb-cf with 10 groups and 10 arms takes 1.50 us (goal 3)."
    assert len(lines) == 4 + sum(len(goals) for _, goals in context.WORLDS.values())
    assert lines[2].split("|")[2:5] == [" 1 ", " 2,800 ", " 104 ± 2 "]
    assert lines[2].split("|")[-3:-1] == [" 204 ± 2 ", " 30,367 ± 2,663 "]
    assert lines[-3].split("|")[1:4] == [" groups all alike ", " 4 ", "  "]


def test_grouped_worlds_match_their_names() -> None:
    uniform, near, far, changing, alike = (world(3) for world, _ in context.WORLDS.values())
    assert [each.segments for each in (uniform, near, far, changing, alike)] == [1, 1, 1, 4, 1]
    for world, gap in ((near, 0.15), (far, 0.2), (changing, 0.2)):
        best = np.sort(world.means, axis=2)
        assert np.min(best[:, :, -1] - best[:, :, -2]) >= gap
    assert np.ptp(alike.means, axis=1).max() == 0.0


@pytest.mark.parametrize(("gap", "spread"), [(0.0, 1600), (0.15, 1340), (0.2, 1250)])
def test_regret_of_random_arms_matches_means(gap: float, spread: float) -> None:
    """0.3 + 7 gap / 15 a visitor, in 200 worlds within four standard errors; means of eight spread as the page says."""
    lost = [context.at_random(context.independent(seed, gap)) for seed in range(200)]
    off = np.std(lost, ddof=1)
    assert abs(np.mean(lost) - 100_000 * (0.3 + 7 * gap / 15)) < 4 * off / 200**0.5
    assert off / 8**0.5 == pytest.approx(spread, rel=0.15)


def test_baselines_count_every_segment() -> None:
    """Two groups that like different arms, and change their minds: one arm for all loses 0.4 in every step."""
    means = [[[0.9, 0.1], [0.1, 0.9]], [[0.2, 0.6], [0.6, 0.2]]]
    problem = ContextualProblem(means, [0, 750], 1000)
    assert context.at_random(problem) == pytest.approx(750 * 0.4 + 250 * 0.2)
    assert context.without_groups(problem, 1.0, 400, 1) == pytest.approx(350, rel=0.02)  # half of the visitors lose


def test_goal_covers_all_backends() -> None:
    rows = [sweep.Spent("short", name, 10, kernels, 1.0, "a") for name, kernels in (("threads", 0.95), ("ray", 0.9))]
    assert "met" in sweep.verdicts(rows)[0]
    rows.append(sweep.Spent("short", "processes", 10, 0.89, 1.0, "b"))
    assert "missed" in sweep.verdicts(rows)[0]
    assert sweep.verdicts(rows)[1] == "All backends did not make the same numbers."


def test_store_size_is_of_kept_reports() -> None:
    with store_size.open_sqlite() as opened:
        sizes = store_size.churn(opened, 60, 5)
        assert [each[:2] for each in sizes] == [(30, 600), (60, 600)]
        _, kept, size = sizes[-1]
        assert size * kept == opened.measure()
        log = opened.store.read_events(1, 0, 2_000)
        assert len(log) == kept
        assert sum(event.expires is not None for event in log) == 5 * store_size.STEPS


def test_long_past_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    lifecycle.main(["--past", "3000", "--kept", "1000", "--alone"])
    printed = capsys.readouterr().out
    assert "3,000 past events; retention removed 2,000 in" in printed
    for case in ("start after an upgrade", "start as usual"):
        assert re.search(rf"sqlite: {case} [0-9.]+ CPU s with {1000 if 'upgrade' in case else 0:,} events", printed)
    assert "CPU us an event (bar 1.0)" in printed
