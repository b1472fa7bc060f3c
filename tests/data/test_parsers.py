"""The parsers of the data sets match their twins on small made-up files."""

from __future__ import annotations

import io
import lzma
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_up_data import INVOICES, retail_text
from maskedbandits.data import movielens, open_bandit, retail, upworthy
from maskedbandits.data.tables import Rounds
from maskedbandits.errors import UserError
from naive import data as naive


def stream(text: str) -> io.BytesIO:
    return io.BytesIO(text.encode())


def packed(text: str) -> list[io.BytesIO]:
    return [io.BytesIO(lzma.compress(text.encode()))]


def months(table: Rounds) -> list[str]:
    return [label for label, count in zip(table.labels, table.counts[:, 0], strict=True) for _ in range(count)]


words = st.sampled_from(["XMAS", "Advent", "GARDEN", "HOT", "WATER", "HOT WATER", "EGG", "BUNTING", "PARTY", "MUG"])
times = st.builds(
    "{}/{}/{} {}:{:02}".format,
    *(st.integers(1, 12), st.integers(1, 28), st.integers(2009, 2011), st.integers(7, 9), st.integers(0, 59)),
)
sales = st.tuples(
    st.sampled_from(["1", "2", "3", "C4", "A5", "6", "7", "8"]),
    st.sampled_from(["11111", "22222A", "33333", "44444", "POST", "M", "123"]),
    st.lists(words, max_size=3).map(" ".join),
    st.integers(-2, 3),
    times,
    st.sampled_from([0, 0.5, 2]),
)
FIRST = ("0", "11111", "XMAS", 1, "12/1/2008 7:45", 1)  # so that there is a round, and a year after it
LATER = ("9", "22222A", "EGG", 1, "12/1/2009 7:45", 1)


@given(st.lists(sales, max_size=25).map(lambda rows: [FIRST, *rows]))
@settings(max_examples=50)
def test_families_match_twin(rows: Sequence[tuple[object, ...]]) -> None:
    table, twin = retail.read_families(packed(retail_text(rows))), naive.families(retail_text(rows))
    assert table.arms == tuple(naive.WORDS)
    assert list(zip(months(table), table.outcomes.tolist(), strict=True)) == twin


@given(st.lists(sales, max_size=25).map(lambda rows: [FIRST, LATER, *rows, ("0", "33333", "MUG", 1, FIRST[4], 1)]))
@settings(max_examples=50)
def test_best_sellers_match_twin(rows: Sequence[tuple[object, ...]]) -> None:
    table, (codes, twin) = retail.read_best_sellers(packed(retail_text(rows))), naive.blind(retail_text(rows))
    assert [name.split()[0] for name in table.arms] == codes
    assert list(zip(months(table), table.outcomes.tolist(), strict=True)) == twin


def test_unsold_invoices_are_dropped() -> None:
    table = retail.read_families(packed(retail_text()))
    assert table.labels == ("2009-12", "2010-01", "2010-12")
    assert table.outcomes.tolist() == [[1, 0, 0, 1, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 1, 1, 0]]


def test_best_seller_is_named_by_code_and_first_description() -> None:
    table = retail.read_best_sellers(packed(retail_text(INVOICES)))
    assert table.arms == ("11111 PARTY BUNTING", "22222A XMAS EGG", "33333 mug, with a garden")
    assert table.outcomes.tolist() == [[1, 1, 0]]


RATINGS = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
FILMS = "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
KNOWN = (
    FILMS + '1\t"Odd" Title\t1995\tWar Drama\n2\tTwo\t1996\tDrama\n3\tThree\t1997\tunknown\n4\tFour\t1997\tWestern\n'
)


@given(st.lists(st.tuples(st.sampled_from("1234"), st.integers(1, 5), st.integers(874724710, 893286638)), max_size=30))
@settings(max_examples=50)
def test_genres_match_twin(drawn: list[tuple[str, int, int]]) -> None:
    ratings = RATINGS + "".join(f"7\t{film}\t{stars}\t{when}\n" for film, stars, when in [("1", 4, 874724710), *drawn])
    table = movielens.read_genres([stream(ratings), stream(KNOWN)])
    twin = naive.genres(ratings, KNOWN)
    assert list(table.arms) == sorted({genre for _, genre, _ in twin})
    assert [table.arms[arm] for arm in table.chosen] == [genre for _, genre, _ in twin]
    assert table.rewards.tolist() == [liked for _, _, liked in twin]
    ends = [*table.starts[1:].tolist(), table.horizon]
    named = [
        month for month, start, end in zip(table.labels, table.starts, ends, strict=True) for _ in range(start, end)
    ]
    assert named == [month for month, _, _ in twin]


def test_genre_needs_a_twentieth_of_ratings() -> None:
    rare = RATINGS + "7\t4\t5\t874724710\n" + "7\t1\t5\t874724711\n" * 19
    assert movielens.read_genres([stream(rare), stream(KNOWN)]).arms == ("Drama", "War", "Western")
    assert movielens.read_genres([stream(rare + "7\t1\t5\t874724712\n"), stream(KNOWN)]).arms == ("Drama", "War")


SHOWN = ",timestamp,item_id,position,click,propensity_score,user_feature_0\n"


def test_random_log_is_sorted_by_time() -> None:
    text = SHOWN + "0,2019-11-25 00:00:00+00:00,2,1,1,0.25,x\n1,2019-11-24 09:30:00.5+00:00,0,3,0,0.25,y\n"
    table = open_bandit.read_items([stream(text)])
    assert table.arms == ("item 0", "item 1", "item 2", "item 3")
    assert (table.chosen.tolist(), table.rewards.tolist()) == ([0, 2], [0.0, 1.0])
    assert (table.starts.tolist(), table.labels) == ([0, 1], ("2019-11-24", "2019-11-25"))


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (
            "0,2019-11-25,2,1,1,0.3,x",
            "0.3: .*uniformly random",
        ),
        ("0,2019-11-25,2,1,1,0.5,x", "row 2: propensity_score = 0.5: this is not the log"),
        ("0,2019-11-25,2,1,1,0,x", "row 2: propensity_score = 0: this is not"),
        ("0,2019-11-25,2,1,1,nan,x", "row 2: propensity_score = nan: this is not"),
        ("0,2019-11-25,2,1,1,?,x", r"row 2: propensity_score = '\?': give a number"),
        ("0,2019-11-25,4,1,1,0.25,x", "row 1 has arm 4: give arms from 0 to 3"),
        ("0,2019-11-25,1.5,1,1,0.25,x", "row 2: item_id = '1.5': give a whole number"),
        ("0,2019-11-25,1,1,2,0.25,x", "rewards: 2.0 in row 1: give numbers"),
        ("0,noon,1,1,1,0.25,x", "row 2: timestamp = 'noon': give a time"),
        ("0,2019-11-25,1,1", "row 2 has 4 fields, but the heading has 7"),
    ],
)
def test_other_log_is_refused(row: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        open_bandit.read_items([stream(f"{SHOWN}0,2019-11-24,2,1,1,0.25,x\n{row}\n")])


PACKAGES = ",created_at,test_week,clickability_test_id,headline,impressions,clicks\n"


def packages(test: str, day: str, counts: Sequence[tuple[int, int]]) -> str:
    return "".join(
        f'0,{day} 08:00:{index:02}.123,201401,{test},"A, headline",{viewers},{clicks}\n'
        for index, (viewers, clicks) in enumerate(counts)
    )


def test_headline_test_is_a_segment() -> None:
    text = PACKAGES
    text += packages("later", "2014-06-01", [(10, 1), (20, 1), (0, 0), (40, 4), (30, 30), (99, 9)])
    text += packages("three", "2014-05-01", [(10, 1), (20, 1), (40, 4)])
    text += packages("doubtful", "2013-12-01", [(10, 1)] * 4)
    text += packages("earlier", "2013-06-24", [(10, 0), (10, 5), (10, 10), (10, 1)])
    table = upworthy.read_headlines([stream(text)])
    np.testing.assert_allclose(table.means, [[0, 0.5, 1, 0.1], [1 / 10, 1 / 20, 4 / 40, 1]])
    assert (table.starts.tolist(), table.horizon) == ([0, 40], 140)
    assert table.labels == ("2013-06-24", "2014-06-01")


@pytest.mark.parametrize(
    ("counts", "complaint"),
    [
        ([(10, 11)] * 4, "row 1: 11 clicks of 10 viewers"),
        ([(10, 1)] * 3, "has 4 packages that were shown"),
        ([(10.5, 1)] * 4, "row 1: impressions = '10.5': give a whole number"),
        ([(10, "x")] * 4, "row 1: clicks = 'x': give a number"),
    ],
)
def test_unusable_archive_is_refused(counts: Sequence[tuple[int, int]], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        upworthy.read_headlines([stream(PACKAGES + packages("one", "2014-06-01", counts))])


def test_missing_column_is_named() -> None:
    with pytest.raises(UserError, match=r"'impressions'.*'impression'"):
        upworthy.read_headlines([stream(PACKAGES.replace("impressions", "impression"))])
