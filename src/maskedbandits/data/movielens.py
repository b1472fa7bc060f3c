"""MovieLens 100K as a log of choices between genres: a control, since the best genre stays the best.

A rating of a film is one row for each genre of the film, 1 if it was liked. People choose the films that they rate: the
log is one of their choices, not of random ones. Replayed by rejection, it gives the rate at which a genre is liked by
those who chose it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import IO

import numpy as np

from maskedbandits.data.delimited import Tell, number_of, rows, silent
from maskedbandits.data.tables import Log, periods_of
from maskedbandits.errors import UserError

RATINGS, FILMS = "ml-100k.inter", "ml-100k.item"
LIKED = 4.0  # of five stars, at least
SHARE = 0.05  # of all ratings: of a rarer genre a month says too little
UNKNOWN = "unknown"  # what the file calls a film whose genre nobody noted


def genres(streams: Sequence[IO[bytes]], tell: Tell = silent) -> Log:
    """Return the log of the ratings, in time order, given the files of ratings and of films."""
    ratings, films = streams
    genres_of = _genres_of(films)
    found = _ratings(ratings, tell)
    counts = Counter(genre for film, _, _ in found for genre in genres_of.get(film, ()))
    arms = sorted(genre for genre, count in counts.items() if genre != UNKNOWN and count >= SHARE * len(found))
    number = {genre: place for place, genre in enumerate(arms)}
    picked = [
        (number[genre], liked, when)
        for film, liked, when in found
        for genre in genres_of.get(film, ())
        if genre in number
    ]
    months = [f"{datetime.fromtimestamp(when, UTC):%Y-%m}" for _, _, when in picked]
    starts, labels = periods_of(months)
    chosen = np.array([arm for arm, _, _ in picked], dtype=np.int64)
    return Log(tuple(arms), chosen, np.array([liked for _, liked, _ in picked]), starts, "a month", labels)


def _genres_of(stream: IO[bytes]) -> dict[str, list[str]]:
    """Return the genres of every film."""
    columns = ("item_id:token", "class:token_seq")
    return {film: words.split() for _, (film, words) in rows(stream, columns, FILMS, delimiter="\t")}


def _ratings(stream: IO[bytes], tell: Tell) -> list[tuple[str, float, float]]:
    """Return the film, whether it was liked, and when, of every rating in time order."""
    columns = ("item_id:token", "rating:float", "timestamp:float")
    found = [
        (film, float(number_of(stars, "rating", RATINGS, row) >= LIKED), number_of(when, "timestamp", RATINGS, row))
        for row, (film, stars, when) in rows(stream, columns, RATINGS, tell, delimiter="\t")
    ]
    if not found:
        raise UserError(f"{RATINGS}: there is not a single rating in it")
    return sorted(found, key=lambda rating: rating[2])
