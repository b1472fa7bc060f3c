"""The page in a real browser: it sorts, hides and reads out, by mouse, finger and keyboard, and nothing goes wrong."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import pytest

from browsers import needs_browser, one_at_a_time
from helpers.boundaries import write_figures_as
from made_up import of_cells, results
from maskedbandits import report
from maskedbandits.experiments.results import Cell

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest_plugins = ["browsers"]
pytestmark = [needs_browser, one_at_a_time]

NASTY = "</script><script>alert(1)</script> & \"so' on"


def made() -> tuple[Cell, ...]:
    """Two policies, one of them with a name that would like to be a script."""
    labelled = []
    for cell in results().cells:
        policy = NASTY if cell.window is None else cell.label.policy
        labelled.append(Cell(dataclasses.replace(cell.label, policy=policy), cell.outcome))
    return tuple(labelled)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        write_figures_as(patch)
        yield report.write_report(of_cells(made()), tmp_path_factory.mktemp("browser")).page.as_uri()


@pytest.fixture
def opened(browser: Any, address: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page, in a window as the test asks for; whatever the browser complains of fails the test."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **getattr(request, "param", {})})
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.extend({request.url} - {address}))
    page.goto(address)
    yield page
    context.close()
    assert complaints == []


def column(page: Any, number: int) -> list[str]:
    return [str(text) for text in page.locator(f"table.sortable tbody td:nth-child({number})").all_inner_texts()]


def test_tables_sort_by_mouse_and_keyboard(opened: Any) -> None:
    regrets = sorted(float(cell.mean[-1]) for cell in made())
    rising = [f"{regret:.1f}" for regret in regrets]
    head = opened.locator("table.sortable th", has_text="regret")
    assert head.get_attribute("aria-sort") == "none"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert [text.split()[0] for text in column(opened, 3)] == rising
    head.locator("button").focus()
    opened.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert [text.split()[0] for text in column(opened, 3)] == rising[::-1]
    opened.locator("table.sortable th", has_text="ε").locator("button").click()
    assert head.get_attribute("aria-sort") == "none"
    assert column(opened, 1) == ["0.5", "0.5", "1", "1", "∞", "∞"]
    for _ in range(2):  # what has no window comes last, whichever way round
        opened.locator("table.sortable th", has_text="window").first.locator("button").click()
        assert column(opened, 6) == ["50 (paper)"] * 3 + ["–"] * 3


def test_legends_hide_curves_and_show_them_again(opened: Any) -> None:
    first = opened.locator("figure").first
    button = first.locator(".legend button").nth(1)
    assert button.inner_text() == NASTY
    curves = first.locator('[data-series="1"]')
    assert curves.count() == 6  # a line and a band in each of three panels
    for pressed, seen in (("false", "hidden"), ("true", "visible")):
        button.click()
        assert button.get_attribute("aria-pressed") == pressed
        assert {curve.evaluate("it => getComputedStyle(it).visibility") for curve in curves.all()} == {seen}
    assert opened.locator('figure:nth-of-type(2) [data-series="1"]').first.is_visible()


def read(cell: Cell, place: int) -> str:
    return f"{cell.mean[place]:.1f} ± {cell.half_width[place]:.1f}"


def test_hovering_shows_measured_numbers(opened: Any) -> None:
    with_window, without = made()[:2]
    plot = opened.locator(".plot[data-panel]").first
    readout = plot.locator(".readout")
    assert not readout.is_visible()
    plot.scroll_into_view_if_needed()
    box = plot.locator("svg").bounding_box()
    share = opened.evaluate("JSON.parse(document.getElementById('numbers').textContent).panels['regret-0'].places[4]")
    opened.mouse.move(box["x"] + share * box["width"] + 3, box["y"] + box["height"] / 2)
    higher, lower = f"{NASTY}\n{read(without, 4)}", f"with window\n{read(with_window, 4)}"
    assert readout.inner_text() == f"step 500\n{higher}\n{lower}"
    rule = plot.locator(".rule").bounding_box()
    assert rule["x"] == pytest.approx(box["x"] + share * box["width"], abs=1)
    assert box["y"] < rule["y"] < rule["y"] + rule["height"] < box["y"] + box["height"]
    opened.locator("figure").first.locator(".legend button").nth(1).click()
    assert not readout.is_visible()  # the pointer has left
    plot.focus()
    opened.keyboard.press("ArrowLeft")
    assert readout.inner_text() == f"step 900\nwith window\n{read(with_window, 8)}"
    opened.keyboard.press("ArrowRight")
    assert readout.inner_text().startswith("step 1,000")
    opened.keyboard.press("Escape")
    assert not readout.is_visible()


def test_pointer_positions_match_curves(opened: Any) -> None:
    """Where the pointer reads a checkpoint, there the curve is: its mean is where the drawing has it."""
    plot = opened.locator(".plot[data-panel]").first
    line = plot.locator('[data-series="0"][id$="line"] > path').bounding_box()
    numbers = opened.evaluate("JSON.parse(document.getElementById('numbers').textContent).panels['regret-0']")
    box = plot.locator("svg").bounding_box()
    ends = [box["x"] + share * box["width"] for share in (numbers["places"][0], numbers["places"][-1])]
    width = (ends[1] - ends[0]) * 10 / 9  # the curve starts at step 0, the numbers at step 100
    assert line["x"] == pytest.approx(ends[1] - width, abs=3)
    assert line["x"] + line["width"] == pytest.approx(ends[1], abs=3)


@pytest.mark.parametrize("opened", [{"viewport": {"width": 375, "height": 700}, "has_touch": True}], indirect=True)
def test_page_works_on_a_phone(opened: Any) -> None:
    assert opened.evaluate("document.documentElement.scrollWidth") == 375
    scrolls = opened.locator(".scroll").first
    assert scrolls.evaluate("it => it.scrollWidth > it.clientWidth")
    regret = opened.locator("table.sortable tbody td:nth-child(3)").first.bounding_box()
    assert regret["x"] + regret["width"] <= 375  # what matters most is seen without
    plot = opened.locator(".plot[data-panel]").first
    plot.scroll_into_view_if_needed()
    box = plot.locator("svg").bounding_box()
    assert 300 < box["width"] <= 375
    opened.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert plot.locator(".readout").inner_text().startswith("step ")
    assert plot.locator(".readout").bounding_box()["y"] >= box["y"] + box["height"]  # not under the finger


def brightness(page: Any, selector: str, what: str) -> float:
    colour = page.locator(selector).first.evaluate(f"it => getComputedStyle(it).{what}")
    return math.fsum(map(float, colour.strip("rgba()").split(",")[:3])) / 3


@pytest.mark.parametrize("opened", [{"color_scheme": "dark"}], indirect=True)
def test_dark_mode_and_print_colours(opened: Any) -> None:
    assert brightness(opened, "body", "backgroundColor") < 50
    assert brightness(opened, ".plot svg text", "fill") > 200
    opened.emulate_media(media="print")
    assert brightness(opened, "body", "backgroundColor") == 255
    assert brightness(opened, ".plot svg text", "fill") < 50
    sync_api.expect(opened.locator("details:not([open])")).to_have_count(0)
    assert opened.locator("details pre").is_visible()
    opened.emulate_media(media="screen")
    sync_api.expect(opened.locator("details[open]")).to_have_count(0)


@pytest.mark.parametrize("opened", [{"color_scheme": "dark"}], indirect=True)
def test_default_black_is_light_in_dark_mode(opened: Any) -> None:
    """Matplotlib writes no colour for what it fills with black."""
    opened.locator(".plot svg").first.evaluate(
        "it => it.append(document.createElementNS('http://www.w3.org/2000/svg', 'circle'))"
    )
    assert brightness(opened, ".plot svg circle", "fill") > 200
    opened.emulate_media(media="print")
    assert brightness(opened, ".plot svg circle", "fill") == 0


def test_print_fits_on_paper(opened: Any) -> None:
    opened.set_viewport_size({"width": 680, "height": 900})  # A4 less its margins
    opened.emulate_media(media="print")
    assert opened.evaluate("document.documentElement.scrollWidth") <= 680


def test_hiding_a_curve_scales_panel_to_the_others(opened: Any) -> None:
    figure = opened.locator("figure").first
    top = "getBoundingClientRect().top"
    places = f"all => all.map((it) => [it.textContent, Math.round(it.{top} - it.ownerSVGElement.{top})])"
    ticks = figure.locator('svg [id*="-ytick_"]')
    before = ticks.evaluate_all(places)
    higher, lower = sorted(made()[:2], key=lambda cell: -float(cell.mean[-1]))
    name = higher.label.policy
    heights = [
        box["height"] for box in (figure.locator(f'[data-series="{number}"]').first.bounding_box() for number in (0, 1))
    ]
    button = figure.locator(".legend button", has_text=name)
    button.click()
    lowest_number = 1 - int(button.get_attribute("data-toggles"))
    grown = figure.locator(f'[data-series="{lowest_number}"]').first.bounding_box()["height"]
    assert grown > heights[lowest_number]
    svg = figure.locator("svg").nth(2).bounding_box()
    assert grown < svg["height"]
    assert ticks.evaluate_all(places) != before
    button.click()
    assert ticks.evaluate_all(places) == before
    again = figure.locator(f'[data-series="{lowest_number}"]').first.bounding_box()["height"]
    assert again == pytest.approx(heights[lowest_number], abs=0.5)
    assert lower.label.policy != name


def test_regions_and_drawings_have_labels_of_their_own(opened: Any) -> None:
    labels = opened.evaluate(
        "[...document.querySelectorAll('[aria-label]')].map((it) => it.getAttribute('aria-label'))"
    )
    assert labels
    assert len(labels) == len(set(labels))
