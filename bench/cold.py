"""What the first use of a policy costs: CPU seconds of fresh processes whose folder of machine code is empty.

A live policy decides at once, interpreted, while a child compiles. Measured are the seconds until its first decision,
import included, and until machine code is in use, the child's included.
"""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

LIVE = {"auto": "", "sw-klucb-cf": ", window=2000", "glr-ts-cf": ""}

DECIDES = """
import os, sys, time
import maskedbandits as mb
rr = mb.RandomizedResponse.from_epsilon(1.0)
policy = mb.make_policy({name!r}, arms=10, corruption=rr{parameters})
arm = policy.choose()
print(time.process_time(), flush=True)
policy.observe(arm, 1.0)
while not policy.entries.is_machine_code:
    time.sleep(0.05)
spent = os.times()
print(spent.user + spent.system + spent.children_user + spent.children_system)
"""

SIMULATES = """
import time
import maskedbandits as mb
rr = mb.RandomizedResponse.from_epsilon(1.0)
problem = mb.Problem([[0.9, 0.8]], [0], 1000, rr)
mb.simulate(problem, mb.make_policy("sw-klucb-cf", arms=2, corruption=rr, window=100), runs=2)
print(time.process_time())
"""


@dataclass(frozen=True)
class Start:
    """Something that is done first, the CPU seconds that it takes, and should take at most."""

    title: str
    seconds: float
    goal: float


def _run_script(script: str, folder: str) -> list[float]:
    """Return the numbers that a fresh process prints, which keeps its machine code in this folder."""
    kept = {key: value for key, value in os.environ.items() if key != "MASKEDBANDITS_COMPILE"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**kept, "MASKEDBANDITS_CACHE": folder},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return [float(line) for line in done.stdout.split()]


def live(name: str) -> list[Start]:
    """Measure a live policy of whose kind nothing is compiled."""
    script = DECIDES.format(name=name, parameters=LIVE[name])
    with tempfile.TemporaryDirectory() as folder:
        first, ready = _run_script(script, folder)
        again, _ = _run_script(script, folder)
    return [
        Start(f"{name}: the first live decision", first, 2.0),
        Start(f"{name}: machine code in use", ready, 10.0),
        Start(f"{name}: the first live decision of a second process", again, 2.0),
    ]


def simulation() -> list[Start]:
    """Measure a small simulation without compiled code, and with it."""
    with tempfile.TemporaryDirectory() as folder:
        [first], [second] = (_run_script(SIMULATES, folder) for _ in range(2))
    return [
        Start("a small simulation, compiling", first, 10.0),
        Start("a small simulation in a second process", second, 2.0),
    ]


def starts() -> list[Start]:
    """Measure all of them, one after the other."""
    return [*(start for name in LIVE for start in live(name)), *simulation()]
