"""How soon the demonstration learns, and a picture of it, a minute after it began.

python -m docs.demo
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from docs import blocks
from maskedbandits import Problem, RandomizedResponse, simulate
from maskedbandits.demo import crowd

PAGE = Path(__file__).with_suffix(".md")
FIGURE = Path(__file__).parent / "figures" / "demo.png"
PHONE = FIGURE.with_name("demo_phone.png")  # the middle of the page, for narrow screens
RUNS = 200
WATCHED = 50_000.0  # milliseconds: two changes


def measure_learning() -> str:
    """Return which share of visitors gets the best picture some seconds after the beginning, and after a change."""
    second = round(crowd.VISITORS / crowd.TICK_S)
    change = round(crowd.PHASE_S) * second
    ends = [3 * second, 4 * second, 9 * second, 10 * second]
    at = [*ends, change, *(change + end for end in ends)]
    lines = ["| ε | 4th second | 10th second | 4th second after the change | 10th second |", "|--:|--:|--:|--:|--:|"]
    for epsilon in crowd.EPSILONS:
        mask = RandomizedResponse.from_epsilon(epsilon)
        problem = Problem(crowd.RATES[:2], [0, change], 2 * change, mask)
        pulls = simulate(problem, "auto", runs=RUNS, seed=1, checkpoints=at).pulls_over_time / (RUNS * second)
        best = [crowd.RATES[segment].index(max(crowd.RATES[segment])) for segment in (0, 1)]
        shares = [pulls[place + 1, best[place > 4]] - pulls[place, best[place > 4]] for place in (0, 2, 5, 7)]
        lines.append(f"| {epsilon:g} | " + " | ".join(f"{100 * share:.1f} %" for share in shares) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and take the picture."""
    blocks.fill(PAGE, {"": measure_learning()})
    picture()


def picture() -> None:
    """Start it, watch for a while, and take the picture."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    command = [sys.executable, "-m", "maskedbandits", "demo", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, sync_playwright() as playwright:  # noqa: S603
        try:
            found = re.search(r"http://[0-9.:]+", process.stdout.readline() if process.stdout else "")
            if found is None:
                raise SystemExit("the demonstration has not started")
            browser = playwright.chromium.launch(executable_path=chromium)
            page = browser.new_page(viewport={"width": 1400, "height": 700})
            page.goto(found[0])
            page.locator("#noise i.one").first.wait_for(timeout=300_000)
            page.wait_for_timeout(WATCHED)
            page.get_by_text("inverts some answers").wait_for()
            page.locator("#wire").get_by_text(re.compile('"bit":')).wait_for()
            page.screenshot(path=FIGURE)
            page.set_viewport_size({"width": 390, "height": 844})
            page.wait_for_timeout(1000)
            page.locator("section").filter(has=page.locator("#noise")).screenshot(path=PHONE)
            browser.close()
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
