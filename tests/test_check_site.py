from pathlib import Path

import pytest
from scripts.check_site import complaints

FETCHING = {
    "a script": '<script src="https://cdn.example/x.js"></script>',
    "a style sheet": '<link rel="stylesheet" href="//fonts.example/css">',
    "a connection": '<link rel="preconnect" href="https://fonts.example">',
    "a picture": '<img src="HTTP://host.example/x.png">',
    "a frame": '<iframe src="https://host.example"></iframe>',
    "a style": "<style>@import 'https://host.example/x.css';</style>",
    "an attribute": '<p style="background: url(https://host.example/x.png)">',
}
QUIET = {
    "a link": '<a href="https://host.example">there</a>',
    "a canonical address": '<link rel="canonical" href="https://host.example">',
    "a file beside it": '<script src="../assets/x.js"></script><link rel="stylesheet" href="x.css">',
    "data": '<img src="data:image/png;base64,AAAA">',
    "code": "<code>url(https://host.example)</code>",
    "a namespace": '<svg xmlns="http://www.w3.org/2000/svg"></svg>',
}


@pytest.mark.parametrize("page", FETCHING.values(), ids=FETCHING)
def test_fetching_elements_are_found(page: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    (complaint,) = complaints(tmp_path)
    assert complaint.startswith("index.html fetches ")


@pytest.mark.parametrize("page", QUIET.values(), ids=QUIET)
def test_harmless_elements_are_ignored(page: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    assert not [*complaints(tmp_path)]


def test_style_sheets_are_checked(tmp_path: Path) -> None:
    (tmp_path / "x.css").write_text("a { src: url('https://host.example/x.woff') } b { src: url(x.woff) }")
    assert [*complaints(tmp_path)] == ["x.css fetches https://host.example/x.woff"]
