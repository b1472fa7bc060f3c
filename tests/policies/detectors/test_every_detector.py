"""What holds of every detector: it notices changes, a restart forgets all, and the compiler changes nothing."""

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import alone
from children import finished
from maskedbandits.policies import DETECTORS
from maskedbandits.policies.detectors import glr
from trials import INTERPRETED

TESTS = Path(alone.__file__).parent

every_detector = pytest.mark.parametrize(
    "detector", alone.PARAMETERS, ids=lambda module: module.__name__.split(".")[-1]
)


def test_none_is_left_out() -> None:
    assert {module for module, *_ in DETECTORS.values()} == set(alone.PARAMETERS)


@every_detector
def test_a_restart_forgets_everything(detector: ModuleType) -> None:
    level = "delta" if detector is glr else "threshold"
    used, new = (alone.fresh(detector, **alone.PARAMETERS[detector]) for _ in range(2))
    rng = np.random.default_rng(7)
    used.scalars[level] = 1e-9 if detector is glr else np.inf  # no alarm meanwhile
    assert alone.first_alarm(used, rng.random(77)) == 0
    used.scalars[level] = new.scalars[level]
    alone.restart(used, 0)
    for feedback in alone.bits(rng, (100, 0.9), (60, 0.2)):
        assert alone.observe(used, 0, feedback, 400.0) == alone.observe(new, 0, feedback, 400.0)
        assert alone.remembered(used) == alone.remembered(new)


@every_detector
def test_the_changes_are_noticed(detector: ModuleType) -> None:
    alarms, _ = alone.trace(detector)
    for start in (200, 400):
        assert any(start <= alarm < start + 60 for alarm in alarms), alarms


@pytest.mark.skipif(INTERPRETED, reason="there is nothing to compare without the compiler")
def test_kernels_do_the_same_with_the_compiler_off() -> None:
    script = "import json, alone; print(json.dumps([alone.trace(detector) for detector in alone.PARAMETERS]))"
    done = finished([sys.executable, "-c", script], environment={"NUMBA_DISABLE_JIT": "1"}, folder=TESTS)
    assert done.returncode == 0, done.stderr
    for detector, (alarms, remembered) in zip(alone.PARAMETERS, json.loads(done.stdout), strict=True):
        compiled_alarms, compiled_remembered = alone.trace(detector)
        assert alarms == compiled_alarms
        assert remembered.keys() == compiled_remembered.keys()
        for key, values in remembered.items():
            np.testing.assert_allclose(values, compiled_remembered[key], rtol=1e-13, atol=1e-13)
