"""The README does what it says: its examples print what it shows, and its service, device and dashboard work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from docs import quickstart
from running import Running, running

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def list_blocks(heading: str) -> list[tuple[str, str]]:
    """Return the language and the text of each block below a heading."""
    section = TEXT.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [(language, text) for language, text in FENCE.findall(section)]


def test_quickstart_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    printed = []
    for language, text in list_blocks("Quickstart"):
        if language == "python":
            exec(text, names)  # noqa: S102 -- our own page
            printed.append(capsys.readouterr().out)
    assert printed == [text for language, text in list_blocks("Quickstart") if language == "text"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the README uses curl")
@pytest.mark.long
def test_live_section_works_as_typed(tmp_path: Path) -> None:
    (_, serve), (_, create), (_, device), (_, shown) = list_blocks("Run it live")
    with running("sqlite:///bandits.db", folder=tmp_path) as service:
        assert serve.splitlines()[-1] == "maskedbandits serve"
        created = run(["bash", "-euc", move(create, service)], tmp_path)
        assert '"name":"headlines"' in created
        printed = run([sys.executable, "-c", move(device, service) + "\ndevice.close()\n"], tmp_path)
        assert printed.strip() in (shown.strip(), shown.strip().replace("question", "plain"))
        status, state = service.ask("GET", "/v1/experiments/headlines/state")
        assert (status, sum(state["issued"]), sum(state["pending"])) == (200, 1, 1)
        status, page = service.ask("GET", "/")
        assert status == 200
        assert "<title>" in page


def move(text: str, service: Running) -> str:
    """Return a block with the address of the service under test."""
    assert "http://127.0.0.1:8080" in text
    return text.replace("http://127.0.0.1:8080", service.address)


def run(command: list[str], folder: Path) -> str:
    """Run a command in a folder and return what it prints."""
    environment = {**os.environ, "no_proxy": "127.0.0.1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_pictures_exist() -> None:
    named = re.findall(r'(?:src|srcset)="([^"]+)"|!\[[^]]*\]\(([^)]+)\)', TEXT)
    assert len(named) == 5
    assert [name for pair in named for name in pair if name and not (ROOT / name).is_file()] == []


def test_facts_match_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [least] = re.findall(r"Python (\S+) or newer · Apache 2\.0", TEXT)
    assert project["requires-python"] == f">={least}"
    assert project["license"] == "Apache-2.0"
    assert f"version {project['version']}, alpha" in TEXT
    assert "Development Status :: 3 - Alpha" in project["classifiers"]


def test_result_matches_table() -> None:
    regrets = quickstart.read_regrets()
    assert quickstart.FIGURE.read_text(encoding="utf-8") == quickstart.draw(regrets)
    by_mean = {mean: label for label, (mean, _) in regrets.items()}
    for mean in by_mean:
        assert f"{mean:,.0f}" in TEXT
    [auto] = (mean for label, (mean, _) in regrets.items() if label.startswith("auto"))
    [corrected] = (mean for label, (mean, _) in regrets.items() if "corrected" in label)
    assert f"`auto` has {1 - auto / corrected:.0%} less regret".replace("%", " %") in TEXT


def test_plan_matches_page() -> None:
    pages = (page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    [advice] = {found[0] for text in pages if (found := re.search(r"Take ε = .*?of the gain", text, re.DOTALL))}
    command = next(text for _, text in list_blocks("Choose epsilon")).strip()
    words, text = " ".join(advice.split()), " ".join(TEXT.split())
    share, chosen = re.findall(r"[\d.]+ % \([^)]*\) of the gain", words)[0], re.findall(r"Take ε = (\S+):", words)[0]
    assert f"It advises ε = {chosen} here: privacy then costs {share}" in text
    assert any(command in page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
