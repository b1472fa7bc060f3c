"""Compiled policies from outside in an experiment file: ``module:name``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import maskedbandits as mb
from fork_server import ForkServer
from maskedbandits import experiments, policies
from maskedbandits._numba import cache
from maskedbandits.contextual import Contextual
from maskedbandits.errors import UserError
from maskedbandits.experiments import named_policy, work_units
from maskedbandits.experiments.cache_key import source_of
from maskedbandits.experiments.policy_spec import Task
from maskedbandits.policies import Policy, find_registered, register_policy, uniform

POLICY = """
import helper
from maskedbandits._numba.jit import inner
from maskedbandits._numba.state import param, record
from maskedbandits.policies import validation
from maskedbandits.policies.state import Arms

SUMMARY = "always pulls one arm"
LEARNS_FROM = "nothing"


@record
class Policy(Arms):
    "The times that it is given."

    horizon: int = param(..., validation.count, "how many steps will be played")
    window: float = param(float("inf"), validation.window, "how many observations count")


@inner
def choose(state):
    return helper.ARM
"""
REGISTER = "import sys\nimport maskedbandits as mb\nmb.register_policy('{name}', sys.modules[__name__])\n"
EXPERIMENT = """
runs = 2
epsilons = [2]
[[problems]]
starts = [0, 100]
horizon = 300
means = [[0.2, 0.8, 0.2], [0.2, 0.8, 0.2]]
[[policies]]
name = "{name}"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder with a policy and what it imports, which this process forgets afterwards."""
    monkeypatch.setattr(named_policy, "_resolved", {})
    monkeypatch.setattr(policies, "_registered", {})
    before, known = {*sys.modules}, dict(policies.KINDS)
    (tmp_path / "helper.py").write_text("ARM = 1\n", encoding="utf-8")
    (tmp_path / "one_arm.py").write_text(POLICY, encoding="utf-8")
    (tmp_path / "mine.py").write_text(POLICY + REGISTER.format(name="my-policy"), encoding="utf-8")
    yield tmp_path
    for name in {*sys.modules} - before:
        if name in ("helper", "one_arm", "mine", "package", "package.within", "both"):
            del sys.modules[name]
    for name in policies.KINDS.keys() - known.keys():
        del policies.KINDS[name]


def read(folder: Path, name: str, lines: str = "") -> Task:
    (folder / "own.toml").write_text(EXPERIMENT.format(name=name) + lines, encoding="utf-8")
    return experiments.load(folder / "own.toml").tasks[0]


@pytest.mark.parametrize("name", ["mine:my-policy", "one_arm:one-arm"])
def test_compiled_policy_is_named_by_its_module(folder: Path, name: str) -> None:
    """By the name that it registers, or by its own."""
    task = read(folder, name, 'window = "paper"\n')
    assert (task.policy, task.label) == (name, f"{name} (window=paper)")
    assert (task.factory, task.window_rule) == (None, "paper")
    assert task.parameters["horizon"] == 300
    assert isinstance(task.parameters["window"], int)
    assert source_of(task)


@pytest.mark.parametrize(
    ("name", "lines", "complaint"),
    [
        ("mine:my-polcy", "", "no function 'my-polcy'.*mean 'my-policy'"),
        ("mine:", "", "no function ''"),
        ("mine:my-policy", "widow = 3", "widow: .*mean 'window'"),
        ("mine:my-policy", "window = 0", "window: .*at least 1"),
        ("mine:my-policy", 'window = "papr"', "window: expected .*paper"),
        ("nowhere:mine", "", "put nowhere.py beside"),
        ("a b:mine", "", "no name of a"),
    ],
)
def test_mistake_in_a_file_is_one_line(folder: Path, name: str, lines: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        read(folder, name, lines)


def test_module_within_a_package_registers_for_it(folder: Path) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("from package import within\n", encoding="utf-8")
    (folder / "package" / "within.py").write_text(POLICY + REGISTER.format(name="inside"), encoding="utf-8")
    assert read(folder, "package:inside").policy == "package:inside"


def test_modules_that_register_one_name_are_kept_apart(folder: Path) -> None:
    text = POLICY.replace("helper.ARM", "0") + REGISTER.format(name="my-policy")
    (folder / "both.py").write_text(text, encoding="utf-8")
    first, second = read(folder, "mine:my-policy"), read(folder, "both:my-policy")
    assert source_of(first) != source_of(second)
    kinds = [policies.kind_of(task.policy) for task in (first, second)]
    assert kinds[0].code["code"] is not kinds[1].code["code"]


def test_repeated_lookup_returns_the_same_kind(folder: Path) -> None:
    read(folder, "one_arm:one-arm")
    kind = policies.kind_of("one_arm:one-arm")
    read(folder, "one_arm:one-arm")
    assert policies.kind_of("one_arm:one-arm") is kind


@pytest.mark.parametrize("name", ["mine:my-policy", "one_arm:one-arm"])
def test_reloaded_module_takes_effect(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two edits within a second have the same time
    before = source_of(read(folder, name))
    module = sys.modules[name.partition(":")[0]]
    path = folder / f"{module.__name__}.py"
    path.write_text(path.read_text(encoding="utf-8").replace("helper.ARM", "helper.ARM + 1"), encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    importlib.reload(module)
    task = read(folder, name)
    assert source_of(task) != before
    policy = work_units.get_policy(task)
    assert isinstance(policy, Policy)
    assert policy.choose() == 2


def test_edit_of_a_helper_changes_the_source(folder: Path) -> None:
    task = read(folder, "mine:my-policy")
    before = source_of(task)
    (folder / "helper.py").write_text("ARM = 0\n", encoding="utf-8")
    assert source_of(task) != before


PLAY = """
import sys
from pathlib import Path
from maskedbandits.experiments.backends import open_backend
from maskedbandits.experiments.config import load
from maskedbandits.experiments.progress_bar import SilentWatcher
from maskedbandits.experiments.runner import run

class Watcher(SilentWatcher):
    def start(self, cells, stored):
        print(stored, end=" ")

if __name__ == "__main__":
    workers = 1 if sys.argv[1] == "processes" else None
    backend = open_backend(sys.argv[1], workers=workers)
    result = run(load(Path("own.toml")), Path("out"), Watcher(), backend=backend, command="")
    print(f"{result.cells[0].outcome.regret[:, -1].mean():g}")
"""


def test_cells_are_played_again_after_an_edit_of_a_helper(folder: Path, fork_server: ForkServer) -> None:
    """In threads, then in other processes, which import the module themselves."""
    read(folder, "mine:my-policy")
    (folder / "play.py").write_text(PLAY, encoding="utf-8")

    def play(backend: str) -> str:
        """Return how many cells were stored, and their regret, in a new process."""
        environment = {cache.VARIABLE: str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = fork_server.run("play.py", backend, folder=folder, environment=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert play("threads") == "0 0"
    assert play("threads") == "1 0"
    (folder / "helper.py").write_text("ARM = 0\n", encoding="utf-8")
    assert play("processes") == "0 180"


def test_registered_policy_is_known_in_its_process(folder: Path) -> None:
    read(folder, "mine:my-policy")
    own = read(folder, "my-policy").own
    assert isinstance(own, named_policy.RegisteredPolicy)
    assert own.module == "mine"


def test_saved_file_registers_what_it_plays(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also in another process, and under a name that the module itself does not register."""
    sys.path.insert(0, str(folder))
    register_policy("another-name", importlib.import_module("one_arm"))
    sys.path.remove(str(folder))
    problem = {"means": [0.2, 0.8], "horizon": 50, "epsilons": 1}
    experiment = mb.Experiment(problem, ("another-name", {"horizon": 50}), runs=2)
    [first] = experiment.config.tasks
    saved = tmp_path_factory.mktemp("elsewhere") / "saved.toml"
    experiment.save_toml(saved)
    assert f'folder = "{folder}"\nregister = {{ another-name = "one_arm" }}' in saved.read_text(encoding="utf-8")
    forget("one_arm", "another-name")
    [again] = mb.Experiment.load(saved).config.tasks
    assert (again.label, source_of(again)) == (first.label, source_of(first))
    forget("one_arm", "another-name")
    assert work_units.hash_code(again) == work_units.hash_code(first)
    forget("one_arm", "another-name")
    assert work_units.get_policy(again).name == "another-name"


def forget(module: str, name: str) -> None:
    """Forget a module and the policy that it is."""
    del sys.modules[module], policies.KINDS[name]


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ('{ mine = "nowhere" }', "register.mine: nowhere:mine: .*put nowhere.py beside"),
        ('{ auto = "one_arm" }', "register.auto: auto is a policy of this package"),
        ('{ mine = "helper" }', "register.mine: helper has no SUMMARY"),
        ("3", "register: expected a table"),
        ("{ mine = 3 }", "register.mine: expected a text"),
    ],
)
def test_mistake_in_register_is_one_line(folder: Path, table: str, complaint: str) -> None:
    text = f"register = {table}\n" + EXPERIMENT.format(name="mine")
    (folder / "own.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=complaint) as caught:
        experiments.load(folder / "own.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "module", "complaint"),
    [
        ("My", uniform, "name = 'My': .*lower-case"),
        ("my_policy", uniform, "give lower-case words"),
        ("a:b", uniform, "give lower-case words"),
        (3, uniform, "give lower-case words"),
        ("auto", uniform, "auto.*of this package"),
        ("mine", "uniform", "module = 'uniform'"),
        ("mine", sys, "sys has no SUMMARY"),
    ],
)
def test_bad_registration_is_refused(name: str, module: object, complaint: str, folder: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        register_policy(name, module)  # type: ignore[arg-type]
    assert find_registered(__name__) == {}


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ('"nothing"', '"masks"', "LEARNS_FROM = 'masks'"),
        ("@record", "", "declares nothing: write @record"),
        ("Policy(Arms)", "Policy", "broken.Policy.*class of declarations"),
        ("horizon", "counts", "declare 'counts'"),
    ],
)
def test_module_with_a_bad_declaration_is_refused(
    before: str, after: str, complaint: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "both.py").write_text(POLICY.replace(before, after), encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    both = __import__("both")
    with pytest.raises(UserError, match=complaint.replace("broken", "both")):
        register_policy("both", both)


def test_later_registration_replaces_the_earlier_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    register_policy("mine", uniform)
    register_policy("mine", __import__("one_arm"))
    assert policies.kind_of("mine").summary == "always pulls one arm"
    assert [*find_registered(__name__)] == ["mine"]


GROUPS = """
[[problems]]
horizon = 300
shares = [0.5, 0.5]
means = [[[0.2, 0.8], [0.8, 0.2]]]
"""


def test_compiled_policy_plays_a_problem_with_groups(folder: Path) -> None:
    learns = POLICY.replace('"nothing"', '"masked feedback"')
    (folder / "both.py").write_text(learns, encoding="utf-8")
    head, _, tail = EXPERIMENT.partition("[[problems]]")
    text = head + GROUPS + tail[tail.index("[[policies]]") :]
    (folder / "own.toml").write_text(text.format(name="both:both"), encoding="utf-8")
    (task,) = experiments.load(folder / "own.toml").tasks
    assert isinstance(work_units.get_policy(task), Contextual)
    assert task.parameters["horizon"] == 300
