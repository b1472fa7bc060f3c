import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from fork_server import ForkServer
from helpers.boundaries import hide_packages
from maskedbandits import Problem, RandomizedResponse, cli, make_policy, simulate
from maskedbandits._util import extras
from maskedbandits.errors import UserError

ROOT = Path(__file__).parent.parent
INSTALL = "pip install 'maskedbandits[experiments]'"
PLAIN = """
import sys
sys.modules |= dict.fromkeys(("gymnasium", "mabwiser", "matplotlib", "rich", "river"))  # as if they were not installed
import maskedbandits as mb
mask = mb.RandomizedResponse.from_epsilon(1)
policy = mb.make_policy("uniform", arms=2, corruption=mask)
policy.observe(policy.choose(), 1)
mb.privacy.Randomizer(1).bit(1)
mb.theory.paper_window(1000, 2)
mb.environment, mb.from_mabwiser, mb.from_river
from maskedbandits import experiments
from maskedbandits.experiments import results
from maskedbandits.planner import plan, text
text.to_lines(plan(2, 20, 0, 0.5, 0.2, worlds=2, policy="uniform"))
"""


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a plain install, without the packages of the extra."""
    hide_packages(monkeypatch, *extras.EXPERIMENTS)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("verb", [("run", "no.toml"), ("report", "."), ("bound", "--horizon", "9", "--changes", "1")])
def test_verb_without_its_extra_says_what_to_install(verb: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli.main, list(verb))
    assert done.exit_code == cli.USAGE
    assert done.stderr.count("\n") == 1
    assert f"maskedbandits: {verb[0]} needs matplotlib and rich" in done.stderr
    assert INSTALL in done.stderr


@pytest.mark.usefixtures("plain")
def test_only_an_explicit_progress_bar_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = RandomizedResponse.from_epsilon(1)
    problem = Problem([0.5, 0.4], [0], 10, mask)
    policy = make_policy("uniform", arms=2, corruption=mask)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert simulate(problem, policy, runs=1).regret.shape[0] == 1
    with pytest.raises(UserError, match="progress=True needs rich"):
        simulate(problem, policy, runs=1, progress=True)


def test_library_needs_no_extra(fork_server: ForkServer) -> None:
    done = fork_server.run("-c", PLAIN)
    assert done.returncode == 0, done.stderr


def test_extras_list_what_the_code_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = [line.split(">=")[0] for line in project["optional-dependencies"]["experiments"]]
    assert tuple(extra) == extras.EXPERIMENTS
    parquet = [line.split(">=")[0] for line in project["optional-dependencies"]["parquet"]]
    assert tuple(parquet) == extras.PARQUET
    gym = [line.split(">=")[0] for line in project["optional-dependencies"]["gym"]]
    assert tuple(gym) == extras.GYM
    assert not {*extra} & {line.split(">=")[0] for line in project["dependencies"]}
