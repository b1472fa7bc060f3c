"""An edit of your own compiled policy takes effect: in the next process, in the next cell, after a reload."""

import sys
from pathlib import Path

import pytest

from children import finished
from fork_server import ForkServer
from maskedbandits._numba import cache
from maskedbandits._numba.state import Floats, Layout, array, record
from maskedbandits.errors import UserError
from maskedbandits.policies.state import Arms

HEAD = """
from maskedbandits._numba.jit import inner
from maskedbandits.policies.state import Arms
from maskedbandits._numba.state import record

SUMMARY = "always pulls one arm"
LEARNS_FROM = "nothing"


@record
class Policy(Arms):
    "Nothing more."

"""
CHOOSE = """
@inner
def choose(state):
    return helper.arm()

"""
HELPER = """
from maskedbandits._numba.jit import inner
from deep.down import ARM

@inner
def arm():
    return ARM
"""
OWN = "import helper\n" + HEAD + CHOOSE
REGISTER = "mb.register_policy('own', {module})\n"
PULL = "print(mb.make_policy('own', arms=9).sample(1)[0], end=' ')\n"
IMPORTS = "import importlib, sys\nimport maskedbandits as mb\n"
USE = IMPORTS + "import own\n" + REGISTER.format(module="own") + PULL
HERE = "sys.modules[__name__]"
ITSELF = IMPORTS + OWN + REGISTER.format(module=HERE) + PULL

NOT_KEPT = "machine code of your own policy is not kept, and is compiled in every process: "
COMPILED = "compiling own for this machine"

# Run cells as a notebook does.
CELLS = """
import linecache, sys

def run(number, text):
    name = f"<ipython-input-{number}-c0ffee>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), sys.modules["__main__"].__dict__)

"""


class Folder:
    """A user's folder, with another one for machine code."""

    def __init__(self, path: Path, fork_server: ForkServer) -> None:
        self.path, self._server = path, fork_server
        (path / "deep").mkdir()  # a package without __init__.py
        self.write("own.py", OWN)
        self.write("helper.py", HELPER)
        self.write("deep/down.py", "ARM = 1\n")

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def run(self, *arguments: str, fresh: bool = False) -> tuple[str, str]:
        """Run Python there, in a new interpreter or in a fork; return its output and its messages."""
        environment = {
            cache.VARIABLE: str(self.path / "cache"),
            "MASKEDBANDITS_COMPILE": "now",
            "PYTHONDONTWRITEBYTECODE": "1",  # two edits within a second have the same time
        }
        if fresh:
            done = finished([sys.executable, *arguments], environment=environment, folder=self.path)
        else:
            done = self._server.run(*arguments, environment=environment, folder=self.path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), done.stderr


@pytest.fixture
def folder(tmp_path: Path, fork_server: ForkServer) -> Folder:
    return Folder(tmp_path, fork_server)


def test_edits_of_a_policy_or_its_imports_take_effect(folder: Folder) -> None:
    arm, said = folder.run("-c", USE)
    assert arm == "1"
    assert f"{COMPILED}, once" in said
    assert folder.run("-c", USE) == ("1", "")  # it is stored
    for name, before, after, arm in (
        ("own.py", "helper.arm()", "helper.arm() + 1", "2"),
        ("deep/down.py", "ARM = 1", "ARM = 4", "5"),  # which it imports by way of the helper
    ):
        folder.write(name, (folder.path / name).read_text(encoding="utf-8").replace(before, after))
        assert folder.run("-c", USE)[0] == arm, name
    assert folder.run("-c", USE) == ("5", "")


def test_own_policy_is_not_mistaken_for_one_of_the_same_name(folder: Folder) -> None:
    """Not even for one of this package."""
    folder.write("uniform.py", OWN)
    use = IMPORTS + "import uniform\n" + REGISTER.format(module="uniform") + PULL
    builtin = "import maskedbandits as mb\nassert len({*mb.make_policy('uniform', arms=9).sample(99)}) > 1\n"
    assert folder.run("-c", builtin + use)[0] == "1"


def test_policy_in_a_script_is_stored_until_it_changes(folder: Folder) -> None:
    folder.write("script.py", ITSELF)
    assert folder.run("script.py", fresh=True)[0] == "1"
    assert folder.run("script.py") == ("1", "")
    folder.write("script.py", ITSELF.replace("helper.arm()", "helper.arm() + 1"))
    assert folder.run("script.py")[0] == "2"


def stores_nothing(folder: Folder) -> bool:
    return not [*(folder.path / "cache").rglob(f"*{cache.OWN_SUFFIX}"), *(folder.path / "cache").rglob("*.ready")]


def test_policy_at_a_prompt_is_not_stored(folder: Folder) -> None:
    arm, said = folder.run("-c", ITSELF)
    assert arm == "1"
    assert f"{COMPILED}; this takes" in said
    assert said.count(f"{NOT_KEPT}choose is not defined in a file") == 1
    assert stores_nothing(folder)


def test_running_a_cell_again_takes_effect(folder: Folder) -> None:
    """The cell of the policy, and one with a value that it refers to."""
    cell = HEAD + "@inner\ndef far(): return FAR\n\n" + CHOOSE.replace("helper.arm()", "far() + 1")
    steps = [IMPORTS, "FAR = 1", cell + REGISTER.format(module=HERE), PULL]
    steps += [PULL, "def unrelated(): pass", PULL, cell + REGISTER.format(module=HERE), PULL]  # nothing has changed
    steps += [cell.replace("+ 1", "+ 2") + REGISTER.format(module=HERE), PULL]
    steps += ["FAR = 5", REGISTER.format(module=HERE), PULL]
    lines = [f"run({number}, {step!r})\n" for number, step in enumerate(steps)]
    folder.write("notebook.py", CELLS + "".join(lines))
    arms, said = folder.run("notebook.py")
    assert arms == "2 2 2 2 3 7"
    assert said.count(NOT_KEPT) == 1
    assert stores_nothing(folder)


CHANGED = "the code of own has changed since it was registered: register it again, and make a new policy"
TRY = """
def attempt(work):
    try:
        return work()
    except ValueError as error:
        return str(error)

"""


def test_after_a_reload_old_code_is_refused(folder: Folder) -> None:
    edit = "open('deep/down.py', 'w').write('ARM = 50')\n"
    edit += "for each in (sys.modules['deep.down'], own.helper): importlib.reload(each)\n"
    problem = "problem = mb.Problem([[0.5] * 60], [0], 100, mb.RandomizedResponse(1, 1))\n"
    script = (
        USE.replace("arms=9", "arms=60")
        + TRY
        + problem
        + "policy = mb.make_policy('own', arms=60)\n"
        + "mb.simulate(problem, policy, runs=1)\n"
        + edit
        + "print(attempt(lambda: mb.make_policy('own', arms=60)))\n"
        + "print(attempt(lambda: mb.simulate(problem, policy, runs=1)))\n"
        + "print(attempt(lambda: policy.choose(2)))\n"
        + REGISTER.format(module="own")
        + PULL.replace("arms=9", "arms=60")
        + "print(mb.simulate(problem, mb.make_policy('own', arms=60), runs=1).pulls[0].argmax())\n"
    )
    lines = folder.run("-c", script)[0].splitlines()
    assert lines == [f"1 {CHANGED}", CHANGED, CHANGED, "50 50"]
    assert folder.run("-c", USE.replace("arms=9", "arms=60"))[0] == "50"


def test_code_imported_before_an_edit_is_not_stored_for_the_edit(folder: Folder) -> None:
    """A notebook continues with the policy that it has imported; a new process must not load that."""
    edit = "open('deep/down.py', 'w').write('ARM = 5')\n"
    assert folder.run("-c", USE.replace("mb.register", edit + "mb.register"))[0] == "1"
    assert folder.run("-c", USE)[0] == "5"


KERNEL = """
import helper
from maskedbandits._numba.jit import compiled

@compiled
def kernel():
    return helper.arm()
"""
STATE = """
import sys
from typing import Any, NamedTuple

import helper
from maskedbandits._numba.jit import inner

class State(NamedTuple):
    pulls: Any

State.code = sys.modules[__name__]

@inner
def estimate(state, x, arm):
    return helper.arm()
"""
ESTIMATE = """
import numpy as np
import own
from maskedbandits.features.kernels import estimates_live

out = np.zeros(1)
estimates_live(own.State(np.ones(1, dtype=np.int64)), np.zeros(1), out)
print(int(out[0]))
"""


@pytest.mark.parametrize(
    ("own", "use"), [(KERNEL, "import own; print(own.kernel())"), (STATE, ESTIMATE)], ids=["kernel", "state"]
)
def test_own_kernels_and_states_depend_on_their_imports(folder: Folder, own: str, use: str) -> None:
    """Also a kernel of this package that is compiled for a class outside of it."""
    folder.write("own.py", own)
    for arm in ("1", "3"):
        folder.write("deep/down.py", f"ARM = {arm}\n")
        assert folder.run("-c", use) == (arm, "")
    assert len(list((folder.path / "cache").rglob(f"*{cache.OWN_SUFFIX}"))) == 2


def test_second_array_of_the_same_name_is_refused() -> None:
    """Otherwise the two would share their numbers."""

    @record
    class Own(Arms):
        unanswered: Floats = array(lambda own: own.arms)

    with pytest.raises(UserError, match="unanswered"):
        Layout("own", [Own], __name__)
