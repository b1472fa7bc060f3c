"""Figures as SVG within a page: they take its colours, light or dark, and its script finds every series in them."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure

SVG = "http://www.w3.org/2000/svg"
LINK = "{http://www.w3.org/1999/xlink}href"
ElementTree.register_namespace("", SVG)


def inline(figure: Figure, name: str, label: str, colours: Mapping[str, str]) -> str:
    """Return a figure as an element of a page that reads out a label; colours are those of the page by ours.

    The name is put before all ids, so that figures of one page do not meet.
    """
    stream = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", transparent=True)
    root = ElementTree.fromstring(stream.getvalue())  # noqa: S314 -- drawn the line before
    for parent in root.iter():
        for child in [child for child in parent if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style")]:
            parent.remove(child)
    for element in root.iter():
        _adapt(element, name, colours)
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


def _adapt(element: ElementTree.Element, name: str, colours: Mapping[str, str]) -> None:
    """Give an element the page's colours, an id of its own, and no more digits than a screen shows."""
    kept = element.attrib
    if LINK in kept:
        kept["href"] = f"#{name}-{kept.pop(LINK)[1:]}"
    if "id" in kept:
        if found := re.match(r"panel-\d+-series-(\d+)-", kept["id"]):
            kept["data-series"] = found[1]
        kept["id"] = f"{name}-{kept['id']}"
    if "clip-path" in kept:
        kept["clip-path"] = kept["clip-path"].replace("url(#", f"url(#{name}-")
    if "style" in kept:
        kept["style"] = re.sub("#[0-9a-f]{6}", lambda found: colours.get(found[0], found[0]), kept["style"])
    if "d" in kept:
        kept["d"] = re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), kept["d"])
        kept["d"] = " ".join(kept["d"].split())
