"""MovieLens 100K as a log of choices between genres: a control, because the best genre never changes.

A rating of a film is one row for each genre of the film, 1 if the film was liked. People choose the films they rate, so
choices are not random. Replayed by rejection, the log gives the rate at which people like a genre they chose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import IO

import numpy as np

from maskedbandits.data.readers import Progress, ignore_progress, parse_number, read_rows
from maskedbandits.data.tables import Log, find_periods
from maskedbandits.errors import UserError

RATINGS, FILMS = "ml-100k.inter", "ml-100k.item"
MIN_LIKED_STARS = 4.0  # of five
MIN_SHARE = 0.05  # of all ratings; a month has too few of a rarer genre
UNKNOWN = "unknown"  # the file's word for a film without a genre


def read_genres(streams: Sequence[IO[bytes]], progress: Progress = ignore_progress) -> Log:
    """Return the log of ratings in time order, from the files of ratings and of films."""
    ratings, films = streams
    genres_of = _read_genres(films)
    rated = _read_ratings(ratings, progress)
    counts = Counter(genre for film, _, _ in rated for genre in genres_of.get(film, ()))
    arms = sorted(genre for genre, count in counts.items() if genre != UNKNOWN and count >= MIN_SHARE * len(rated))
    index = {genre: arm for arm, genre in enumerate(arms)}
    choices = [
        (index[genre], liked, when)
        for film, liked, when in rated
        for genre in genres_of.get(film, ())
        if genre in index
    ]
    months = [f"{datetime.fromtimestamp(when, UTC):%Y-%m}" for _, _, when in choices]
    starts, labels = find_periods(months)
    chosen = np.array([arm for arm, _, _ in choices], dtype=np.int64)
    return Log(tuple(arms), chosen, np.array([liked for _, liked, _ in choices]), starts, "a month", labels)


def _read_genres(stream: IO[bytes]) -> dict[str, list[str]]:
    """Return the genres of every film."""
    columns = ("item_id:token", "class:token_seq")
    return {
        film: words.split() for _, (film, words) in read_rows(stream, columns, FILMS, ignore_progress, delimiter="\t")
    }


def _read_ratings(stream: IO[bytes], progress: Progress) -> list[tuple[str, float, float]]:
    """Return film, liked and time of every rating in time order."""
    columns = ("item_id:token", "rating:float", "timestamp:float")
    rated = [
        (
            film,
            float(parse_number(stars, "rating", RATINGS, row) >= MIN_LIKED_STARS),
            parse_number(when, "timestamp", RATINGS, row),
        )
        for row, (film, stars, when) in read_rows(stream, columns, RATINGS, progress, delimiter="\t")
    ]
    if not rated:
        raise UserError(f"{RATINGS}: contains no ratings")
    return sorted(rated, key=lambda rating: rating[2])
