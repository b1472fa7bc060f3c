"""Packed questions match the naive twin and round-trip."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.errors import UserError
from maskedbandits.service.group_queries import is_question, pack_question, unpack_questions
from naive import tokens as naive

SIZES = [1, 11]


@st.composite
def questions(draw: st.DrawFn) -> tuple[int, list[int], list[int] | None]:
    level = draw(st.integers(0, len(SIZES) - 1))
    most = draw(st.sampled_from([1, 255, 256, 65_535]))
    table = draw(st.lists(st.integers(0, most), min_size=SIZES[level], max_size=SIZES[level]))
    signs = draw(st.none() | st.lists(st.integers(0, 1), min_size=SIZES[level], max_size=SIZES[level]))
    return level, table, signs


@given(st.lists(questions(), max_size=6))
def test_questions_round_trip_and_match_twin(questions: list[tuple[int, list[int], list[int] | None]]) -> None:
    texts = [
        pack_question(level, np.array(table), None if signs is None else np.array(signs))
        for level, table, signs in questions
    ]
    assert texts == [naive.encode_question(*each) for each in questions]
    assert all(is_question(text, SIZES) and len(text) % 3 == 0 for text in texts)
    found = unpack_questions(texts, SIZES)
    assert found.tables.shape == (len(questions), 11)
    for place, (level, table, signs) in enumerate(questions):
        assert found.levels[place] == level
        assert found.tables[place].tolist() == [*table, *[0] * (11 - len(table))]
        assert found.signs[place].tolist() == [*(signs or []), *[0] * (11 - len(signs or []))]


@pytest.mark.parametrize("text", [b"", b"\x00", b"\x08\x00\x00", b"\x04\x00\x00", b"\x01\x00\x00\x00\x00\x00"])
def test_question_of_other_groups_is_refused(text: bytes) -> None:
    assert not is_question(text, SIZES)
    with pytest.raises(UserError, match="match the groups"):
        unpack_questions([text], SIZES)
