"""The commands of the pages about the service run as printed, against a service."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "crash"))

from services import Service

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^<!-- run -->\n```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXPECTED = {  # in the output of a page's commands
    "deploy": ('"token":', "Restored", "state"),
    "secure": ("mb_", "revoked", '"experiments":[]', '"decide_with":"backend"', '"token":'),
    "http_api": (
        *('"status":"accepted"', '"status":"duplicate"', '"status":"paused"', '"status":"retired"', '"digest"'),
        *("event: state", "event: experiments", '"status":"ok"', '"status":"ready"', "maskedbandits_decisions_total"),
        *('"openapi":"3.1.0"', "export class Device", "<!doctype html>"),
    ),
}


def list_blocks(page: str) -> list[str]:
    return BLOCK.findall((DOCS / f"{page}.md").read_text(encoding="utf-8"))


def run_blocks(page: str, folder: Path) -> str:
    """Return what the commands of a page print, each with a service of its own and in one shell."""
    service = Service(f"sqlite:///{folder / 'bandits.db'}", folder)
    service.start()
    try:
        script = "\n".join(block.replace("127.0.0.1:8080", f"127.0.0.1:{service.port}") for block in list_blocks(page))
        script = script.replace("sleep 1 ", "sleep 4 ").replace("sleep 1\n", "sleep 4\n")  # on the busiest machine
        script = re.sub(r"\bcurl -s(?!N)", "curl -s --fail-with-body", script)
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", script],  # noqa: S607
            cwd=folder,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    finally:
        service.kill()
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read_states(output: str) -> list[dict[str, Any]]:
    """Return the replies with a state; the next output may be on the same line."""
    lines = output.replace("}{", "}\n{").splitlines()
    read = json.JSONDecoder().raw_decode
    replies = [read(line)[0] for line in lines if line.startswith("{") and '"observations"' in line]
    return [each for each in replies if "observations" in each]


@pytest.mark.slow  # fifty commands, most of them processes
@pytest.mark.skipif(os.name == "nt", reason="the commands are for a shell that Windows has not")
@pytest.mark.parametrize("page", EXPECTED)
def test_commands_of_page_work(page: str, tmp_path: Path) -> None:
    output = run_blocks(page, tmp_path)
    for expected in EXPECTED[page]:
        assert expected in output, output
    if page == "http_api":
        states = read_states(output)
        assert [each["observations"] for each in states] == [1, 1], output
        assert states[1]["groups"] == ["young", "old"]


def test_pages_have_commands() -> None:
    assert {page: len(list_blocks(page)) for page in EXPECTED} == {"deploy": 2, "secure": 3, "http_api": 25}
