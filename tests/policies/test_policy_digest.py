"""A policy's digest depends on its reports, in order: not on decisions, batches or pending reports."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import log_digests
from children import finished
from log_digests import OFFERED, drawn_log, fresh, tell, tell_in_chunks
from maskedbandits import Policy, load_policy
from maskedbandits.policies import serialization
from trials import INTERPRETED, examples


def meddle(policy: Policy, rng: np.random.Generator) -> None:
    """Do something that must not change the digest."""
    arm = int(rng.integers(policy.arms))
    among = rng.choice(np.flatnonzero(~policy.retired), 3) if rng.random() < 0.2 else None
    match rng.integers(8):
        case 0:
            policy.choose(among=among)
        case 1:
            policy.choose(int(rng.integers(40)), among=among)
        case 2:
            policy.sample(int(rng.integers(40)), among=among)
        case 3:
            policy.note(arm, int(rng.integers(5)))
        case 4:
            policy.expire(arm, int(rng.integers(9)))
        case 5:
            policy.await_exactly(rng.integers(0, 3, policy.arms))
        case 6:
            policy.indices()
        case 7:
            policy.probabilities(draws=5)


def saved_and_loaded(policy: Policy, path: Path) -> Policy:
    policy.save(path)
    return serialization.loads(serialization.dumps(load_policy(path)))


class TestFold:
    @pytest.mark.parametrize("name", OFFERED)
    @examples(4)
    @given(seed=st.integers(0, 2**32))
    def test_digest_ignores_decisions_and_batches(
        self, name: str, seed: int, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        rng = np.random.default_rng(seed)
        arms = int(rng.choice([1, 2, 5, 40]))
        log = drawn_log(rng, arms, int(rng.integers(50, 400)))
        many, one = fresh(name, arms, 1), fresh(name, arms, 2)
        tell_in_chunks(many, log, rng)
        half = int(rng.integers(len(log)))
        for place, event in enumerate(log):
            for _ in range(int(rng.integers(3))):
                meddle(one, rng)
            if place == half:
                one = saved_and_loaded(one, tmp_path_factory.getbasetemp() / name)
            tell(one, event)
        meddle(one, rng)
        assert one.fold_digest() == many.fold_digest()

    @pytest.mark.parametrize("name", OFFERED)
    def test_digest_depends_on_every_report(self, name: str) -> None:
        reports = [(0, 1.0), (1, 0.0), (1, 1.0), (2, 1.0), (0, 0.0)]
        others = [reports[:-1], [*reports[:-1], (0, 1.0)], [*reports[:-1], (1, 0.0)], reports[1:]]
        digests = []
        for each in (reports, *others, reports):
            policy = fresh(name, 3, 1)
            policy.observe_many(*zip(*each, strict=True))
            digests.append(policy.fold_digest())
        assert digests[0] == digests[-1]
        assert len(set(digests)) == 5

    @pytest.mark.skipif(INTERPRETED, reason="there is nothing to compare")
    def test_interpreter_gives_same_digest(self) -> None:
        done = finished([sys.executable, log_digests.__file__, *OFFERED], environment={"NUMBA_DISABLE_JIT": "1"})
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {name: log_digests.digests(name) for name in OFFERED}
