"""What holds of every detector: it notices changes, a restart forgets all, and the compiler changes nothing."""

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import single_detector
from children import finished
from maskedbandits.policies import DETECTORS
from maskedbandits.policies.detectors import glr
from trials import INTERPRETED

TESTS = Path(single_detector.__file__).parent

every_detector = pytest.mark.parametrize(
    "detector", single_detector.PARAMETERS, ids=lambda module: module.__name__.split(".")[-1]
)


def test_every_detector_is_covered() -> None:
    assert {module for module, *_ in DETECTORS.values()} == set(single_detector.PARAMETERS)


@every_detector
def test_restart_forgets_everything(detector: ModuleType) -> None:
    level = "delta" if detector is glr else "threshold"
    used, new = (single_detector.fresh(detector, **single_detector.PARAMETERS[detector]) for _ in range(2))
    rng = np.random.default_rng(7)
    used.scalars[level] = 1e-9 if detector is glr else np.inf  # no alarm meanwhile
    assert single_detector.first_alarm(used, rng.random(77)) == 0
    used.scalars[level] = new.scalars[level]
    single_detector.restart(used, 0)
    for feedback in single_detector.bits(rng, (100, 0.9), (60, 0.2)):
        assert single_detector.observe(used, 0, feedback, 400.0) == single_detector.observe(new, 0, feedback, 400.0)
        assert single_detector.read_memory(used) == single_detector.read_memory(new)


@every_detector
def test_changes_are_detected(detector: ModuleType) -> None:
    alarms, _ = single_detector.trace(detector)
    for start in (200, 400):
        assert any(start <= alarm < start + 60 for alarm in alarms), alarms


@pytest.mark.skipif(INTERPRETED, reason="there is nothing to compare without the compiler")
def test_interpreted_kernels_give_the_same() -> None:
    script = "import json, single_detector as one; print(json.dumps([one.trace(each) for each in one.PARAMETERS]))"
    done = finished([sys.executable, "-c", script], environment={"NUMBA_DISABLE_JIT": "1"}, folder=TESTS)
    assert done.returncode == 0, done.stderr
    for detector, (alarms, memory) in zip(single_detector.PARAMETERS, json.loads(done.stdout), strict=True):
        compiled_alarms, compiled_memory = single_detector.trace(detector)
        assert alarms == compiled_alarms
        assert memory.keys() == compiled_memory.keys()
        for key, values in memory.items():
            np.testing.assert_allclose(values, compiled_memory[key], rtol=1e-13, atol=1e-13)
