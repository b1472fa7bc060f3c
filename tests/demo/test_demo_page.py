"""The page of the demonstration in a real browser, on its own: its service is made up, and so is its clock."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from browsers import needs_browser, one_at_a_time
from maskedbandits.demo import crowd
from maskedbandits.demo.site import FILES
from maskedbandits.service import static

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest_plugins = ["browsers"]
pytestmark = [needs_browser, one_at_a_time]
expect = sync_api.expect

ADDRESS = "http://127.0.0.1:1"  # where nobody listens: all that the page asks is answered here
BEGAN = 1_767_225_600  # the made-up time at which a page is opened
UNTURNED = "crypto.getRandomValues = (array) => { new Uint8Array(array.buffer).fill(255); return array; };"


class MadeUp:
    """A page whose every question is answered, with a report due so many seconds after a decision."""

    def __init__(self, browser: Any, due: float, answers: list[str], back_in: int = 100_000_000) -> None:
        self.due, self.answers, self.back_in = due, answers, back_in  # milliseconds after which news go on
        self.opened = 0
        self.tokens, self.reports = list[str](), list[dict[str, Any]]()
        self.page = browser.new_page(viewport={"width": 1400, "height": 900})
        self.page.add_init_script(UNTURNED)  # no coin turns an answer round: a click is reported as 1, silence as 0
        self.page.clock.install(time=BEGAN)
        self.page.route("**/*", self._answer)
        self.page.clock.pause_at(BEGAN + 1)
        self.page.goto(ADDRESS)

    def _answer(self, route: Any) -> None:
        path = "/" + route.request.url.removeprefix(ADDRESS).lstrip("/")
        files = FILES | {"/client.js": static.find_client()}
        self.opened += path == "/"
        if path in files:
            route.fulfill(path=files[path], content_type=static.MEDIA_TYPES[files[path].suffix].decode())
        elif path == "/live":
            update = json.dumps(crowd.Crowd(None).describe(-1.0))  # type: ignore[arg-type]
            route.fulfill(body=f"retry: {self.back_in}\ndata: {update}\n\n", content_type="text/event-stream")
        else:
            route.fulfill(json=self._reply_to(path, route.request))

    def _reply_to(self, path: str, request: Any) -> dict[str, Any]:
        if path == "/where":
            return {"service": f"{ADDRESS}/service"}
        if path.endswith("/decisions"):
            self.tokens.append(f"{len(self.tokens):06}" + 20 * "x")
            times = {"now": BEGAN, "report_at": BEGAN + self.due, "expires": BEGAN + 120}
            return {"arm": "sun", "token": self.tokens[-1], "participate": True, "epsilon": 1.0, **times}
        self.reports.append(json.loads(request.post_data))
        return {"status": self.answers.pop(0) if self.answers else "accepted"}

    def passes(self, seconds: float) -> None:
        self.page.clock.run_for(round(1000 * seconds))

    def sent(self) -> tuple[str, int, str] | None:
        """The token and the bit that the page says have left, and the bit above it, read at once; None before."""
        wire, bit = self.page.evaluate("['wire', 'bit'].map((id) => document.getElementById(id).textContent)")
        found = re.fullmatch(r'\{"token":"(\w+)…","bit":([01]),"epsilon":1\}', wire)
        return (found[1], int(found[2]), bit) if found else None


def test_shown_answer_is_sent(browser: Any) -> None:
    """While the coin spins its time comes, and what silence says is offered: it is neither kept nor shown."""
    shown = MadeUp(browser, due=1.0, answers=[])
    expect(shown.page.locator("#card")).to_contain_text("sun")
    expect(shown.page.locator("#noise i.none")).to_have_count(3 * crowd.MAX_BITS)  # nobody has reported a 0 there
    shown.page.locator("#like").click()
    expect(shown.page.locator("#truth")).to_contain_text("clicks.")
    shown.passes(0.5)
    expect(shown.page.locator("#coin")).to_have_class("spins")
    shown.passes(0.6)  # it is due
    shown.passes(0.2)  # the coin has fallen
    expect(shown.page.locator("#flip")).to_have_text("Keep the answer")
    expect(shown.page.locator("#bit")).to_have_text("1")
    assert shown.sent() is None
    assert shown.reports == []
    shown.passes(1.0)
    expect(shown.page.locator("#wire")).to_contain_text('"bit":1')
    assert [report["bit"] for report in shown.reports] == [1]
    assert shown.sent() == (shown.tokens[0][:6], 1, "1")
    shown.page.close()


def test_sent_report_is_of_the_current_visitor(browser: Any) -> None:
    """Nobody took the first report, so that it leaves again half a minute later, when others have come."""
    shown = MadeUp(browser, due=crowd.REPORT_AFTER_S, answers=["later"])
    expect(shown.page.locator("#card")).to_contain_text("sun")
    seen: set[str] = set()
    for step in range(600):
        act = "like" if len(shown.tokens) % 2 else "leave"  # every other visitor clicks
        shown.page.evaluate(f"document.getElementById('{act}').click()")
        shown.passes(0.1)
        if (left := shown.sent()) is not None:
            seen.add(left[0])
            assert int(left[0]) >= len(shown.tokens) - 2, step  # the next one may have asked, and not be shown yet
            assert str(left[1]) == left[2], step
        again = [report["token"] for report in shown.reports].count(shown.tokens[0])
        if again == 2 and len(seen) >= 3:
            break
    assert again == 2
    assert len(seen) >= 3
    assert {report["bit"] for report in shown.reports} == {0, 1}
    shown.page.close()


def test_late_click_counts_for_next_visitor(browser: Any) -> None:
    shown = MadeUp(browser, due=crowd.REPORT_AFTER_S, answers=[])
    expect(shown.page.locator("#card")).to_contain_text("sun")
    shown.page.locator("#leave").click()
    expect(shown.page.locator("#truth")).to_contain_text("does not click.")
    shown.page.locator("#like").click()
    expect(shown.page.locator("#wish")).to_have_text("The next visitor clicks.")
    for _ in range(200):
        shown.passes(0.1)
        if len(shown.reports) == 2:
            break
    assert [report["bit"] for report in shown.reports] == [0, 1]
    expect(shown.page.locator("#wish")).to_have_text("")
    shown.page.close()


def test_page_restarts_with_another_demo(browser: Any) -> None:
    shown = MadeUp(browser, due=crowd.REPORT_AFTER_S, answers=[], back_in=50)
    with shown.page.expect_navigation():
        pass
    assert shown.opened >= 2
    shown.page.close()


def test_documented_demo_matches_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "demo.md").read_text(encoding="utf-8")
    words = " ".join((page + FILES["/"].read_text(encoding="utf-8")).split())
    assert (crowd.REPORT_AFTER_S, "reports due after three seconds" in words) == (3, True)
    assert (round(crowd.VISITORS / crowd.TICK_S), "150 visitors a second" in words) == (150, True)
    assert (crowd.PHASE_S, "changes every 20 seconds" in words) == (20, True)
    assert "due at once" not in words
