"""What policies choose stays as it is, with the compiler on and off."""

import json
import os
import subprocess
import sys

import pytest

import digests
from maskedbandits.policies import names

KEPT: dict[str, dict[str, str]] = json.loads(digests.KEPT.read_text(encoding="utf-8"))


def test_every_policy_has_digests() -> None:
    assert sorted(KEPT) == names()


@pytest.mark.parametrize("name", KEPT)
def test_compiled(name: str) -> None:
    assert digests.plays(name) == KEPT[name]


def test_interpreted() -> None:
    done = subprocess.run(
        [sys.executable, digests.__file__],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == KEPT
