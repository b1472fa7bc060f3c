"""Code in memory: what changes a number changes the digest, in every process alike."""

import importlib
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maskedbandits.fingerprint import trace
from maskedbandits.fingerprint.values import Description

EVERYTHING = """
import abc, collections, dataclasses, enum, functools, logging, math, os, re, threading, typing
import numpy as np
from numba import njit

Point = collections.namedtuple("Point", "a b")

class Row(typing.NamedTuple):
    x: int
    y: float = 2.0

class Colour(enum.Enum):
    RED = 1

@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    x: int = 3
    y: list = dataclasses.field(default_factory=list)

class Plain:
    def __init__(self, x): self.x = x

LOG, LOCK, PATTERN = logging.getLogger("x"), threading.Lock(), re.compile("x+")
WORDS, TABLE, LOTS = {"a", "b", "c", "d"}, np.arange(5.0), np.random.default_rng(3)
LARGE, LINES = 10**5000, {"a": [1, 2], "b": {3}}
POINT, ROW, SETTINGS, PLAIN, RED = Point(1, 2), Row(1), Settings(4), Plain(5), Colour.RED
LOOP = [1]
LOOP.append(LOOP)

@functools.lru_cache
def remembered(x): return x + 1

@njit
def fast(x): return x * TABLE[0]

def made(by):
    def inner(x, more=1.0): return x * by * more
    return inner

twice = made(2)
half = functools.partial(twice, more=0.5)

class Base(abc.ABC):
    @abc.abstractmethod
    def f(self): ...
    @functools.cached_property
    def g(self): return 11
    @property
    def h(self): return 12
    @staticmethod
    def i(): return 13

class Policy(Base):
    limits: typing.ClassVar[dict[str, int | None]] = {"x": 14}
    def f(self): return LOG, LOCK, PATTERN, WORDS, TABLE, LOTS, LARGE, LINES, POINT, ROW, SETTINGS, PLAIN, RED, LOOP
    def choose(self): return remembered(1), fast(2.0), half(3), math.pi, os.sep, [w for w in WORDS if w in {"a", "b"}]
"""
EDITS = [
    ('"a b"', '"b a"'),
    ("y: float = 2.0", "y: float = 2.5"),
    ("RED = 1", "RED = 2"),
    ("self.x = x", "self.x = -x"),
    ('"x+"', '"x*"'),
    ('"c", "d"}', '"c", "e"}'),
    ("arange(5.0)", "arange(6.0)"),
    ("rng(3)", "rng(4)"),
    ("10**5000", "10**5001"),
    ('"b": {3}', '"b": {4}'),
    ("Point(1, 2)", "Point(1, 3)"),
    ("Settings(4)", "Settings(5)"),
    ("Plain(5)", "Plain(6)"),
    ("LOOP = [1]", "LOOP = [2]"),
    ("return x + 1", "return x + 2"),
    ("x * TABLE[0]", "x * TABLE[1]"),
    ("x * by * more", "x + by * more"),
    ("made(2)", "made(3)"),
    ("more=0.5", "more=0.25"),
    ("more=1.0", "more=1.5"),
    ("return 11", "return 21"),
    ("return 12", "return 22"),
    ("return 13", "return 23"),
    ('{"x": 14}', '{"x": 24}'),
    ("math.pi", "math.e"),
    ('in {"a", "b"}', 'in {"a", "c"}'),
]
TELL = """
import sys
sys.path.insert(0, sys.argv[1])
import everything
from maskedbandits.fingerprint import trace
origin = trace((everything, ["Policy"]))
print(origin.digest, origin.doubt)
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in ("everything", "own", "helper"):
        sys.modules.pop(name, None)


def described(module: types.ModuleType, *names: str) -> str:
    found = Description()
    found.add_module(module, names)
    return found.digest


def loaded(folder: Path, text: str, name: str = "everything") -> types.ModuleType:
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def test_whatever_changes_a_number_changes_the_digest(modules: Path) -> None:
    before = described(loaded(modules, EVERYTHING), "Policy")
    assert described(loaded(modules, EVERYTHING), "Policy") == before
    assert described(loaded(modules, EVERYTHING + "\ndef unrelated(): pass\n"), "Policy") == before
    for old, new in EDITS:
        assert EVERYTHING.count(old) == 1, old
        assert described(loaded(modules, EVERYTHING.replace(old, new)), "Policy") != before, old


def test_all_processes_agree(modules: Path) -> None:
    """Whatever the order of sets, and whether code is compiled or read from bytecode."""
    (modules / "everything.py").write_text(EVERYTHING, encoding="utf-8")
    digests = set()
    for seed in ("1", "2"):
        command = [sys.executable, "-c", TELL, str(modules)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        digests.add(done.stdout)
    assert len(digests) == 1
    assert digests.pop().endswith(" \n")  # without a doubt


def test_a_helper_that_is_reached_through_modules_counts(modules: Path) -> None:
    loaded(modules, "RATE = 1\ndef f(): return RATE\ndef g(): return 2\n", "helper")
    own = loaded(modules, "import helper\ndef choose(): return helper.f()\n", "own")
    before = described(own, "choose")
    helper: Any = sys.modules["helper"]
    helper.g = None
    assert described(own, "choose") == before  # it is not used
    helper.RATE = 2
    assert described(own, "choose") != before


def test_a_change_in_memory_is_noticed(modules: Path) -> None:
    own: Any = loaded(modules, "RATE = 1\ndef choose(): return RATE\n", "own")
    origin = trace((own, ["choose"]))
    assert not origin.has_changed()
    own.unrelated = 2
    assert not origin.has_changed()
    own.RATE = 2
    assert origin.has_changed()


def test_an_object_that_cannot_be_compared_is_doubted(modules: Path) -> None:
    own = loaded(modules, "FILE = open(__file__)\ndef choose(): return FILE\n", "own")
    origin = trace((own, ["choose"]))
    assert origin.doubt == "it depends on an object that cannot be compared, of type TextIOWrapper"
    assert not origin.has_changed()  # it is the same one
    own.FILE.close()


def test_an_object_that_misbehaves_is_doubted(modules: Path) -> None:
    text = "class Odd:\n    def __getattr__(self, name): raise OSError(name)\nODD = Odd()\ndef choose(): return ODD\n"
    assert "of type Odd" in trace((loaded(modules, text, "own"), ["choose"])).doubt


@pytest.mark.parametrize("name", ["own", "random"])
def test_a_module_without_a_file_is_doubted(name: str) -> None:
    made = types.ModuleType(name)
    exec("def choose(): return 1", made.__dict__)  # noqa: S102 -- as a prompt does it
    assert trace((made, ["choose"])).doubt == "choose is not defined in a file"


def test_an_object_may_be_a_policys_origin() -> None:
    one, two = (trace((types.SimpleNamespace(choose=each), None)) for each in (len, abs))
    assert one.digest != two.digest
