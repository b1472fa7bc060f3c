"""The example of the ledger's page can be run twice: its reservations are free the second time."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"


def test_example_runs_twice_in_one_folder(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    example = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    printed = []
    for _ in range(2):
        command = [sys.executable, "-c", example]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    assert all(line in text for line in printed[0].splitlines())
