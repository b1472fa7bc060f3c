"""Text for terminals: it gives no orders, and any encoding can write it."""

from __future__ import annotations

import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import gives_no_orders
from maskedbandits._util import safe_text

ANYTHING = st.text(st.characters(codec=None, exclude_categories=[]))  # half characters too


@given(ANYTHING)
def test_one_line_has_no_control_characters(text: str) -> None:
    shown = safe_text.one_line(text)
    assert gives_no_orders(shown)
    assert "\n" not in shown
    assert safe_text.one_line(shown) == shown


def test_control_characters_are_escaped() -> None:
    assert safe_text.one_line("a\x1b[2J\x07\n\t\x9b\u202e\udcff ε\\n") == "a\\x1b[2J\\x07\\n\\t\\x9b\\u202e\\udcff ε\\n"


def test_lines_stay_lines() -> None:
    assert safe_text.lines("a\r\n\tb\x1b\n") == "a\n    b\\x1b\n"


@given(ANYTHING)
def test_a_json_document_means_the_same(text: str) -> None:
    document = json.dumps({text: [text]}, ensure_ascii=False, indent=1)
    shown = safe_text.json_text(document)
    assert gives_no_orders(shown)
    assert json.loads(shown) == {text: [text]}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "cp437", "shift-jis", "utf-8", "utf-16"])
@given(text=ANYTHING)
def test_any_encoding_can_write_any_text(encoding: str, text: str) -> None:
    shown = safe_text.spell(text, encoding)
    assert safe_text.spell(shown, encoding) == shown
    shown.encode(encoding)


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", "eps = inf, 3 +- 1, 2x, Cappe, \\u6ed1"),
        ("latin-1", "eps = inf, 3 ± 1, 2×, Cappé, \\u6ed1"),
        ("utf-8", "ε = ∞, 3 ± 1, 2×, Cappé, 滑"),
    ],
)
def test_characters_that_an_encoding_lacks_are_spelled(encoding: str, shown: str) -> None:
    assert safe_text.spell("ε = ∞, 3 ± 1, 2×, Cappé, 滑", encoding) == shown


def test_streams_write_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    monkeypatch.setattr(sys, "stderr", None)  # as where there is none
    safe_text.allow_any_text()
    print("ε", flush=True)  # noqa: T201 -- to the stream above
    assert written.getvalue() == b"eps\n"


def test_undecodable_input_is_not_replaced() -> None:
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii", safe_text.ERRORS)
