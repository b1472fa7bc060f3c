"""A contract test for your own policies, in plain Python or compiled: call `check_policy` in a test of yours.

The contract is what simulations, experiments and live use rely on:

- ``choose()`` returns an arm, and ``observe(arm, feedback)`` accepts reports of 0 and 1 for any arm at any time;
- all randomness comes from the generator, and all state is in the object, so that a seed repeats a run: class
  attributes, global variables, default arguments, closures and common objects do not change while one plays;
- late and lost reports are survived, and no arm is left out;
- if there is ``observe_many(arms, feedbacks)``, it is ``observe`` for each report;
- if ``observe`` takes ``corruption``, the mask of one report, it is used, and the arm's own mask changes nothing;
- of a compiled policy also: a choice teaches nothing, copies and saved policies continue alike, and machine code plays
  as the same code does in Python.
"""

from __future__ import annotations

import copy
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maskedbandits._numba.jit import INTERPRETED, interpret
from maskedbandits._numba.state import digest
from maskedbandits.corruption import Corruption, RandomizedResponse, expand_per_arm
from maskedbandits.errors import UserError, WrongValueError, abbreviate, check_int
from maskedbandits.fingerprint import SharedState
from maskedbandits.math import rng
from maskedbandits.policies import Policy, kernels, kind_of, make_policy
from maskedbandits.policies.index import report_masks
from maskedbandits.policies.initial_state import rebuild_state
from maskedbandits.policies.serialization import load_policy
from maskedbandits.problems import Problem
from maskedbandits.simulation import external
from maskedbandits.simulation.external import ExternalPolicy, Factory

__all__ = ["PolicyContractError", "check_policy"]

STEPS_PER_ARM = 100  # of a run: in so many steps for each arm, each must have been chosen
MIN_STEPS = 300
MANY_ARMS = 40
MAX_DELAY = 20  # steps
BATCH = 10  # reports at once
MASK_EPSILON = 4.0
LOST_SHARE = 0.5
SEED = 20
COMPETENT = 0.7  # a share of the best arm with which a policy has learned for sure
FORGETFUL = 0.4  # a share of that share with which it has not


class PolicyContractError(UserError, AssertionError):
    """A policy broke its contract: what it did, why that matters, and what to do, in one line."""


def check_policy(
    policy: Factory | str | Policy,
    arms: int = 3,
    *,
    corruption: Corruption | Sequence[Corruption] | None = None,
    explores: bool = True,
    **parameters: Any,
) -> None:
    """Check that your own policy keeps the contract of policies.

    All runs have fixed seeds, so a policy passes always or never. A compiled policy is compiled once, in about ten
    seconds.

    Parameters
    ----------
    policy : callable, str or Policy
        A function or class that `simulate` accepts, the name of a compiled policy, or a policy of `make_policy`.
    arms : int, default 3
        Number of arms. The policy is also tried with one arm and with 40, unless it takes no number of arms, or
        refuses these with a `UserError`. A policy of `make_policy` keeps its own number.
    corruption : Corruption or sequence of Corruption, optional
        The mask of the reports. By default that of epsilon 2.
    explores : bool, default True
        Whether every arm must be chosen within 100 steps for each arm, and within at least 300 steps, also if half of
        the reports are lost.
    **parameters
        Parameters of a compiled policy that is given by name.

    Raises
    ------
    PolicyContractError
        If the policy breaks the contract.
    UserError
        If the arguments do not fit the policy.

    Examples
    --------
    >>> class Explorer:
    ...     def __init__(self, generator, arms):
    ...         self.generator, self.arms = generator, arms
    ...
    ...     def choose(self):
    ...         return self.generator.integers(self.arms)
    ...
    ...     def observe(self, arm, feedback):
    ...         pass
    >>> check_policy(Explorer)
    >>> class Impatient(Explorer):
    ...     def choose(self):
    ...         return self.arms
    >>> check_policy(Impatient)
    Traceback (most recent call last):
    ...
    maskedbandits.testing.PolicyContractError: Impatient: choose() returned 3: return a whole number from 0 to 2

    """
    mask = RandomizedResponse.from_epsilon(2.0) if corruption is None else corruption
    subject: PlainSubject | CompiledSubject
    if isinstance(policy, Policy):
        refuse_parameters(parameters)
        arms, subject = policy.arms, CompiledSubject(policy, mask)
    elif isinstance(policy, str):
        arms = check_int("arms", arms)
        subject = CompiledSubject(make_policy(policy, arms=arms, corruption=mask, **parameters), mask)
    elif external.is_factory(policy):
        refuse_parameters(parameters)
        arms, subject = check_int("arms", arms), PlainSubject(policy, mask)
    else:
        wanted = "a function that builds a policy, the name of a compiled policy, or a policy of make_policy"
        raise WrongValueError("policy", policy, wanted)
    check_randomness(subject, arms)
    check_reports(subject, arms, explores=explores)
    check_masks(subject, arms)
    check_numbers_of_arms(subject, arms)
    if isinstance(subject, CompiledSubject):
        check_learned_state(subject, arms)
        check_copies(subject)
        check_machine_code(subject, arms)
    check_batches(subject, arms)  # with machine code, so it comes last


def refuse_parameters(parameters: dict[str, Any]) -> None:
    """Refuse parameters where the policy has its own already."""
    if parameters:
        raise UserError(
            f"{', '.join(parameters)}: parameters require the name of a policy; pass them to the function that builds "
            "yours"
        )


# Policies under test


@dataclass(frozen=True)
class PlainSubject:
    """A function that builds policies in plain Python."""

    factory: Factory
    corruption: Corruption | Sequence[Corruption]

    @property
    def name(self) -> str:
        """Name for messages."""
        return external.get_name(self.factory)

    @property
    def takes_arms(self) -> bool:
        """Whether it can be built for any number of arms."""
        return "arms" in external.list_parameters(self.factory)

    def takes_masks(self, arms: int) -> bool:
        """Whether it takes the mask of a single report."""
        return "corruption" in external.list_parameters(self.build(arms, SEED).observe, first=0)

    def build(self, arms: int, seed: int) -> ExternalPolicy:
        """Return a fresh policy."""
        problem = Problem([[0.5] * arms], [0], count_steps(arms), fit_corruption(self.corruption, arms))
        try:
            return external.build_policy(self.factory, problem, np.random.default_rng(seed))
        except PolicyContractError:
            raise
        except UserError as error:
            raise PolicyContractError(str(error)) from error


class InterpretedPolicy:
    """A compiled policy that plays in plain Python, where indices are checked."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self._choose, self._observe = interpret(kernels.next_arm), interpret(kernels.observe_live)
        self._wait, self._observe_masked = interpret(kernels.wait_live), interpret(kernels.observe_masked_live)
        self._is_the_arms = interpret(report_masks.is_the_arms)

    def choose(self) -> int:
        """Return the arm to pull next, whose report is pending from now on."""
        arm = int(self._choose(self.state))
        if 0 <= arm < self.state.scalars[0].arms:  # otherwise the caller complains
            self._wait(self.state, arm, 1)
        return arm

    def observe(self, arm: int, feedback: float, corruption: Corruption | None = None) -> None:
        """Take in a report, with its own mask if it has one."""
        masks = report_masks.read_masks([corruption], 1) if corruption is not None else None
        if masks is None:
            self._observe(self.state, arm, float(feedback))
            return
        arms, feedbacks = np.array([arm]), np.array([float(feedback)])
        if self._is_the_arms(self.state, arm, 0, masks.lines, 1.0):
            masks.indices[0] = report_masks.ARMS_OWN
        self._observe_masked(self.state, arms, feedbacks, masks.indices, masks.lines, 1.0)


@dataclass(frozen=True)
class CompiledSubject:
    """A compiled policy."""

    policy: Policy
    corruption: Corruption | Sequence[Corruption]
    takes_arms = True

    def takes_masks(self, arms: int) -> bool:
        """Whether it takes the mask of a single report, in code of its own."""
        kind = self.policy.kind
        is_in_its_code = kind.is_own and not kind.on_axes and kind.takes_masks
        return is_in_its_code and kind.sees_corruption and self.policy.contamination == 0.0

    @property
    def name(self) -> str:
        """Name for messages."""
        return self.policy.name

    def build_live(self, arms: int, seed: int) -> Policy:
        """Return a fresh policy for live use."""
        policy = self.policy
        if arms == policy.arms:
            state = rebuild_state(policy.kind, policy._parameters, policy._state)
            return Policy(policy.kind, policy._given, state, rng.seed_words(seed))
        mask = fit_corruption(self.corruption, arms)
        return make_policy(kind_of(policy.name).name, arms=arms, corruption=mask, seed=seed, **policy._given)

    def build(self, arms: int, seed: int) -> InterpretedPolicy:
        """Return a fresh policy that is interpreted."""
        if self.policy.kind.layout.origin.has_changed():
            raise PolicyContractError(f"{self.name}: global values change while it plays: keep all state in its record")
        with describe_failures(f"{self.name}: start()"):
            return InterpretedPolicy(self.build_live(arms, seed)._state)


Subject = PlainSubject | CompiledSubject


def fit_corruption(corruption: Corruption | Sequence[Corruption], arms: int) -> Corruption | Sequence[Corruption]:
    """Return the corruption for a number of arms: of a list with another length, the first one."""
    if isinstance(corruption, Sequence) and len(corruption) != arms:
        return corruption[0]
    return corruption


@contextmanager
def describe_failures(what: str) -> Iterator[None]:
    """Turn any error into one line that says what failed."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise PolicyContractError(str(external.describe_failure(what, error))) from error


# Runs


def count_steps(arms: int) -> int:
    """Return the number of steps of a run."""
    return max(MIN_STEPS, STEPS_PER_ARM * arms)


def report_at_once(generator: np.random.Generator, arm: int, count: int) -> int | None:
    """Report before the next choice."""
    return 0


def report_late(generator: np.random.Generator, arm: int, count: int) -> int | None:
    """Report after some steps, out of order."""
    return int(generator.integers(1, MAX_DELAY))


def lose_reports(generator: np.random.Generator, arm: int, count: int) -> int | None:
    """Lose the first reports of each arm, and half of the others."""
    return None if count < 2 or generator.random() < LOST_SHARE else 0


Delay = Callable[[np.random.Generator, int, int], int | None]


class Run:
    """A run of a policy: the last arm is the best one by far."""

    def __init__(
        self, name: str, arms: int, corruption: Corruption | Sequence[Corruption], delay: Delay = report_at_once
    ) -> None:
        self.name, self.arms, self.delay = name, arms, delay
        self.means = [each(0.05) for each in expand_per_arm(fit_corruption(corruption, arms), arms)]
        self.means[-1] = expand_per_arm(fit_corruption(corruption, arms), arms)[-1](0.95)
        self.world = np.random.default_rng(SEED)
        self.counts = [0] * arms
        self.step = 0
        self.under_way: dict[int, list[tuple[int, float]]] = defaultdict(list)

    def play(self, policy: ExternalPolicy, steps: int, number: Callable[[float], Any] = float) -> list[int]:
        """Play steps, and return the arms; ``number`` is the type of reports."""
        chosen = []
        for _ in range(steps):
            for arm, feedback in self.under_way.pop(self.step, ()):
                with describe_failures(f"{self.name}: observe({arm}, {number(feedback)})"):
                    policy.observe(arm, number(feedback))
            chosen.append(self.choose(policy))
            self._send_report(chosen[-1])
            self.step += 1
        return chosen

    def _send_report(self, arm: int) -> None:
        """Draw the report of a choice, and when it arrives."""
        feedback = float(self.world.random() < self.means[arm])
        delay = self.delay(self.world, arm, self.counts[arm])
        self.counts[arm] += 1
        if delay is not None:
            self.under_way[self.step + 1 + delay].append((arm, feedback))

    def choose(self, policy: ExternalPolicy) -> int:
        """Return the arm that a policy chooses, checked."""
        with describe_failures(f"{self.name}: choose()"):
            arm = policy.choose()
        is_number = isinstance(arm, int | np.integer) and not isinstance(arm, bool)
        if not is_number or not 0 <= arm < self.arms:
            raise PolicyContractError(
                f"{self.name}: choose() returned {abbreviate(arm)}: return a whole number from 0 to {self.arms - 1}"
            )
        return int(arm)


def play(
    subject: Subject, arms: int, delay: Delay = report_at_once, number: Callable[[float], Any] = float
) -> list[int]:
    """Play a run of a fresh policy, and return the arms."""
    policy = subject.build(arms, SEED)
    return Run(subject.name, arms, subject.corruption, delay).play(policy, count_steps(arms), number)


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Seed the generators that all code of a process shares; restore them afterwards."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 -- a policy may use it by mistake
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 -- as above
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002 -- as above


def global_state() -> str:
    """Return the state of the generators that all code of a process shares."""
    return repr((random.getstate(), [list(np.ravel(each)) for each in np.random.get_state()]))  # noqa: NPY002 -- as above


# Checks


def check_randomness(subject: Subject, arms: int) -> None:
    """Check that a seed repeats a run, and that runs share nothing."""
    name = subject.name
    with global_seed(1):
        first, second = subject.build(arms, SEED), subject.build(arms, SEED)
        if first is second:
            raise PolicyContractError(f"{name}: returned the same object for two runs: build a fresh one for each")
        shared = SharedState(subject.factory, first, second) if isinstance(subject, PlainSubject) else None
        Run(name, arms, subject.corruption).play(first, count_steps(arms))
        if shared is not None and (changed := shared.find_change()) is not None:
            raise PolicyContractError(
                f"{name}: all objects share {changed}, which changes while one plays: create it in __init__, or keep a "
                "cache with functools.cache"
            )
    with global_seed(1):
        plays = play(subject, arms)
    with global_seed(1):
        if play(subject, arms) != plays:
            raise PolicyContractError(
                f"{name}: two runs with the same seed differ: draw all random numbers from the policy's generator, and "
                "keep all state in the object"
            )
    with global_seed(2):
        before = global_state()
        if play(subject, arms) != plays:
            raise PolicyContractError(
                f"{name}: choices depend on the global state of random or numpy.random: "
                "draw from the policy's generator"
            )
        if global_state() != before:
            raise PolicyContractError(
                f"{name}: changes the global state of random or numpy.random, which other code relies on: use the "
                "policy's generator"
            )


def check_reports(subject: Subject, arms: int, *, explores: bool) -> None:
    """Check that reports may have any type, come late, or not at all."""
    name, steps = subject.name, count_steps(arms)
    prompt = play(subject, arms)
    if play(subject, arms, number=int) != prompt:
        raise PolicyContractError(f"{name}: reports 1 and 1.0 lead to different choices: treat equal numbers alike")
    late, lost = play(subject, arms, report_late), play(subject, arms, lose_reports)
    if explores:
        for plays, words in ((prompt, ""), (lost, ", with half of the reports lost")):
            for arm in sorted({*range(arms)} - {*plays}):
                raise PolicyContractError(
                    f"{name}: arm {arm} was not chosen in {steps} steps{words}: explore it, or give explores=False"
                )
    usual = share_of_best(prompt, arms)
    if usual >= COMPETENT and share_of_best(lost, arms) < FORGETFUL * usual:
        raise PolicyContractError(
            f"{name}: neglects the best arm after reports were lost: do not wait for a report, and count pulls in "
            "observe"
        )
    if usual >= COMPETENT and share_of_best(late, arms) < FORGETFUL * usual:
        raise PolicyContractError(
            f"{name}: learns from prompt reports, and not from late ones: a report is for the arm given to observe, "
            "not for the last choice"
        )


def share_of_best(plays: list[int], arms: int) -> float:
    """Return the share of the best arm in the second half of a run; 0 with a single arm."""
    half = plays[len(plays) // 2 :]
    return half.count(arms - 1) / len(half) if arms > 1 else 0.0


def check_batches(subject: Subject, arms: int) -> None:
    """Check that many reports at once teach what they teach one by one."""
    one, many = (
        subject.build_live(arms, SEED) if isinstance(subject, CompiledSubject) else subject.build(arms, SEED)
        for _ in range(2)
    )
    observe_many = getattr(many, "observe_many", None)
    if not callable(observe_many):
        return
    run, other = (Run(subject.name, arms, subject.corruption) for _ in range(2))
    for _ in range(count_steps(arms) // BATCH):
        chosen = [run.choose(one) for _ in range(BATCH)]
        if [other.choose(many) for _ in range(BATCH)] != chosen:
            raise PolicyContractError(
                f"{subject.name}: observe_many leads to other choices than observe for each report: treat reports in "
                "their order, and leave none out"
            )
        feedbacks = [float(run.world.random() < run.means[arm]) for arm in chosen]
        with describe_failures(f"{subject.name}: observe_many({abbreviate(chosen)}, ...)"):
            observe_many(list(chosen), feedbacks)
        for arm, feedback in zip(chosen, feedbacks, strict=True):
            one.observe(arm, feedback)


def check_masks(subject: Subject, arms: int) -> None:
    """Check that masks of single reports are used, if the policy takes them."""
    own = expand_per_arm(fit_corruption(subject.corruption, arms), arms)
    if not subject.takes_masks(arms) or not all(isinstance(mask, RandomizedResponse) for mask in own):
        return
    plain = play_masked(subject, arms, lambda arm, draw: None)
    if play_masked(subject, arms, lambda arm, draw: own[arm]) != plain:
        raise PolicyContractError(
            f"{subject.name}: a report with the arm's own mask as its corruption leads to other choices: treat it as "
            "one without"
        )
    truth = RandomizedResponse.from_epsilon(MASK_EPSILON)
    opposite = RandomizedResponse(1.0 - truth.p00, 1.0 - truth.p11)
    mixed = play_masked(subject, arms, lambda arm, draw: truth if draw < 0.5 else opposite)
    if share_of_best(plain, arms) >= COMPETENT and share_of_best(mixed, arms) < FORGETFUL * share_of_best(plain, arms):
        raise PolicyContractError(
            f"{subject.name}: does not learn from reports whose masks differ: use corruption.p00 and corruption.p11 of "
            "each report"
        )


def play_masked(subject: Subject, arms: int, choose_mask: Callable[[int, float], Corruption | None]) -> list[int]:
    """Play a run whose reports have masks of their own, or None for the arm's; return the arms."""
    policy: Any = subject.build(arms, SEED)
    run = Run(subject.name, arms, subject.corruption)
    own, chosen = expand_per_arm(fit_corruption(subject.corruption, arms), arms), []
    for _ in range(count_steps(arms)):
        arm = run.choose(policy)
        mask = choose_mask(arm, float(run.world.random()))
        mean = (mask or own[arm])(0.95 if arm == arms - 1 else 0.05)
        feedback = float(run.world.random() < mean)
        with describe_failures(f"{subject.name}: observe({arm}, {feedback:g}, corruption={mask})"):
            if mask is None:
                policy.observe(arm, feedback)
            else:
                policy.observe(arm, feedback, corruption=mask)
        chosen.append(arm)
    return chosen


def check_numbers_of_arms(subject: Subject, arms: int) -> None:
    """Check that a policy plays with one arm and with many."""
    for number in (1, MANY_ARMS) if subject.takes_arms else ():
        words = f"{subject.name} with {number} arm{'s' * (number > 1)}"
        try:
            policy = subject.build(number, SEED)
        except UserError as error:
            if is_refusal(error):  # it is for another number of arms, and says so
                continue
            raise PolicyContractError(f"{words}: {error}") from error
        Run(words, number, subject.corruption).play(policy, 2 * MANY_ARMS)


def is_refusal(error: BaseException) -> bool:
    """Tell whether a policy refuses its arguments, and does not just fail."""
    return isinstance(error, UserError) and (error.__cause__ is None or is_refusal(error.__cause__))


def check_learned_state(subject: CompiledSubject, arms: int) -> None:
    """Check that a choice changes nothing that reports have taught."""
    run, policy = Run(subject.name, arms, subject.corruption), subject.build(arms, SEED)
    for _ in range(2 * MANY_ARMS):
        before = digest(policy.state)
        run.choose(policy)
        if digest(policy.state) != before:
            raise PolicyContractError(
                f"{subject.name}: choose() changed what the policy has learned, so a lost report counts: change it in "
                "observe, or declare it with scratch=True"
            )
        run.play(policy, 1)


def check_machine_code(subject: CompiledSubject, arms: int) -> None:
    """Check that machine code chooses and learns as the same code does in Python."""
    if INTERPRETED:
        return
    live = subject.build_live(arms, SEED)
    try:
        live.entries.load()
    except UserError:
        raise
    except Exception as error:
        raise PolicyContractError(f"{subject.name}: cannot be compiled: {explain_compiler(error)}") from error
    interpreted = subject.build(arms, SEED)
    steps = count_steps(arms)
    fast = Run(subject.name, arms, subject.corruption, report_late).play(live, steps)
    slow = Run(subject.name, arms, subject.corruption, report_late).play(interpreted, steps)
    if fast != slow or live.fold_digest() != digest(interpreted.state):
        raise PolicyContractError(
            f"{subject.name}: machine code and plain Python play differently: keep to numbers and the state's arrays, "
            "and check that no integer overflows"
        )


def explain_compiler(error: Exception) -> str:
    """Return the line of a compiler's error that says what is wrong."""
    lines = [" ".join(line.split()) for line in str(error).splitlines()]
    words = [line for line in lines if line and not line.startswith(("Failed in", "During:", "-", "File", "^"))]
    return f"{words[0] if words else type(error).__name__}; see docs/write_policy.md for what kernels may use"


def check_copies(subject: CompiledSubject) -> None:
    """Check that a copy and a saved policy continue alike."""
    policy, arms = subject.build_live(subject.policy.arms, SEED), subject.policy.arms
    Run(subject.name, arms, subject.corruption).play(InterpretedPolicy(policy._state), count_steps(arms))
    others = {"a copy": copy.copy(policy)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy"
        policy.save(path)
        try:
            others["a saved policy"] = load_policy(path, exact=True)
        except UserError as error:
            raise PolicyContractError(
                f"{subject.name}: a saved policy cannot be loaded: keep its numbers in the ranges that it declares "
                f"({error})"
            ) from error
    plays = [
        Run(subject.name, arms, subject.corruption).play(InterpretedPolicy(each._state), MIN_STEPS)
        for each in (policy, *others.values())
    ]
    for words, other in zip(others, plays[1:], strict=True):
        if other != plays[0]:
            raise PolicyContractError(
                f"{subject.name}: {words} plays differently: keep all state in declared numbers and arrays"
            )
