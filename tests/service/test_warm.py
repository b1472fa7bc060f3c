"""Machine code before anybody is let in: what is needed is found, compiled once by a child, and loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from children import PROGRAM, finished
from maskedbandits import cache
from maskedbandits.service import warm
from maskedbandits.service.stores import open_store
from maskedbandits.service.stores.rows import Change, NewArm
from maskedbandits.service.terms import Terms

TERMS = '{"epsilon":1.0,"policy":"%s","parameters":{},"report_after":1,"expires_after":2,"floor":0,"holdout":0}'
COLD = """
import asyncio
from maskedbandits.service import warm
names = warm.needed(["uniform"])
assert names and warm.missing(names) == names, names
asyncio.run(warm.compile_beside(names))
assert warm.missing(names) == [], "the child has not filled the cache"
warm.load(names)
"""


def test_what_experiments_use_is_needed_and_what_new_ones_have(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bandits.db"
    with open_store(url, create=True) as store:
        assert warm.policies_of(url) == ["auto"]
        for name, policy in (("a", "ts-cf"), ("b", "klucb-cf"), ("c", "ts-cf")):
            assert Terms.read(TERMS % policy).policy == policy
            store.create_experiment(name, TERMS % policy, [NewArm("x")], 0, 0)
        assert warm.policies_of(url) == ["auto", "klucb-cf", "ts-cf"]
        store.change(2, Change("status", 0, status="archived"))
        assert warm.policies_of(url) == ["auto", "ts-cf"]


def test_all_variants_of_a_policy_are_needed() -> None:
    names = warm.needed(["klucb-cf", "auto"])
    assert len(set(names)) == len(names)
    assert sum("." not in name for name in names) >= 2


def test_what_is_kept_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "is_marked", lambda name: name == "here")
    assert warm.missing(["here", "there"]) == ["there"]


@pytest.mark.long
def test_a_child_fills_the_cache(tmp_path: Path) -> None:
    done = finished([PROGRAM[0], "-c", COLD], environment={"MASKEDBANDITS_CACHE": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("compiled-*/*.ready"))
