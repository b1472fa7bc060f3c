"""The privacy officer's page: its numbers match the code, and it fits on two printed pages."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from docs import blocks  # noqa: E402 - from the folder above
from docs import privacy_officer as page  # noqa: E402

from maskedbandits.privacy import Ledger, Randomizer  # noqa: E402

TEXT = page.PAGE.read_text(encoding="utf-8")


def test_tables_match_the_code() -> None:
    assert blocks.names(page.PAGE) == list(page.TABLES)
    assert all(blocks.read(page.PAGE, which) == table() for which, table in page.TABLES.items())


def test_stated_number_of_reports_suffices() -> None:
    # the deviation of a mean of so many reports, at worst 1/2, undone by the slope
    for epsilon in page.EPSILONS:
        slope = float(2 * Randomizer(epsilon).p00 - 1)
        count = page.count_needed_reports(slope)
        assert page.SURE * 0.5 / count**0.5 / slope <= page.NEAR < page.SURE * 0.5 / (count - 1) ** 0.5 / slope


def test_cap_allows_what_a_ledger_does() -> None:
    for epsilon, cap in page.CAPS:
        with Ledger(cap, per="30 days") as ledger:
            for decision in range(page.count_allowed_reports(epsilon, cap)):
                ledger.reserve(decision, epsilon)
            assert ledger.remaining < Randomizer(epsilon).epsilon
    assert (page.PERIODS - 1) * 30 < 365 <= page.PERIODS * 30


def test_page_fits_on_two_printed_pages() -> None:
    assert len(re.sub(r"[|_`<>-]+", " ", TEXT).split()) < 1150  # measured: two sheets of A4 at 10 points
    [diagram] = re.findall(r"^```text\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    assert diagram.isascii()
    assert max(map(len, diagram.splitlines())) <= 100
    assert not re.search(r"https?://|<img|mermaid", TEXT)  # nothing is fetched


def test_page_has_a_signature_block() -> None:
    headings = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    assert headings == [
        "What flows where",
        "Who could learn what",
        "If devices hide a group, too",
        "Which ε, and what it costs",
        "The cap",
        "What is kept, for how long, and how it is erased",
        "How to check it",
        "Signed",
    ]
    signed = TEXT[TEXT.index("## Signed") :]
    assert {"signature", "date", "cap", "period", "groups"} <= set(re.findall(r"\w+", signed))
    for linked, anchor in re.findall(r"\((privacy\.md|audit\.md)#([\w-]+)", TEXT):
        titles = re.findall(r"^#+ (.*)$", (ROOT / "docs" / linked).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
