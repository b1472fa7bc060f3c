"""Randomness comes from the operating system each time, and there is no seed."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from randomizers import slack
from scipy.stats import chi2

import maskedbandits.privacy
from maskedbandits.privacy import KaryRandomizer, Randomizer, randomized_response

# Where the randomness comes from

FORBIDDEN_MODULES = {"random", "secrets", "numpy.random"}
FORBIDDEN_NAMES = {"random", "default_rng", "RandomState", "Generator", "seed", "SystemRandom", "SeedSequence"}


def seeded(source: str) -> list[str]:
    """Return everything in a source that could draw from a seeded generator."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = {node.module, *(alias.name for alias in node.names)}
            found += sorted(str(name) for name in names & (FORBIDDEN_MODULES | FORBIDDEN_NAMES))
        elif isinstance(node, ast.Attribute) and node.attr in FORBIDDEN_NAMES:
            found.append(node.attr)
        elif isinstance(node, (ast.arg, ast.keyword)) and node.arg in FORBIDDEN_NAMES:
            found.append(str(node.arg))
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES | {"__import__"}:
            found.append(node.id)
    return found


def test_privacy_package_has_no_seed() -> None:
    files = sorted(Path(maskedbandits.privacy.__path__[0]).rglob("*.py"))
    assert {"exact.py", "randomized_response.py"} <= {file.name for file in files}
    assert {file.name: seeded(file.read_text(encoding="utf-8")) for file in files} == {file.name: [] for file in files}


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "import numpy.random",
        "import secrets",
        "from numpy import random",
        "from numpy.random import PCG64",
        "import numpy as np\nnp.random.rand()",
        "def f(seed=0): ...",
        "f(seed=1)",
        "__import__('random')",
    ],
)
def test_seed_would_be_found(source: str) -> None:
    assert seeded(source)


def test_masking_has_no_branch_on_the_bit() -> None:
    branches = (ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.Match, ast.Try, ast.For, ast.comprehension)
    for step, compared in (
        (randomized_response.mask_with_word, 1),
        (Randomizer.bit, 0),
        (KaryRandomizer.mask_with_word, 1),
    ):
        tree = ast.parse(textwrap.dedent(inspect.getsource(step)))
        assert not [node for node in ast.walk(tree) if isinstance(node, branches)]
        assert sum(isinstance(node, ast.Compare) for node in ast.walk(tree)) == compared


def test_every_report_asks_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: sizes.append(size) or real(size))  # type: ignore[func-returns-value]
    randomizer, kary = Randomizer(1), KaryRandomizer(3, 1)
    for _ in range(3):
        randomizer.bit(1)
        kary.answer(1)
    randomizer.bits(np.ones(5, dtype=np.int64))
    assert sizes == [135, 8, 8] * 3 + [40]


def test_system_bytes_are_uniform() -> None:
    counts = np.bincount(np.frombuffer(os.urandom(1 << 20), dtype=np.uint8), minlength=256)
    expected = (1 << 20) / 256
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < chi2.isf(1e-9, 255)  # passed by chance in all but one of 10^9 runs


def test_threads_share_no_words() -> None:
    randomizer = Randomizer(0)

    def stream(_: int) -> tuple[int, ...]:
        return tuple(randomizer.bit(1) for _ in range(256))

    with ThreadPoolExecutor(8) as pool:
        streams = list(pool.map(stream, range(64)))
    assert len(set(streams)) == 64  # two of them agree by chance with a probability below 2^-240
    assert abs(np.mean(streams) - 0.5) < slack(64 * 256)


FORKING = """
import os
from maskedbandits.privacy import Randomizer
randomizer = Randomizer(0)
randomizer.bit(1)
for _ in range(8):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        single = "".join(str(randomizer.bit(1)) for _ in range(128))
        array = "".join(map(str, randomizer.bits([1] * 128)))
        os.write(write, (single + array).encode())
        os._exit(0)
    os.close(write)
    print(os.read(read, 1000).decode())
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_forked_processes_share_no_words() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60, check=True)
    streams = done.stdout.split()
    assert [len(stream) for stream in streams] == [256] * 8
    halves = [half for stream in streams for half in (stream[:128], stream[128:])]
    assert len(set(halves)) == 16  # by chance two agree with a probability below 2^-120
