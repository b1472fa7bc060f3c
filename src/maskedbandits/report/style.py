"""The style of all figures: colours, fonts, legends, and texts that fit.

Figures are drawn without pyplot and without the reader's own matplotlib settings, and carry no dates, so the same
results give the same bytes. Each curve of a policy has an id with the policy's number, for the script of the page.

Texts of users are shown as they are: without formulas, without characters that lack a glyph, cut to the available room.
"""

from __future__ import annotations

import io
import math
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.legend import Legend
from matplotlib.text import Text

from maskedbandits._util import safe_text
from maskedbandits._util.curves import COLOURS as COLOURS
from maskedbandits._util.curves import Band, Look, get_look, place_markers
from maskedbandits.experiments.results import Cell

FONT = "DejaVu Sans"  # comes with matplotlib, so figures look the same on every machine
# The colours on a dark background: lighter, with white for black.
DARK_COLOURS = ("#3d93d6", "#f07f33", "#25b98c", "#e09cc4", "#9ad8fa", "#f2b632", "#f0f0f0")
INK, PALE, GRID = "#222222", "#8a8a8a", "#e6e6e6"
DARK_INKS = {INK: "#e8e8e8", GRID: "#3a3a3a", "#ffffff": "#16181c", "#666666": "#a8a8a8"}
STYLE: dict[str, Any] = {
    "font.family": FONT,
    "font.size": 10.5,
    "text.color": INK,
    "axes.edgecolor": PALE,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.handlelength": 3.2,  # long enough to show the dashes
    "lines.linewidth": 2.0,
    "lines.markersize": 5.5,
    "pdf.fonttype": 42,
    "savefig.dpi": 160,
    "svg.hashsalt": "maskedbandits",  # makes ids the same every time
}
FILE_METADATA: dict[str, dict[str, Any]] = {  # by file type: entries with the date or the program are left out
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
}
MAX_COLUMNS = 4  # of panels side by side
LEGEND_LINE_INCHES, LEGEND_HANDLE_INCHES, MARGIN_INCHES = 0.225, 0.9, 0.4
MISSING_GLYPH = "□"
MAX_CHARACTERS = 300  # longer texts fit in no figure


COLUMN_INCHES = 3.4  # the width of a column of a paper
COLUMN_STYLE: dict[str, Any] = {
    "font.size": 7.5,
    "axes.titlesize": 8.0,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
}
TITLE_SIZE = 13 / 10.5  # of the title above the panels, in sizes of other texts

Looks = dict[str, Look]


@dataclass(frozen=True)
class FigureOptions:
    """How a reader wants figures.

    Parameters
    ----------
    band
        What to shade around the mean regret over time.
    is_log
        Whether time has a logarithmic scale.
    is_column
        Whether figures fit a column of a paper.

    """

    band: Band | None = "ci"
    is_log: bool = False
    is_column: bool = False

    def count_columns(self, panels: int, most: int = MAX_COLUMNS) -> int:
        """Return the number of panels side by side."""
        return 1 if self.is_column else min(panels, most)

    def choose_width(self, width: float) -> float:
        """Return the width of a figure in inches, which is usually this."""
        return COLUMN_INCHES if self.is_column else width

    def choose_size(self, width: float, height: float) -> tuple[float, float]:
        """Return the size of a figure with one panel in inches, which is usually this."""
        return (COLUMN_INCHES, COLUMN_INCHES * height / width) if self.is_column else (width, height)


USUAL = FigureOptions()


@contextmanager
def use_style(options: FigureOptions = USUAL) -> Iterator[None]:
    """Draw with the settings of this module alone, and restore the reader's own."""
    with mpl.rc_context():
        mpl.rcdefaults()
        settings = {**STYLE, **(COLUMN_STYLE if options.is_column else {})}
        mpl.rcParams.update(settings)  # type: ignore[arg-type]  # the stubs want literal keys
        yield


def assign_looks(policies: Sequence[str]) -> Looks:
    """Return the look of each policy, the same in every figure of a report."""
    return {policy: get_look(index) for index, policy in enumerate(dict.fromkeys(policies))}


def line_options(policy: str, looks: Looks) -> dict[str, Any]:
    """Return the options of the curve of a policy."""
    look = looks[policy]
    places = place_markers(list(looks).index(policy))
    return {"color": look.colour, "linestyle": look.linestyle, "marker": look.marker, "markevery": places}


def set_ids(panel: Axes, policy: str, looks: Looks, **artists: Artist) -> None:
    """Give the artists of a policy ids of the panel's number, the policy's, and a name."""
    figure = panel.get_figure(root=True)
    index = figure.axes.index(panel) if figure else 0
    for name, artist in artists.items():
        artist.set_gid(f"panel-{index}-series-{list(looks).index(policy)}-{name}")


def panel_title(group: Sequence[Cell]) -> str:
    """Return the title of the panel of one corruption."""
    label = group[0].label
    return label.setting + (", no privacy" if label.epsilon == math.inf else "")


def legend_entries(policies: Sequence[str], looks: Looks) -> tuple[list[Artist], list[str]]:
    """Return the lines and names in the legend of a figure with these policies."""
    names = [policy for policy in looks if policy in policies]
    lines: list[Artist] = [
        mpl.lines.Line2D([], [], color=looks[name].colour, linestyle=looks[name].linestyle, marker=looks[name].marker)
        for name in names
    ]
    return lines, names


def add_legend(figure: Figure, title: str, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """Put title and legend above the panels, where they cover no curve, and lay out the figure."""
    small, large = FontProperties(), FontProperties(size=TITLE_SIZE * mpl.rcParams["font.size"], weight="bold")
    width = figure.get_figwidth() - MARGIN_INCHES
    names = make_distinct([fit_text(name, width - LEGEND_HANDLE_INCHES, small) for name in labels])
    columns = count_legend_columns([measure_inches(name, small) for name in names], width)
    legend = figure.legend(
        handles,
        ["policy"] * len(labels),
        title="title",
        title_fontproperties=large,
        alignment="left",
        loc="outside upper left",
        ncols=columns,
    )
    fill_legend(legend, fit_text(title, width, large), names)
    extra_lines = max(0, math.ceil(len(labels) / columns) - 2)  # the figure has room for two
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE_INCHES * extra_lines)
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()  # lay out once, not again for every file type
    figure.set_layout_engine("none")


def count_legend_columns(widths: Sequence[float], room: float) -> int:
    """Return the largest number of columns in which names of these widths fit, filled column by column."""
    for count in range(len(widths), 1, -1):
        if sum(max(column) + LEGEND_HANDLE_INCHES for column in np.array_split(widths, count)) <= room:
            return count
    return 1


def render(figure: Figure, kind: str) -> bytes:
    """Return a figure as a file of type ``kind``, free of dates and versions."""
    stream = io.BytesIO()
    figure.savefig(stream, format=kind, metadata=FILE_METADATA[kind])
    return add_dark_variant(stream.getvalue()) if kind == "svg" else stream.getvalue()


def add_dark_variant(svg: bytes) -> bytes:
    """Return an SVG with other colours where the reader prefers dark pages."""
    rules = [
        f'[style*="{part}: {light}"] {{ {part}: {dark} !important }}'
        for light, dark in (*DARK_INKS.items(), *zip(map(str.lower, COLOURS), DARK_COLOURS, strict=True))
        for part in ("fill", "stroke")
    ]
    sheet = "@media screen and (prefers-color-scheme: dark) {\n" + "\n".join(rules) + "\n}\n</style>"
    return svg.replace(b"</style>", sheet.encode(), 1)


@cache
def glyphs() -> frozenset[int]:
    """Return the characters that the font has in both weights."""
    fonts = (get_font(findfont(FontProperties(family=FONT, weight=weight))) for weight in ("normal", "bold"))
    return frozenset.intersection(*(frozenset(font.get_charmap()) for font in fonts))


def replace_missing_glyphs(text: str) -> str:
    """Return a text in characters that the font has; combining marks that it lacks are left out."""
    return "".join(_replace_glyph(character) for character in safe_text.one_line(text[:MAX_CHARACTERS]))


def _replace_glyph(character: str) -> str:
    if ord(character) in glyphs():
        return character
    return "" if unicodedata.category(character) in ("Mn", "Me", "Cf") else MISSING_GLYPH


def measure_inches(text: str, font: FontProperties) -> float:
    """Return the width of a text."""
    face = get_font(findfont(font))
    face.set_size(font.get_size_in_points(), 72)
    face.set_text(text)
    return face.get_width_height()[0] / 64 / 72  # from 64ths of a point


def fit_text(text: str, width: float, font: FontProperties) -> str:
    """Return a text as it fits into a width in inches, with an ellipsis for the rest."""
    text = replace_missing_glyphs(text)
    whole = measure_inches(text, font)
    if whole <= width:
        return text
    start = text[: int(len(text) * width / whole) + 1]
    while start and measure_inches(f"{start}…", font) > width:
        start = start[:-1]
    return f"{start}…"


def make_distinct(names: Sequence[str]) -> list[str]:
    """Return distinct names: equal ones get their number."""
    return [f"({number}) {name}" if names.count(name) > 1 else name for number, name in enumerate(names, 1)]


def fill_legend(legend: Legend, title: str, names: Sequence[str]) -> None:
    """Put texts into a legend literally: a dollar starts no formula, an underscore hides no entry."""
    for artist, text in zip([legend.get_title(), *legend.get_texts()], [title, *names], strict=True):
        set_literal(artist, text)


def set_literal(artist: Text, text: str) -> None:
    """Let an artist show a text without parsing formulas."""
    artist.set_parse_math(False)
    artist.set_text(text)
