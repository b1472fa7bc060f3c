"""The commands of docs/service.md run as printed, against a service."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "crash"))

from services import Service

PAGE = Path(__file__).parents[2] / "docs" / "service.md"
BLOCKS = re.findall(r"^<!-- run -->\n```bash\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[str]:
    """The commands of a block: lines, or several that a quotation holds together."""
    found: list[str] = []
    for line in block.splitlines():
        if found and found[-1].count("'") % 2:
            found[-1] += "\n" + line
        elif line.strip():
            found.append(line)
    return found


@pytest.mark.slow  # twenty commands, each a process
@pytest.mark.skipif(os.name == "nt", reason="the page's commands are for a shell that Windows has not")
def test_commands_of_page_work(tmp_path: Path) -> None:
    service = Service(f"sqlite:///{tmp_path / 'bandits.db'}", tmp_path)
    service.start()
    try:
        script = "\n".join(block.replace("127.0.0.1:8080", f"127.0.0.1:{service.port}") for block in BLOCKS)
        script = script.replace("sleep 1 ", "sleep 4 ")  # on the busiest machine a moment is longer
        folder = str(Path(sys.executable).parent)
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", script.replace("curl -s", "curl -s --fail-with-body")],  # noqa: S607
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    finally:
        service.kill()
    assert done.returncode == 0, done.stdout + done.stderr
    documents = done.stdout.replace("}{", "}\n{").splitlines()
    read = json.JSONDecoder().raw_decode  # the next output may be on the same line
    states = [read(line)[0] for line in documents if '"observations"' in line]
    assert [each["observations"] for each in states] == [1, 1], done.stdout
    assert states[1]["groups"] == ["young", "old"]
    for expected in (
        '"status":"accepted"',
        '"status":"duplicate"',
        '"digest"',
        "mb_",
        "revoked",
        "Restored",
        "1 report, state",
    ):
        assert expected in done.stdout, done.stdout


def test_page_has_commands() -> None:
    assert len(BLOCKS) == 7
    assert sum(len(commands(block)) for block in BLOCKS) > 15
