"""A live policy starts at once, interpreted, and goes on with machine code: its choices do not tell which."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from maskedbandits._numba import cache
from maskedbandits.policies import KINDS

PLAY = """
import json, sys, time
import maskedbandits as mb
policy = mb.make_policy(sys.argv[1], arms=3, corruption=mb.RandomizedResponse.from_epsilon(2), seed=5)
chosen, before = [], 0
until = time.monotonic() + 240
while len(chosen) < 400 or (before == len(chosen) and time.monotonic() < until):
    arm = policy.choose()
    before += not policy.entries.is_machine_code
    policy.observe(arm, float((arm + len(chosen)) % 3 == 0))
    chosen.append(arm)
chosen += [policy.choose() for _ in range(200)]
print(json.dumps([before, chosen]))
"""


def play(name: str, folder: Path, mode: str) -> tuple[int, list[int], str]:
    environment = {**os.environ, cache.VARIABLE: str(folder), "MASKEDBANDITS_COMPILE": mode}
    done = subprocess.run(
        [sys.executable, "-c", PLAY, name], env=environment, capture_output=True, text=True, check=True
    )
    before, chosen = json.loads(done.stdout)
    return before, chosen, done.stderr


@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="there is nothing to wait for")
@pytest.mark.parametrize("name", ["uniform", pytest.param("auto", marks=pytest.mark.slow)])
def test_choices_are_the_same_before_and_after_the_switch(name: str, tmp_path: Path) -> None:
    before, chosen, said = play(name, tmp_path, "background")
    assert 0 < before < len(chosen) - 200  # it began interpreted, and ended compiled
    assert f"compiling {name} for this machine in the background" in said
    assert said.count("\n") == 1
    at_once, again, silence = play(name, tmp_path, "background")
    assert (at_once, silence) == (0, "")  # it was kept
    common = min(len(chosen), len(again)) - 200
    assert chosen[:common] == again[:common]


def test_no_record_is_taken_for_another() -> None:
    """Numba lets a record stand for one that begins with the same numbers, and warns of it."""
    records = {kind.layout.storage.name: numba.from_dtype(kind.layout.storage.dtype) for kind in KINDS.values()}
    for one, other in itertools.permutations(records.values(), 2):
        assert one.can_convert_to(None, other) is None
