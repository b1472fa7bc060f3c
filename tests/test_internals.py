"""Without any of numba's internals everything still runs, with the same results."""

import json
import re
from pathlib import Path

import pytest

from fork_server import ForkServer
from maskedbandits._numba import cache, internals

# Each process lacks some features, as if numba had renamed the first name that each needs.
HIDE = """
import importlib, json, sys
from types import SimpleNamespace
hidden = json.loads(sys.argv[1])
find_module = importlib.import_module
def find_without(module, package=None):
    found = find_module(module, package)
    return SimpleNamespace(**{key: value for key, value in vars(found).items() if f"{module}:{key}" not in hidden})
importlib.import_module = find_without
from maskedbandits._numba import internals
for each in internals.NAMES:
    internals.find(each)
importlib.import_module = find_module
"""
PLAY = (
    HIDE
    + """
import maskedbandits as mb
mask = mb.RandomizedResponse.from_epsilon(2)
problem = mb.Problem([[0.2, 0.8, 0.5], [0.8, 0.2, 0.5]], [0, 150], 300, mask)
policy = mb.make_policy(sys.argv[2], arms=3, corruption=mask, seed=1, **json.loads(sys.argv[3]))
chosen = []
for step in range(120):
    chosen.append(policy.choose())
    policy.observe(chosen[-1], float(step % 3 == chosen[-1]))
result = mb.simulate(problem, policy, runs=2, seed=3, checkpoints=5, progress=False)
missing = [each for each in internals.NAMES if internals.find(each) is None]
print(json.dumps([chosen, result.regret.tolist(), result.pulls.tolist(), missing]))
"""
)
FEATURES = tuple(internals.NAMES)
LONGEST = ("arrays", "switch")  # the features with the most code of ours
UNIFORM, EXP3, SHARED = ("uniform", "{}"), ("exp3s", '{"horizon": 300}'), ("sw-klucb-cf", '{"window": 60}')


def first_name(feature: str) -> str:
    """Return the first name that a feature needs, with its module."""
    module, _, path = next(iter(internals.NAMES[feature].values())).partition(":")
    return f"{module}:{path.split('.')[0]}"


def play(
    fork_server: ForkServer, features: tuple[str, ...], policy: tuple[str, str], folder: Path | None = None
) -> tuple[list[object], list[str]]:
    """Return the choices and the results of a policy in a process without these features, and which were missing."""
    environment = {"MASKEDBANDITS_COMPILE": "now"} | ({cache.VARIABLE: str(folder)} if folder else {})
    hidden = json.dumps([first_name(feature) for feature in features])
    done = fork_server.run("-c", PLAY, hidden, *policy, environment=environment)
    assert done.returncode == 0, done.stderr
    *results, missing = json.loads(done.stdout)
    return results, missing


@pytest.mark.parametrize("feature", FEATURES)
def test_find_returns_none_if_any_name_is_missing(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert internals.find.__wrapped__(feature) is not None
    for key in internals.NAMES[feature]:
        with monkeypatch.context() as patch:
            patch.setitem(internals.NAMES[feature], key, "numba.core:renamed")
            assert internals.find.__wrapped__(feature) is None


def test_results_are_the_same_without_two_features(tmp_path: Path, fork_server: ForkServer) -> None:
    normal, _ = play(fork_server, (), UNIFORM)  # loaded, if it was compiled before
    without, missing = play(fork_server, LONGEST, UNIFORM, tmp_path)
    assert without == normal
    assert {*LONGEST} <= {*missing}
    assert any(tmp_path.rglob("*.nbc"))


@pytest.mark.slow
@pytest.mark.parametrize("policy", [UNIFORM, EXP3, SHARED], ids=["uniform", "exp3s", "sw-klucb-cf"])
@pytest.mark.parametrize("feature", FEATURES)
def test_results_are_the_same_without_a_feature(
    feature: str, policy: tuple[str, str], tmp_path: Path, fork_server: ForkServer
) -> None:
    normal, _ = play(fork_server, (), policy)
    without, missing = play(fork_server, (feature,), policy, tmp_path)
    assert without == normal
    assert feature in missing
    assert any(tmp_path.rglob("*.nbc")) == (feature != "files")


def test_only_one_module_uses_internals() -> None:
    """Numba's public interface is ``numba`` and ``numba.extending``."""
    internal = re.compile(r"numba\.(core|np|cpython|typed|stencils)\b|llvmlite")
    found = [path for path in cache.HERE.rglob("*.py") if internal.search(path.read_text(encoding="utf-8"))]
    # The second one asks llvmlite for its version and for the processor.
    assert {path.relative_to(cache.HERE).as_posix() for path in found} == {
        "_numba/internals.py",
        "fingerprint/package.py",
    }
