"""A live policy starts interpreted and continues with machine code, with the same choices."""

import itertools
import json
import os
import threading
from pathlib import Path

import numba
import pytest

from fork_server import ForkServer
from helpers.private import hear_messages
from maskedbandits._numba import cache
from maskedbandits.policies import KINDS
from maskedbandits.policies.runtime import Entries

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
    time.sleep(0.01 if len(chosen) >= 400 else 0)  # leave the processor to the compiler
chosen += [policy.choose() for _ in range(200)]
print(json.dumps([before, chosen]))
"""


def play(fork_server: ForkServer, name: str, folder: Path, mode: str) -> tuple[int, list[int], str]:
    """Return how many choices were interpreted, all choices, and the messages."""
    environment = {cache.VARIABLE: str(folder), "MASKEDBANDITS_COMPILE": mode}
    done = fork_server.run("-c", PLAY, name, environment=environment)
    assert done.returncode == 0, done.stderr
    before, chosen = json.loads(done.stdout)
    return before, chosen, done.stderr


COMPILES = pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")


@COMPILES
@pytest.mark.parametrize("name", ["uniform", pytest.param("auto", marks=pytest.mark.slow)])
def test_choices_are_the_same_before_and_after_the_switch(name: str, tmp_path: Path, fork_server: ForkServer) -> None:
    before, chosen, said = play(fork_server, name, tmp_path, "background")
    assert 0 < before < len(chosen) - 200  # it began interpreted, and ended compiled
    assert f"compiling {name} for this machine in the background" in said
    assert said.count("\n") == 1
    at_once, again, silence = play(fork_server, name, tmp_path, "background")
    assert (at_once, silence) == (0, "")  # it was stored
    common = min(len(chosen), len(again)) - 200
    assert chosen[:common] == again[:common]


@COMPILES
def test_unknown_compile_mode_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    said = hear_messages(monkeypatch)
    monkeypatch.setenv("MASKEDBANDITS_COMPILE", "soon")
    monkeypatch.setattr(cache, "is_stored", lambda name: False)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: None)  # else it would compile
    Entries(KINDS["uniform"].layout, "").prepare()
    assert said[0] == "MASKEDBANDITS_COMPILE = 'soon' is unknown, background is used: give now or background"
    assert "in the background" in said[1]


def test_no_record_is_mistaken_for_another() -> None:
    """Numba accepts a record in place of one that begins with the same fields, with a warning."""
    records = {kind.layout.storage.name: numba.from_dtype(kind.layout.storage.dtype) for kind in KINDS.values()}
    for one, other in itertools.permutations(records.values(), 2):
        assert one.can_convert_to(None, other) is None
