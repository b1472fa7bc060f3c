"""The contract test passes sound policies, and names the fault of each broken one."""

from __future__ import annotations

import functools
import importlib
import itertools
import random
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from maskedbandits import policies
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import UserError
from maskedbandits.policies import make_policy, register_policy
from maskedbandits.testing import PolicyContractError, check_policy

MASK = RandomizedResponse.from_epsilon(2.0)

# Policies in plain Python: a sound one, and one mutant for each clause of the contract.


class Greedy:
    """Sound: pulls the best arm, and now and then any."""

    def __init__(self, generator: np.random.Generator, arms: int) -> None:
        self.generator, self.arms = generator, arms
        self.counts, self.sums = np.zeros(arms), np.zeros(arms)

    def choose(self) -> Any:
        if self.generator.random() < 0.1:
            return int(self.generator.integers(self.arms))
        return int(np.argmax(self.sums / np.maximum(self.counts, 1.0)))

    def observe(self, arm: int, feedback: float) -> None:
        self.counts[arm] += 1.0
        self.sums[arm] += feedback


class Unseeded(Greedy):
    def __init__(self, generator: np.random.Generator, arms: int) -> None:
        super().__init__(np.random.default_rng(), arms)


class GlobalNumpy(Greedy):
    def choose(self) -> int:
        return int(np.random.randint(self.arms))  # noqa: NPY002 -- the fault


class GlobalRandom(Greedy):
    def choose(self) -> int:
        return random.randrange(self.arms)


class Reseeding(Greedy):
    def choose(self) -> Any:
        random.seed(1)
        return super().choose()


class SharedState(Greedy):
    pulls: ClassVar[list[int]] = []

    def observe(self, arm: int, feedback: float) -> None:
        self.pulls.append(arm)


PULLS: list[int] = []


class ModuleState(Greedy):
    def choose(self) -> int:
        PULLS.append(0)
        return len(PULLS) // 7 % self.arms


class LargeClassArray(Greedy):
    """Its text leaves out the middle of the array."""

    table: ClassVar[Any] = np.zeros(5000)

    def observe(self, arm: int, feedback: float) -> None:
        self.table[2500] += 1.0


class NestedInClass(Greedy):
    tables: ClassVar[Any] = {"a": (np.zeros(3),)}

    def observe(self, arm: int, feedback: float) -> None:
        self.tables["a"][0][arm] += 1.0


class CountsInClass(Greedy):
    steps = 0

    def choose(self) -> Any:
        type(self).steps += 1
        return super().choose()


STEPS = 0


class RebindsGlobal(Greedy):
    def choose(self) -> Any:
        global STEPS
        STEPS += 1
        return super().choose()


class SharesIterator(Greedy):
    numbers: ClassVar[Any] = itertools.count()

    def choose(self) -> Any:
        next(self.numbers)
        return super().choose()


GENERATOR = np.random.default_rng(1)


class SharesGenerator(Greedy):
    def choose(self) -> Any:
        return int(GENERATOR.integers(self.arms))


class DefaultArgument(Greedy):
    def observe(self, arm: int, feedback: float, seen: list[int] = []) -> None:  # noqa: B006 -- the fault
        seen.append(arm)
        super().observe(arm, feedback)


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


BOX: list[float] = []


class HeldInNestedObject(Greedy):
    def __init__(self, generator: np.random.Generator, arms: int) -> None:
        super().__init__(generator, arms)
        self.box = {"deep": (Holder(BOX),)}

    def observe(self, arm: int, feedback: float) -> None:
        self.box["deep"][0].value.append(feedback)
        super().observe(arm, feedback)


class HeldInSlot(Greedy):
    __slots__ = ("__box",)

    def __init__(self, generator: np.random.Generator, arms: int, box: Any = Holder(0)) -> None:  # noqa: B008 -- the fault
        super().__init__(generator, arms)
        self.__box = box

    def observe(self, arm: int, feedback: float) -> None:
        self.__box.value += 1
        super().observe(arm, feedback)


class StaticMethodState(Greedy):
    @staticmethod
    def count() -> None:
        PULLS.append(1)

    def choose(self) -> Any:
        self.count()
        return super().choose()


def make_builder(*, rebinds: bool) -> Callable[..., Greedy]:
    """Return a function whose policies share a variable around it."""
    seen: list[int] = []
    count = 0

    class Inner(Greedy):
        def observe(self, arm: int, feedback: float) -> None:
            nonlocal count
            if rebinds:
                count += 1
            else:
                seen.append(arm)
            super().observe(arm, feedback)

    return lambda generator, arms: Inner(generator, arms)


build_with_closure, build_with_counter = make_builder(rebinds=False), make_builder(rebinds=True)
build_with_closure.__name__, build_with_counter.__name__ = "build_with_closure", "build_with_counter"


class GivenTable(Greedy):
    def __init__(self, table: Holder, generator: np.random.Generator, arms: int) -> None:
        super().__init__(generator, arms)
        self.add = table.value.append

    def observe(self, arm: int, feedback: float) -> None:
        self.add(arm)
        super().observe(arm, feedback)


build_with_partial = functools.partial(GivenTable, Holder([]))
build_with_partial.__name__ = "build_with_partial"  # type: ignore[attr-defined]

test_testing_helper = types.ModuleType("test_testing_helper")
test_testing_helper.SEEN = []  # type: ignore[attr-defined]


class HelperModule(Greedy):
    def choose(self) -> Any:
        test_testing_helper.SEEN.append(1)
        return super().choose()


@functools.cache
def compute_bonus(pulls: int) -> float:
    return 1.0 / (pulls + 1.0)


class ReadsShared(Greedy):
    """Sound: shares a table that nothing changes, and a cache of results that depend on their arguments alone."""

    table: ClassVar[Any] = np.linspace(0.0, 1e-9, 5000)
    made: ClassVar[list[Any]] = []

    def __init__(self, generator: np.random.Generator, arms: int) -> None:
        super().__init__(generator, arms)
        self.alias = self.table

    def choose(self) -> Any:
        arm = super().choose()
        self.bonus = compute_bonus(int(self.counts[arm])) + self.alias[arm]
        return arm


class OneTooFar(Greedy):
    def choose(self) -> Any:
        return int(self.generator.integers(self.arms + 1))


class FloatArm(Greedy):
    def choose(self) -> Any:
        return float(super().choose())


class TruthArm(Greedy):
    def choose(self) -> Any:
        return True


class CountsIntegers(Greedy):
    def observe(self, arm: int, feedback: float) -> None:
        super().observe(arm, 1.0 - feedback if type(feedback) is int else feedback)


class LastChoice(Greedy):
    last = 0

    def choose(self) -> Any:
        self.last = super().choose()
        return self.last

    def observe(self, arm: int, feedback: float) -> None:
        super().observe(self.last, feedback)
        if arm != self.last:
            self.sums[self.last] = -self.counts[self.last]


class ExpectsItsReport(Greedy):
    def choose(self) -> Any:
        self.expected = super().choose()
        return self.expected

    def observe(self, arm: int, feedback: float) -> None:
        if arm != self.expected:
            raise KeyError(arm)
        super().observe(arm, feedback)


class Waiting(Greedy):
    """Pulls no arm again before its report has come."""

    def __init__(self, generator: np.random.Generator, arms: int) -> None:
        super().__init__(generator, arms)
        self.pending = [False] * arms

    def choose(self) -> Any:
        scores = np.where(self.pending, -1.0, self.sums / np.maximum(self.counts, 1.0) + (self.counts == 0))
        arm = int(np.argmax(scores)) if not all(self.pending) else 0
        self.pending[arm] = True
        return arm

    def observe(self, arm: int, feedback: float) -> None:
        super().observe(arm, feedback)
        self.pending[arm] = False


class Stubborn(Greedy):
    def choose(self) -> Any:
        return min(1, self.arms - 1)


class NeedsTwoArms(Greedy):
    def choose(self) -> Any:
        return int(self.generator.integers(1, self.arms)) if self.generator.random() < 0.5 else 0


class ThreeArms(Greedy):
    def __init__(self, generator: np.random.Generator, arms: int) -> None:
        super().__init__(generator, 3)


class NoObserve:
    def __init__(self, generator: np.random.Generator) -> None:
        pass

    def choose(self) -> int:
        return 0


class Failing(Greedy):
    def __init__(self, generator: np.random.Generator, arms: int) -> None:
        raise RuntimeError("no table")


ONLY = Greedy(np.random.default_rng(0), 3)


class Batching(Greedy):
    """Sound: takes many reports at once."""

    def observe_many(self, arms: list[int], feedbacks: list[float]) -> None:
        for arm, feedback in zip(arms, feedbacks, strict=True):
            self.observe(arm, feedback)


class LastOfMany(Batching):
    def observe_many(self, arms: list[int], feedbacks: list[float]) -> None:
        self.observe(arms[-1], feedbacks[-1])


class MixesArms(Batching):
    def observe_many(self, arms: list[int], feedbacks: list[float]) -> None:
        super().observe_many(arms[::-1], feedbacks)


class WantsArrays(Batching):
    def observe_many(self, arms: Any, feedbacks: Any) -> None:
        super().observe_many(arms.tolist(), feedbacks)


class Weighted(Greedy):
    """Sound: weighs each report by what its mask tells."""

    def observe(self, arm: int, feedback: float, corruption: RandomizedResponse | None = None) -> None:
        mask = MASK if corruption is None else corruption
        self.counts[arm] += mask.slope**2
        self.sums[arm] += mask.slope * (feedback - (1.0 - mask.p00))

    def choose(self) -> Any:
        if self.generator.random() < 0.1:
            return int(self.generator.integers(self.arms))
        return int(np.argmax(self.sums / np.maximum(self.counts, 1e-9)))


class IgnoresMask(Greedy):
    def observe(self, arm: int, feedback: float, corruption: RandomizedResponse | None = None) -> None:
        super().observe(arm, feedback)


class OwnMaskDiffers(Weighted):
    def observe(self, arm: int, feedback: float, corruption: RandomizedResponse | None = None) -> None:
        if corruption is None or self.generator.random() < 0.5:
            super().observe(arm, feedback, corruption)


class NoFlippedMask(Weighted):
    def observe(self, arm: int, feedback: float, corruption: RandomizedResponse | None = None) -> None:
        super().observe(arm, feedback, corruption)
        if corruption is not None and not corruption.increasing:
            raise ValueError("a mask must increase")


def same_object(generator: np.random.Generator) -> Greedy:
    return ONLY


PLAIN_MUTANTS: dict[Callable[..., Any], str] = {
    Unseeded: "two runs with the same seed differ",
    ModuleState: "share PULLS, which changes",
    LargeClassArray: "share table, which",
    NestedInClass: "share tables, which",
    CountsInClass: "share steps, which",
    RebindsGlobal: "share STEPS, which",
    SharesIterator: "share numbers, which",
    SharesGenerator: "share GENERATOR, which",
    DefaultArgument: "share seen, which",
    HeldInNestedObject: r"share box\['deep'\]\[0\].value, which",
    HeldInSlot: "share _HeldInSlot__box, which",
    StaticMethodState: "share PULLS, which",
    build_with_closure: "share seen, which",
    build_with_counter: "share count, which",
    build_with_partial: "share .*refers to, which",
    HelperModule: "share test_testing_helper.SEEN, which",
    GlobalNumpy: "depend on the global state",
    GlobalRandom: "depend on the global state",
    Reseeding: "changes the global state",
    SharedState: "all objects share pulls, which",
    same_object: "the same object for two runs",
    OneTooFar: "choose.. returned 3: return a whole number from 0 to 2",
    FloatArm: "choose.. returned [0-2].0: return a whole number",
    TruthArm: "choose.. returned True: return a whole number",
    CountsIntegers: "reports 1 and 1.0",
    LastChoice: "not from late ones",
    ExpectsItsReport: r"observe\(\d, [01].0\) failed: KeyError.*test_testing.py, line",
    Waiting: "after reports were lost",
    Stubborn: "arm 0 was not chosen in 300 steps: explore it",
    NeedsTwoArms: "with 1 arm: choose.. failed: ValueError",
    ThreeArms: "with 1 arm: choose.. returned [12]",
    NoObserve: "no observe()",
    LastOfMany: "observe_many leads to other choices",
    MixesArms: "observe_many leads to other choices",
    WantsArrays: "observe_many.* failed: AttributeError",
    IgnoresMask: "does not learn from reports whose masks differ",
    OwnMaskDiffers: "the arm's own mask",
    NoFlippedMask: "corruption=RandomizedResponse.* failed: ValueError: a mask must increase",
    Failing: "Failing failed: RuntimeError: no table",
}


def test_sound_policy_in_plain_python_passes() -> None:
    check_policy(Greedy)
    check_policy(Greedy, arms=5, corruption=[MASK] * 5)
    check_policy(lambda generator: Greedy(generator, 4), arms=4)
    check_policy(Batching)
    check_policy(Weighted)
    check_policy(ReadsShared)


@pytest.mark.parametrize("mutant", PLAIN_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_broken_policy_in_plain_python_is_caught(mutant: Callable[..., Any]) -> None:
    with pytest.raises(PolicyContractError, match=PLAIN_MUTANTS[mutant]) as caught:
        check_policy(mutant)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, UserError | AssertionError)


class ForThreeArms(Greedy):
    def __init__(self, generator: np.random.Generator, arms: int) -> None:
        if arms != 3:
            raise UserError("it has three arms")
        super().__init__(generator, arms)


def test_policy_may_refuse_other_numbers_of_arms() -> None:
    check_policy(ForThreeArms)
    with pytest.raises(PolicyContractError, match="it has three arms"):
        check_policy(ForThreeArms, arms=4)


def test_policy_need_not_explore_if_it_says_so() -> None:
    check_policy(Stubborn, explores=False)


def test_global_random_numbers_are_restored() -> None:
    random.seed(3)
    expected = random.random()
    random.seed(3)
    check_policy(Greedy)
    assert random.random() == expected


@pytest.mark.parametrize(("policy", "complaint"), [(3, "policy = 3"), ("nothing", "called 'nothing'")])
def test_misplaced_argument_is_refused(policy: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        check_policy(policy)


def test_parameters_without_a_name_are_refused() -> None:
    for policy in (Greedy, make_policy("uniform", arms=2)):
        with pytest.raises(UserError, match="share: "):
            check_policy(policy, share=0.1)


# Compiled policies


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("uniform", {}),
        ("klucb-cf", {}),
        pytest.param("sw-ts-cf", {"window": 200}, marks=pytest.mark.slow),
        pytest.param("glr-ucb-cf", {}, marks=pytest.mark.slow),
        pytest.param("exp3s", {"horizon": 1000, "changes": 2}, marks=pytest.mark.slow),
        ("auto", {}),
    ],
)
def test_policy_of_this_package_passes(name: str, parameters: dict[str, Any]) -> None:
    check_policy(name, **parameters)


def test_built_policy_passes() -> None:
    check_policy(make_policy("ucb-cf", arms=4, corruption=MASK, contamination=0.05))
    check_policy(make_policy("oracle", arms=2, best=[0, 1], restarts=[0, 100]))


COMPILED = """
import numpy as np
from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import Floats, array, record, variable
from maskedbandits.math import rng
from maskedbandits.policies.state import Arms, count_feedback

SUMMARY = "explores at random"
LEARNS_FROM = "masked feedback"


@record
class Policy(Arms):
    "Its own numbers."

    longest: int = variable(0)
    best: Floats = array(lambda scalars: scalars.arms, least=0.0)


@inner
def choose(state):
    scalars = state.scalars[0]
    arm = min(int(rng.uniform(state.rng) * scalars.arms), scalars.arms - 1)
    return arm


@inlined
def observe(state, arm, feedback):
    count_feedback(state, arm, feedback)
    state.scalars[0].longest += 1
    state.best[arm] += feedback
"""
MUTANTS = {  # by name: what is replaced, by what, and the complaint
    "one too far": ("scalars.arms - 1)", "scalars.arms - 1) + 1", "returned 3: return a whole number from 0 to 2"),
    "beyond the array": ("state.best[arm] +=", "state.best[arm + 1] +=", "observe.* failed: IndexError"),
    "three arms": ("state.best[arm] +=", "state.best[(arm + 2) % 3] +=", "with 1 arm: observe.* failed: IndexError"),
    "learns when it chooses": (
        "return arm",
        "state.best[arm] += 1.0; return arm",
        "changed what the policy has learned",
    ),
    "global numbers": ("rng.uniform(state.rng)", "np.random.random()", "depend on the global state"),
    "out of range": ("variable(0)", "variable(0, most=100)", "a saved policy cannot be loaded"),
    "hidden state": (
        "    arm = min",
        "    HIDDEN[0] += 1\n    arm = HIDDEN[0] // 400 % scalars.arms\n    return arm\n    arm = min",
        "global values change",
    ),
    "never explores": ("return arm", "return 0", "arm 1 was not chosen"),
    "no loop over text": ("return arm", "return int(str(arm))[0]", "failed: TypeError"),
    "cannot be compiled": ("return arm", "return [*{str(arm): arm}.values()][0]", "cannot be compiled: "),
}


MASKED = """
from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import Floats, array, record
from maskedbandits.math import rng
from maskedbandits.policies.state import Arms, count_feedback

SUMMARY = "weighs each report by what its mask tells"
LEARNS_FROM = "masked feedback"


@record
class Policy(Arms):
    "Its own numbers."

    weights: Floats = array(lambda scalars: scalars.arms, least=0.0)
    rewards: Floats = array(lambda scalars: scalars.arms, least=-1e9, most=1e9)


@inner
def choose(state):
    arms = state.scalars[0].arms
    chosen = min(int(rng.uniform(state.rng) * arms), arms - 1)
    if rng.uniform(state.rng) < 0.1:
        return chosen
    best = -1.0
    for arm in range(arms):
        if state.weights[arm] > 0.0 and state.rewards[arm] / state.weights[arm] > best:
            best = state.rewards[arm] / state.weights[arm]
            chosen = arm
    return chosen


@inlined
def weigh(state, arm, feedback, low, span):
    state.rewards[arm] += span * (feedback - low)
    state.weights[arm] += span * span


@inlined
def observe(state, arm, feedback):
    count_feedback(state, arm, feedback)
    weigh(state, arm, 1.0 - feedback if state.flips[arm] else feedback, state.lows[arm], 1.0 / state.rates[arm])


@inlined
def observe_masked(state, arm, feedback, low, span, shown, usual):
    count_feedback(state, arm, feedback)
    weigh(state, arm, feedback, low, span)
"""
WEIGH = "    weigh(state, arm, feedback, low, span)"
MASK_MUTANTS = {  # by name: what replaces the last line, and the complaint
    "forgets own mask": ("    if not usual:\n        weigh(state, arm, feedback, low, span)", "own mask"),
    "beyond the array": ("    weigh(state, arm + 1, feedback, low, span)", "corruption=.*IndexError"),
    "ignores flips": ("    weigh(state, arm, feedback if usual else 1.0, low, span)", "masks differ"),
}


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return a function that registers a policy with some code, and returns its name."""
    monkeypatch.setattr(policies, "KINDS", dict(policies.KINDS))
    monkeypatch.setattr("maskedbandits.policies.serialization.KINDS", policies.KINDS)
    monkeypatch.syspath_prepend(tmp_path)

    def register(code: str) -> str:
        (tmp_path / "under_test.py").write_text("HIDDEN = [0]\n" + code, encoding="utf-8")
        sys.modules.pop("under_test", None)
        register_policy("under-test", importlib.import_module("under_test"))
        return "under-test"

    return register


@pytest.mark.parametrize("mutant", MUTANTS)
def test_broken_compiled_policy_is_caught(mutant: str, load: Callable[[str], str]) -> None:
    before, after, complaint = MUTANTS[mutant]
    assert before in COMPILED
    with pytest.raises(PolicyContractError, match=complaint) as caught:
        check_policy(load(COMPILED.replace(before, after)))
    assert re.fullmatch(r"[^\n]{1,400}", str(caught.value))


@pytest.mark.parametrize("mutant", MASK_MUTANTS)
def test_broken_use_of_masks_is_caught(mutant: str, load: Callable[[str], str]) -> None:
    after, complaint = MASK_MUTANTS[mutant]
    assert MASKED.count(WEIGH) == 1
    with pytest.raises(PolicyContractError, match=complaint):
        check_policy(load(MASKED.replace(WEIGH, after)))


def test_sound_use_of_masks_passes(load: Callable[[str], str]) -> None:
    check_policy(load(MASKED))


OTHER_CODE = """
from numba.extending import overload

def last(arms): return arms - 1

@overload(last)
def compile_last(arms): return lambda arms: 0

"""


@pytest.mark.slow
def test_machine_code_that_plays_differently_is_caught(load: Callable[[str], str]) -> None:
    check_policy(load(COMPILED))
    text = COMPILED.replace("    return arm", "    return last(scalars.arms) if arm == 1 else arm")
    with pytest.raises(PolicyContractError, match="play differently"):
        check_policy(load(OTHER_CODE + text), explores=False)
