"""The pages for privacy officers: numbers match the code, and the part to sign fits on one screen."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from docs import blocks  # noqa: E402 - from the folder above
from docs import privacy_officer as page  # noqa: E402

from maskedbandits.privacy import Ledger, Randomizer  # noqa: E402

DOCS = ROOT / "docs"
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


def test_part_to_sign_fits_on_one_screen() -> None:
    part = TEXT[: TEXT.index("## Choose epsilon")]
    assert len(re.sub(r"[|_`<>-]+", " ", part).split()) < 320  # measured: a screen of 1440 x 900
    assert not re.search(r"https?://|<img|mermaid", TEXT)  # nothing is fetched


def test_page_has_a_signature_block() -> None:
    headings = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    assert headings == ["Guarantee", "Signature", "Choose epsilon", "Choose a cap", "Delete old reports"]
    signed = TEXT[TEXT.index("## Signature") : TEXT.index("## Choose epsilon")]
    assert {"signature", "date", "cap", "period", "groups"} <= set(re.findall(r"\w+", signed))


@pytest.mark.parametrize("name", ["privacy_officer", "threats", "data_flow", "deploy", "secure"])
def test_anchors_of_links_exist(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([\w./]*?)#([\w-]+)\)", text):
        page = DOCS / (target or f"{name}.md")
        titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        slugs = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
        assert anchor in slugs, f"{target}#{anchor}"


def test_every_threat_has_all_its_cells() -> None:
    text = (DOCS / "threats.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) > 8
    assert all(len(row) == 5 and all(cell.strip() for cell in row) for row in rows)


def test_threats_repeat_the_year_of_the_table() -> None:
    text = " ".join((DOCS / "threats.md").read_text(encoding="utf-8").split())
    _, cap = page.CAPS[-1]
    assert f"A cap of {cap} per 30 days is up to ε = {page.PERIODS * int(cap)} a year" in text


@pytest.mark.parametrize("name", ["data_flow", "service_flow"])
def test_diagram_needs_nothing_else(name: str) -> None:
    drawing = (DOCS / "figures" / f"{name}.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(drawing)  # noqa: S314 -- our own file
    assert root.find("{http://www.w3.org/2000/svg}title") is not None
    assert "prefers-color-scheme: dark" in drawing
    assert not re.search(r"href|url\((?!#)|<script|@import", drawing)
