"""The base class of the plots of a report, and the panels that they draw on the page.

A plot is one class in one file. It draws a figure for papers and panels for the page, and has a caption. Panels are SVG
that takes the colours of the page, light or dark. With each come the numbers that a reader finds under the pointer.
"""

from __future__ import annotations

import io
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from maskedbandits._util import safe_text
from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.experiments.canonical_json import to_plain
from maskedbandits.experiments.results import Cell
from maskedbandits.report import style
from maskedbandits.report.style import Looks
from maskedbandits.report.summary import Groups, list_policies

# Variables of the page's style sheet, which has a light and a dark value for each colour.
PAGE_COLOURS = {
    style.INK: "var(--ink)",
    style.PALE: "var(--axis)",
    style.GRID: "var(--line)",
    "#666666": "var(--pale)",
    **{colour.lower(): f"var(--series-{index})" for index, colour in enumerate(style.COLOURS)},
}
PHONE_WIDTH = 350.0  # of a panel on a phone, in pixels
SVG = "http://www.w3.org/2000/svg"
LINK = "{http://www.w3.org/1999/xlink}href"
ElementTree.register_namespace("", SVG)


@dataclass(frozen=True)
class Panel:
    """One drawing of a page: its id, its title, the SVG, and the numbers that can be read from it."""

    name: str
    title: str
    svg: str
    numbers: dict[str, Any] | None = None


Rows = Sequence[tuple[str, Sequence[Panel]]]  # rows of panels under their headings


class Plot(ABC):
    """A plot of one problem.

    Parameters
    ----------
    prefix
        The beginning of the names of its files.
    title
        The title of its figure.
    groups
        The cells of the problem, by corruption.
    looks
        The colour and dash of each policy.
    arm_names
        The names of the arms, if they have any.
    options
        How the reader wants figures.

    """

    file_name: ClassVar[str]
    heading: ClassVar[str]
    panel_size: ClassVar[str] = ""  # a class of the style sheet: small, or three side by side

    def __init__(
        self,
        prefix: str,
        title: str,
        groups: Groups,
        looks: Looks,
        arm_names: Sequence[str] = (),
        options: style.FigureOptions = style.USUAL,
    ) -> None:
        self.name = f"{prefix}{self.file_name}"
        self.title, self.groups, self.looks, self.arm_names = title, groups, looks, arm_names
        self.options = options

    @classmethod
    def applies_to(cls, groups: Groups) -> bool:
        """Return whether there is something to show for these cells."""
        return True

    @property
    @abstractmethod
    def caption(self) -> str:
        """Describe the plot in sentences."""

    @abstractmethod
    def draw_figure(self) -> Figure:
        """Return the figure for files."""

    @abstractmethod
    def draw_rows(self) -> Rows:
        """Return the panels for the page."""

    def render_panel(
        self, figure: Figure, name: str, title: str, numbers: dict[str, Any] | None = None, detail: str = ""
    ) -> Panel:
        """Return a figure as a panel of the page, with its title in the font of the page.

        Screen readers get the problem, the heading, and the detail or else the title: a label of its own.
        """
        [axes] = figure.axes
        axes.set_title("", loc="left")
        if numbers:
            box = axes.get_position()
            numbers |= {"top": round(1 - box.y1, 5), "bottom": round(1 - box.y0, 5)}
            if axes.get_yscale() == "linear":  # the script scales the panel to the curves that are shown
                numbers["limits"] = round_digits(axes.get_ylim())
        label = ", ".join(filter(None, [f"{self.title}: {self.heading}", detail or title]))
        return Panel(name, title, render_inline_svg(figure, name, label), numbers)

    @lockfree_cached_property
    def rows(self) -> Rows:
        """The panels for the page, drawn once."""
        return self.draw_rows()

    @property
    def panels(self) -> list[Panel]:
        """All panels for the page."""
        return [panel for _, row in self.rows for panel in row]

    @property
    def cells(self) -> list[Cell]:
        """All cells of the problem."""
        return [cell for group in self.groups for cell in group]

    @property
    def policies(self) -> Sequence[str]:
        """The policies whose curves a reader can hide."""
        return list_policies(self.groups)

    @property
    def colours(self) -> Sequence[tuple[str, str]]:
        """Names and colours of series that are not policies."""
        return []


# Panels


class Margins(NamedTuple):
    """Room around a panel in inches, for its labels."""

    left: float = 0.72
    bottom: float = 0.5
    right: float = 0.24
    top: float = 0.1


DEFAULT_MARGINS = Margins()


def new_panel(width: float = 4.9, height: float = 3.1, margins: Margins = DEFAULT_MARGINS) -> tuple[Figure, Axes]:
    """Return a figure with a size in inches, and its panel."""
    figure = Figure(figsize=(width, height))
    left, bottom, right, top = margins
    box = (left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height)
    return figure, figure.add_axes(box)


def series_numbers(
    looks: Looks, policy: str, values: Sequence[float], halves: Sequence[float] | None, suffix: str = ""
) -> dict[str, Any]:
    """Return the numbers of one policy for the script of the page."""
    number = list(looks).index(policy)
    return {"number": number, "what": suffix, "values": round_digits(values), "halves": halves and round_digits(halves)}


def round_digits(values: Sequence[float]) -> Any:
    """Return numbers of six digits; NaN is None."""
    return to_plain([float(f"{value:.6g}") for value in values])


def horizontal_places(panel: Axes, values: Sequence[float]) -> list[float]:
    """Return the positions of values on the horizontal axis, as shares of the figure's width."""
    figure = panel.get_figure(root=True)
    width = figure.bbox.width if figure else 1.0
    across = panel.get_xaxis_transform().transform([(value, 0.0) for value in values])[:, 0] / width
    return [round(float(share), 5) for share in across]


# SVG


def render_inline_svg(figure: Figure, name: str, label: str) -> str:
    """Return a figure as an SVG element in the colours of the page, with a label for screen readers.

    The name is put before all ids, so that they differ between the figures of a page.
    """
    stream = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", transparent=True)
    root = ElementTree.fromstring(stream.getvalue())  # noqa: S314 -- drawn the line before
    for parent in root.iter():
        for child in [child for child in parent if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style")]:
            parent.remove(child)
    for element in root.iter():
        _adapt_element(element, name)
    view = root.attrib["viewBox"]
    unit = float(view.split()[2]) / PHONE_WIDTH  # the style sheet sizes text for phones by it
    root.attrib = {
        "viewBox": view,
        "style": f"--unit: {unit:.3g}",
        "role": "img",
        "aria-label": safe_text.one_line(label),
    }
    return ElementTree.tostring(root, encoding="unicode")


def _adapt_element(element: ElementTree.Element, name: str) -> None:
    """Give an element the colours of the page, a unique id, and as many digits as a screen shows."""
    attributes = element.attrib
    if LINK in attributes:
        attributes["href"] = f"#{name}-{attributes.pop(LINK)[1:]}"
    if "id" in attributes:
        if match := re.match(r"panel-\d+-series-(\d+)-", attributes["id"]):
            attributes["data-series"] = match[1]
        attributes["id"] = f"{name}-{attributes['id']}"
    if "clip-path" in attributes:
        attributes["clip-path"] = attributes["clip-path"].replace("url(#", f"url(#{name}-")
    if "style" in attributes:
        attributes["style"] = re.sub(
            "#[0-9a-f]{6}", lambda match: PAGE_COLOURS.get(match[0], match[0]), attributes["style"]
        )
    if "d" in attributes:
        path = re.sub(r"\d+\.\d+", lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), attributes["d"])
        attributes["d"] = " ".join(path.split())
