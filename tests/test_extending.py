"""The page that shows how to add a policy can be followed."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"


def test_the_policy_of_the_page_plays(tmp_path: Path) -> None:
    policy, use = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "greedy.py").write_text(policy, encoding="utf-8")
    more = (
        "live = mb.make_policy('greedy', arms=3, corruption=mask, seed=1)\n"
        "for step in range(50): live.observe(live.choose(), step % 2)\n"
        "live.save('saved')\n"
        "copy = mb.load_policy('saved', exact=True)\n"
        "assert [live.choose() for _ in range(20)] == [copy.choose() for _ in range(20)]\n"
        "print(live)\n"
    )
    done = subprocess.run([sys.executable, "-c", use + more], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    regret = float(re.search(r"mean regret: ([0-9.]+)", done.stdout)[1])  # type: ignore[index]
    assert 0 < regret < 0.5 * 0.6 * 10_000  # less than half of what drawing arms alike would cost
    assert "<greedy, arms=3, share=0.1, 50 observations>" in done.stdout
