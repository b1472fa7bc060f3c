"""The page that shows how to add a policy can be followed."""

import re
import sys
import types
from pathlib import Path

import pytest

from children import finished
from fork_server import ForkServer
from maskedbandits.experiments.cache_key import source_of
from maskedbandits.experiments.config import load
from maskedbandits.experiments.progress_bar import SilentWatcher
from maskedbandits.experiments.runner import run
from maskedbandits.policies import registry

PAGE = Path(__file__).parent.parent / "docs" / "write_policy.md"


def code(language: str) -> list[str]:
    """Return the code blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_policies_of_other_libraries_play(tmp_path: Path, fork_server: ForkServer) -> None:
    others, use, *_ = code("python")
    (tmp_path / "others.py").write_text(others, encoding="utf-8")
    done = fork_server.run("-c", use, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    regrets = [float(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()]
    assert len(regrets) == 4
    assert 0 < regrets[0] < min(regrets[1:])
    policies = code("toml")[0]
    problem = 'runs = 2\nepsilons = [2]\n[[problems]]\nhorizon = 300\nmeans = [0.2, 0.8]\n[[policies]]\nname = "auto"\n'
    (tmp_path / "own.toml").write_text(problem + policies, encoding="utf-8")
    first, second, third = load(tmp_path / "own.toml").tasks
    assert (first.factory, second.label, third.label) == (None, "others:Recent (epsilon=0.1)", "others:ucb")
    before = [source_of(task) for task in (second, third)]
    (tmp_path / "others.py").write_text(others + "# changed", encoding="utf-8")
    assert all(source_of(task) != was for task, was in zip((second, third), before, strict=True))
    result = run(load(tmp_path / "own.toml"), tmp_path / "out", SilentWatcher(), command="")
    assert result.complete


OWN = """
import helper

class Fixed:
    def __init__(self, generator): pass
    def choose(self): return helper.arm()
    def observe(self, arm, feedback): pass
"""
EXPERIMENT = """
runs = 2
epsilons = [2]
[[problems]]
horizon = 300
means = [0.2, 0.8]
[[policies]]
name = "own:Fixed"
"""
RUN = """
from pathlib import Path
from maskedbandits.experiments.config import load
from maskedbandits.experiments.progress_bar import SilentWatcher
from maskedbandits.experiments.runner import run

class Watcher(SilentWatcher):
    def start(self, cells, stored):
        print(stored, end=" ")

result = run(load(Path("own.toml")), Path("out"), Watcher(), command="")
print(f"{result.cells[0].outcome.regret[:, -1].mean():g}")
"""


def test_cells_are_played_again_after_an_edit_of_an_import(tmp_path: Path, fork_server: ForkServer) -> None:
    for name, text in (("own.py", OWN), ("own.toml", EXPERIMENT), ("helper.py", "def arm(): return 1\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")

    def play() -> str:
        """Return how many cells were stored, and their regret, in a new process."""
        done = fork_server.run("-c", RUN, folder=tmp_path, environment={"PYTHONDONTWRITEBYTECODE": "1"})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert play() == "0 0"
    assert play() == "1 0"
    (tmp_path / "helper.py").write_text("def arm(): return 0\n", encoding="utf-8")
    assert play() == "0 180"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nowhere:River", "cannot be imported"),
        ("math:nothing", "no function 'nothing'"),
        ("math:pi", "no function 'pi'"),
        ("math:isclose", "required argument: 'b'"),
    ],
)
def test_missing_or_unsuitable_function_is_refused(tmp_path: Path, name: str, complaint: str) -> None:
    text = f'epsilons = [2]\n[[problems]]\nhorizon = 300\nmeans = [0.2, 0.8]\n[[policies]]\nname = "{name}"\n'
    (tmp_path / "own.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"policies.0..name: {name}.*{complaint}"):
        load(tmp_path / "own.toml")


@pytest.mark.parametrize("missing", ["SUMMARY", "LEARNS_FROM", "Policy", "choose"])
def test_policy_without_a_required_part_is_refused(missing: str) -> None:
    own = types.ModuleType("own")
    parts = {"SUMMARY": "x", "LEARNS_FROM": "nothing", "Policy": object, "choose": print}
    own.__dict__.update({name: part for name, part in parts.items() if name != missing})
    with pytest.raises(ValueError, match=f"no {missing}.*write_policy.md"):
        registry.alone("own", own)


def save_examples(folder: Path, *names: str) -> None:
    """Save code blocks of the page as the files that it names before them."""
    text = PAGE.read_text(encoding="utf-8")
    for name in names:
        block = re.search(
            rf"[Ss]ave (?:it|this) as `{re.escape(name)}`[.:]\n\n```python\n(.*?)^```", text, re.DOTALL | re.M
        )
        assert block is not None, name
        (folder / name).write_text(block[1], encoding="utf-8")


def test_every_example_of_the_page_is_run() -> None:
    assert len(code("python")) == 6
    assert len(code("toml")) == 2


def test_policy_of_the_page_plays(tmp_path: Path, fork_server: ForkServer) -> None:
    save_examples(tmp_path, "greedy.py")
    use = next(block for block in code("python") if 'mb.register_policy("greedy", greedy)' in block)
    more = (
        "live = mb.make_policy('greedy', arms=3, corruption=mask, seed=1)\n"
        "for step in range(50): live.observe(live.choose(), step % 2)\n"
        "live.save('saved')\n"
        "copy = mb.load_policy('saved', exact=True)\n"
        "assert [live.choose() for _ in range(20)] == [copy.choose() for _ in range(20)]\n"
        "print(live)\n"
    )
    done = fork_server.run("-c", use + more, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    regret = float(re.search(r"mean regret: ([0-9.]+)", done.stdout)[1])  # type: ignore[index]
    assert 0 < regret < 0.5 * 0.6 * 10_000  # less than half of that of uniform draws
    assert "<greedy, arms=3, share=0.1, 50 observations>" in done.stdout


def test_policies_of_the_page_keep_the_contract_and_play_by_name(tmp_path: Path, fork_server: ForkServer) -> None:
    """The contract test of the page, then its experiment."""
    save_examples(tmp_path, "others.py", "greedy.py", "fading.py", "test_mine.py")
    policies = EXPERIMENT[: EXPERIMENT.index("[[policies]]")] + code("toml")[1]
    (tmp_path / "own.toml").write_text(policies, encoding="utf-8")
    contract = (
        "import test_mine\n"
        "tests = [value for name, value in vars(test_mine).items() if name.startswith('test_')]\n"
        "for test in tests: test()\n"
        "print(len(tests))\n"
    )
    done = fork_server.run("-c", contract, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "2"
    labels = "print(*(cell.label.policy for cell in result.cells), sep='; ')\n"
    done = fork_server.run("-c", RUN + labels, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == "fading:fading (rate=0.1); greedy:greedy (share=0.2)"


def test_breakpoint_is_reached_in_plain_python(tmp_path: Path) -> None:
    save_examples(tmp_path, "fading.py")
    text = (tmp_path / "fading.py").read_text(encoding="utf-8")
    line = "    feedback = count_feedback(state, arm, feedback)\n"
    assert line in text
    (tmp_path / "fading.py").write_text(text.replace(line, f"    breakpoint('stopped')\n{line}"), encoding="utf-8")
    make = "mb.make_policy('fading', arms=2, corruption=mb.RandomizedResponse(1, 1))"
    use = f"import fading, maskedbandits as mb\npolicy = {make}\n"
    done = finished(
        [sys.executable, "-c", use + "policy.observe(policy.choose(), 1)"],
        environment={"NUMBA_DISABLE_JIT": "1", "PYTHONBREAKPOINT": "builtins.print"},
        folder=tmp_path,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "stopped"), done.stderr
