"""Without any of numba's internals everything still runs, with the same results."""

import json
import re
from pathlib import Path

import pytest

from fork_server import ForkServer
from maskedbandits._numba import cache, internals

# Each process has one feature less, as if numba had renamed the first name that it needs.
HIDE = """
import importlib, json, sys
from types import SimpleNamespace
feature, location = sys.argv[1:3]
hidden, _, name = location.partition(":")
name = name.split(".")[0]
find_module = importlib.import_module
def find_without(module, package=None):
    found = find_module(module, package)
    return SimpleNamespace(**{key: value for key, value in vars(found).items() if (module, key) != (hidden, name)})
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
policy = mb.make_policy(sys.argv[3], arms=3, corruption=mask, seed=1, **json.loads(sys.argv[4]))
chosen = []
for step in range(120):
    chosen.append(policy.choose())
    policy.observe(chosen[-1], float(step % 3 == chosen[-1]))
result = mb.simulate(problem, policy, runs=2, seed=3, checkpoints=5, progress=False)
print(json.dumps([chosen, result.regret.tolist(), result.pulls.tolist(), internals.find(feature or "entry") is None]))
"""
)
FEATURES = tuple(internals.NAMES)
QUICK = ("arrays", "switch")  # the features with the most code of ours
UNIFORM, EXP3, SHARED = ("uniform", "{}"), ("exp3s", '{"horizon": 300}'), ("sw-klucb-cf", '{"window": 60}')


def play(fork_server: ForkServer, feature: str, policy: tuple[str, str], folder: Path) -> tuple[list[object], bool]:
    """Return the choices and the results of a policy in a process without a feature, and whether it was missing."""
    environment = {cache.VARIABLE: str(folder), "MASKEDBANDITS_COMPILE": "now"}
    location = next(iter(internals.NAMES[feature].values())) if feature else ""
    done = fork_server.run("-c", PLAY, feature, location, *policy, environment=environment)
    assert done.returncode == 0, done.stderr
    *results, is_missing = json.loads(done.stdout)
    return results, is_missing


@pytest.mark.parametrize("feature", FEATURES)
def test_find_returns_none_if_any_name_is_missing(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert internals.find.__wrapped__(feature) is not None
    for key in internals.NAMES[feature]:
        with monkeypatch.context() as patch:
            patch.setitem(internals.NAMES[feature], key, "numba.core:renamed")
            assert internals.find.__wrapped__(feature) is None


@pytest.mark.parametrize("feature", QUICK)
def test_results_are_the_same_without_a_feature(feature: str, tmp_path: Path, fork_server: ForkServer) -> None:
    normal, _ = play(fork_server, "", UNIFORM, tmp_path.parent / "normal")  # compiled once for all features
    assert play(fork_server, feature, UNIFORM, tmp_path) == (normal, True)
    assert any(tmp_path.rglob("*.nbc"))


@pytest.mark.slow
@pytest.mark.parametrize("policy", [EXP3, SHARED], ids=["exp3s", "sw-klucb-cf"])
@pytest.mark.parametrize("feature", FEATURES)
def test_policies_are_the_same_without_a_feature(
    feature: str, policy: tuple[str, str], tmp_path: Path, fork_server: ForkServer
) -> None:
    normal, _ = play(fork_server, "", policy, tmp_path.parent / "normal")
    assert play(fork_server, feature, policy, tmp_path) == (normal, True)
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
