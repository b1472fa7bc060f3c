"""What policies choose stays as it is, with the compiler on and off."""

import json
import sys

import pytest

import digests
from children import finished
from maskedbandits.policies import names

KEPT: dict[str, dict[str, str]] = json.loads(digests.KEPT.read_text(encoding="utf-8"))


def test_every_policy_has_digests() -> None:
    assert sorted(KEPT) == names()


@pytest.mark.parametrize("name", KEPT)
def test_compiled(name: str) -> None:
    assert digests.plays(name) == KEPT[name]


@pytest.mark.slow
def test_interpreted() -> None:
    """The first steps of each play alone: the interpreter takes its time."""
    done = finished([sys.executable, digests.__file__, "--first"], environment={"NUMBA_DISABLE_JIT": "1"})
    assert done.returncode == 0, done.stderr
    expected = {name: {play: both.split()[0] for play, both in kept.items()} for name, kept in KEPT.items()}
    assert json.loads(done.stdout) == expected
