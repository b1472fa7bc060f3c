"""Fail if the built site would fetch anything from a network: `python -m scripts.check_site FOLDER`."""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

ELSEWHERE = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)  # https://host, and //host
IN_CSS = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:[a-z][a-z0-9+.-]*:)?//[^"')\s]+)""", re.IGNORECASE)
# What a browser fetches by itself. A link that a reader may follow (<a href>) is none of these.
FETCHED = {"src", "srcset", "data", "poster", "background", "xlink:href"}
FETCHED_BY_HREF = {"link", "use", "image", "base"}


class Fetches(HTMLParser):
    """Collect the addresses that a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Check attributes that fetch."""
        self.in_style = tag == "style"
        named = dict(attrs)
        if tag == "link" and (named.get("rel") or "") in ("canonical", "next", "prev", "edit", "license"):
            return  # a statement, not a file
        for name, value in attrs:
            if name == "style":
                self.found += IN_CSS.findall(value or "")
            elif (name in FETCHED or (name == "href" and tag in FETCHED_BY_HREF)) and ELSEWHERE.match(value or ""):
                self.found.append(value or "")

    def handle_data(self, data: str) -> None:
        """Check styles within the page."""
        if self.in_style:
            self.found += IN_CSS.findall(data)

    def handle_endtag(self, tag: str) -> None:
        """End the styles."""
        self.in_style = False


def fetches(file: Path) -> list[str]:
    """Return the addresses that a page or a style sheet fetches."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".css":
        return IN_CSS.findall(text)
    page = Fetches()
    page.feed(text)
    return page.found


def complaints(folder: Path) -> Iterator[str]:
    """Yield a line for every address that a page or a style sheet of the folder fetches."""
    for file in sorted([*folder.rglob("*.html"), *folder.rglob("*.css")]):
        yield from (f"{file.relative_to(folder)} fetches {address}" for address in fetches(file))


def main() -> None:
    """Check a folder and print the result."""
    folder = Path(sys.argv[1])
    pages = len([*folder.rglob("*.html")])
    wrong = [*complaints(folder)] if pages else [f"{folder}: no page is here"]
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"Site: {folder / 'index.html'} ({pages} pages, nothing is fetched from a network)")


if __name__ == "__main__":
    main()
