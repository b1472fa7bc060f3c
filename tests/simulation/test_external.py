"""Policies from outside the package, in plain Python."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maskedbandits import Policy, Problem, make_policy, simulate
from maskedbandits.errors import UserError
from maskedbandits.simulation import external
from naive import simulate as naive_simulate
from specimens import CERTAIN, RR

PROBLEM = Problem([[0.2, 0.8], [0.7, 0.1]], [0, 200], 400, RR)


class First:
    """Try two arms at random, then stay with the better one."""

    def __init__(self, generator: np.random.Generator, arms: int) -> None:
        self.sums, self.seen, self.rng = [0.0] * arms, 0, generator.random(20)

    def choose(self) -> int:
        return int(2 * self.rng[self.seen]) if self.seen < 20 else int(np.argmax(self.sums))

    def observe(self, arm: int, feedback: float) -> None:
        self.seen += 1
        self.sums[arm] += feedback if self.seen <= 20 else 0.0


def ours(generator: np.random.Generator, *, arms: int, corruption: Any) -> Policy:
    return make_policy("klucb-cf", arms=arms, corruption=corruption)


def test_builtin_policy_plays_alike_inside_and_outside() -> None:
    """The means of 150 runs each agree to five standard errors of their difference."""
    within = simulate(PROBLEM, "klucb-cf", runs=150, checkpoints=2, progress=False).regret
    without = simulate(PROBLEM, ours, runs=150, checkpoints=2).regret
    wide = 5 * np.sqrt((within.var(axis=0) + without.var(axis=0)) / 150)
    assert np.all(np.abs(within.mean(axis=0) - without.mean(axis=0)) < wide)


def test_regret_and_pulls_match_hand_count() -> None:
    """Means of 0 and 1 without a mask are deterministic."""
    problem = Problem([[0, 1], [1, 0]], [0, 30], 60, CERTAIN)
    result = simulate(problem, ours, runs=2, checkpoints=60)
    from naive import Twin

    regret, pulls, suboptimal, _ = naive_simulate([[0, 1], [1, 0]], [0, 30], 60, Twin([CERTAIN] * 2), [0.5] * 60)
    for run in range(2):
        assert result.regret[run].tolist() == regret
        assert result.pulls[run].tolist() == pulls
        assert result.suboptimal_pulls[run].tolist() == suboptimal


def test_horizon_on_log_is_expected_observations() -> None:
    horizons, seen = [], []

    class Horizon:
        def __init__(self, generator: np.random.Generator, horizon: int) -> None:
            horizons.append(horizon)

        def choose(self) -> int:
            return 1

        def observe(self, arm: int, feedback: float) -> None:
            seen.append(arm)

    log = Problem.replay_log([0, 1, 2] * 50, [1, 0, 1] * 50, CERTAIN)
    simulate(log, Horizon, runs=1, progress=False)
    assert horizons == [len(seen)] == [50]
    simulate(Problem.replay(np.eye(2)[[0, 1] * 30], CERTAIN), Horizon, runs=1, progress=False)
    assert horizons[1:] == [60]


@pytest.mark.parametrize("delay", [None, 7, [0, 30], ("geometric", 5.0)])
def test_same_seed_repeats_run(delay: Any) -> None:
    one, other, third = (simulate(PROBLEM, First, runs=3, seed=seed, checkpoints=4, delay=delay) for seed in (1, 1, 2))
    assert np.array_equal(one.regret, other.regret)
    assert not np.array_equal(one.regret, third.regret)
    assert one.pulls.sum(axis=1).tolist() == [400] * 3
    assert len({tuple(run) for run in one.regret.tolist()}) > 1


def test_reports_are_delayed() -> None:
    seen: list[tuple[str, int]] = []

    class Noted(First):
        def choose(self) -> int:
            seen.append(("choose", self.seen))
            return 0

    simulate(PROBLEM, Noted, runs=1, checkpoints=1, delay=10)
    assert [count for what, count in seen][:13] == [0] * 11 + [1, 2]


def test_progress_is_reported() -> None:
    reported: list[tuple[int, int]] = []
    simulate(PROBLEM, First, runs=2, checkpoints=1, progress=lambda done, total: reported.append((done, total)))
    assert reported[-1] == (800, 800)
    assert sorted(reported) == reported


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        (First(np.random.default_rng(0), 2), "fresh.*every run"),
        (lambda generator: 3, "has no choose"),
        (lambda: 3, "too many positional"),
        (lambda generator, needed: 3, "required argument: 'needed'"),
        (lambda generator: type("X", (), {"choose": lambda self: 0})(), "has no observe"),
    ],
)
def test_bad_factory_is_refused(policy: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        simulate(PROBLEM, policy, runs=1)


@pytest.mark.parametrize("arm", [np.int8(1), np.array(1), np.uint64(1)])
def test_any_integer_type_is_an_arm(arm: Any) -> None:
    class Constant(First):
        def choose(self) -> int:
            return arm  # type: ignore[no-any-return]

    assert simulate(PROBLEM, Constant, runs=1).pulls.tolist() == [[0, 400]]


def broken(call: str) -> Any:
    def fail(*arguments: Any) -> Any:
        raise KeyError("a\nb")

    return lambda generator: type("X", (), {"choose": lambda self: 0, "observe": lambda *_: None, call: fail})()


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        (broken("choose"), r"choose\(\) failed.*'a\\nb' \(test_external.py, line"),
        (broken("observe"), r"observe\(0, [01]\) failed: KeyError"),
        (broken("__init__"), r"<lambda> failed: KeyError"),
        (int, "int failed: TypeError"),
    ],
)
def test_failure_is_one_line_with_cause(policy: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as caught:
        simulate(PROBLEM, policy, runs=1)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, (KeyError, TypeError))


def test_user_error_of_factory_passes_with_its_name() -> None:
    def choosy(generator: np.random.Generator, arms: int) -> Any:
        raise UserError(f"{arms} arms are too few: give 3")

    with pytest.raises(UserError, match=r"^choosy: .*give 3$"):
        simulate(PROBLEM, choosy, runs=1)


def test_same_object_for_two_runs_is_refused() -> None:
    only = First(np.random.default_rng(0), 2)
    with pytest.raises(UserError, match=r"same object.*two runs"):
        simulate(PROBLEM, lambda generator: only, runs=2)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("own:f", "raise RuntimeError('at import')", r"own failed: RuntimeError.*\(own"),
        ("own:f", "def f(:", r"SyntaxError.*\(own.*line 1"),
        ("own:f", "import sys; sys.exit(7)", "own failed: SystemExit: 7"),
        ("own:f", "import no_such_thing", "'no_such_thing'; install it"),
        ("own:f", "f = 3", "no function 'f'"),
        ("absent:f", "", "'absent'; put absent.py"),
        ("..own:f", "", "no name.*give package.module:function"),
        (":", "", "no name of a"),
        ("own:", "", "no name of a"),
        ("/etc/own:f", "", "no name of a"),
    ],
)
def test_unusable_module_is_refused(tmp_path: Path, name: str, content: str, complaint: str) -> None:
    (tmp_path / "own.py").write_text(content, encoding="utf-8")
    sys.modules.pop("own", None)
    with pytest.raises(UserError, match=complaint) as caught:
        external.import_factory(name, [tmp_path])
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize("arm", [2, -1, 0.5, None, True, "0", np.array([1]), np.bool_(True), 10**30])
def test_invalid_arm_is_refused(arm: Any) -> None:
    def factory(generator: np.random.Generator) -> Any:
        made = First(generator, 2)
        choose: Callable[[], Any] = lambda: arm  # noqa: E731 -- its type is what matters
        made.choose = choose  # type: ignore[method-assign]
        return made

    with pytest.raises(ValueError, match=r"choose\(\) returned"):
        simulate(PROBLEM, factory, runs=1)


def test_runs_can_be_divided() -> None:
    """Runs from the third on are the same for built-in and external policies."""
    for policy in ("klucb-cf", First):
        whole = simulate(PROBLEM, policy, runs=5, seed=3, checkpoints=4, progress=False)
        rest = simulate(PROBLEM, policy, runs=3, seed=3, checkpoints=4, first_run=2, progress=False)
        assert np.array_equal(whole.regret[2:], rest.regret)
        assert np.array_equal(whole.pulls[2:], rest.pulls)
        first = simulate(PROBLEM, policy, runs=2, seed=3, checkpoints=4, progress=False)
        assert np.array_equal(whole.pulls_over_time, first.pulls_over_time + rest.pulls_over_time)
        assert whole.pulls_over_time[-1].tolist() == whole.pulls.sum(axis=0).tolist()
