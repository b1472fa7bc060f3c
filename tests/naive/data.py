"""Slow, obvious readings of data files; nothing of the package is imported."""

import csv
import io
import math
import time

WORDS = {
    "christmas": ["CHRISTMAS", "XMAS", "ADVENT"],
    "garden": ["GARDEN", "PARASOL", "PICNIC", "WATERING"],
    "warmer": ["HOT WATER", "WARMER"],
    "easter": ["EASTER", "CHICK", "EGG"],
    "party": ["BUNTING", "PARTY"],
}

Round = tuple[str, list[int]]  # its month, and the outcome of every arm


def _sold(text: str) -> list[dict[str, str]]:
    every = list(csv.DictReader(io.StringIO(text, newline="")))
    return [
        row for row in every if row["Invoice"][:1] != "C" and float(row["Quantity"]) > 0 and float(row["Price"]) > 0
    ]


def _in_time_order(rows: list[dict[str, str]]) -> list[tuple[str, str]]:
    """The month and the number of every invoice."""
    invoices = list(dict.fromkeys(row["Invoice"] for row in rows))
    first = {one: next(row["InvoiceDate"] for row in rows if row["Invoice"] == one) for one in invoices}
    moments = {one: time.strptime(first[one], "%m/%d/%Y %H:%M") for one in invoices}
    return [(time.strftime("%Y-%m", moments[one]), one) for one in sorted(invoices, key=lambda one: moments[one])]


def families(text: str) -> list[Round]:
    """Every invoice of Online Retail II, and whether it holds a product of each family."""
    rows = _sold(text)
    found = []
    for month, invoice in _in_time_order(rows):
        lines = [row["Description"].upper() for row in rows if row["Invoice"] == invoice]
        found.append((month, [int(any(word in one for one in lines for word in WORDS[arm])) for arm in WORDS]))
    return found


def blind(text: str, arms: int = 10) -> tuple[list[str], list[Round]]:
    """The codes that most invoices of the first year hold, and every invoice from the second year on."""
    rows = _sold(text)
    order = _in_time_order(rows)
    first = order[0][0]
    second_year = f"{int(first[:4]) + 1}{first[4:]}"
    holds = {one: {row["StockCode"] for row in rows if row["Invoice"] == one} for _, one in order}
    early = [holds[one] for month, one in order if month < second_year]
    codes = sorted({code for held in early for code in held if len(code) >= 5 and code[:5].isdigit()})
    codes.sort(key=lambda code: -sum(code in held for held in early))  # stable: ties stay in order of code
    best = codes[:arms]
    return best, [(month, [int(code in holds[one]) for code in best]) for month, one in order if month >= second_year]


def genres(ratings: str, films: str) -> list[tuple[str, str, int]]:
    """The month, the genre and whether it was liked, for every rating and genre with a twentieth of all ratings."""
    genres_of = {}
    for line in films.splitlines()[1:]:
        film, _, _, words = line.split("\t")
        genres_of[film] = words.split()
    given = [line.split("\t") for line in ratings.splitlines()[1:]]
    given.sort(key=lambda fields: float(fields[3]))
    rows = []
    for _, film, stars, when in given:
        month = time.strftime("%Y-%m", time.gmtime(float(when)))
        rows += [(month, genre, int(float(stars) > 3.5)) for genre in genres_of[film]]
    common = {row[1] for row in rows if 20 * sum(other[1] == row[1] for other in rows) >= len(given)} - {"unknown"}
    return [row for row in rows if row[1] in common]


def means(arms: int, rows: list[tuple[str, dict[int, float]]]) -> list[list[float]]:
    """The mean of every arm in every period, NaN where there is none; a row is its period and the outcomes it knows."""
    table = []
    for period in dict.fromkeys(name for name, _ in rows):
        held = [[known[arm] for name, known in rows if name == period and arm in known] for arm in range(arms)]
        table.append([sum(outcomes) / len(outcomes) if outcomes else math.nan for outcomes in held])
    return table


def own_rounds(text: str, time_column: str) -> tuple[list[str], list[list[float]]]:
    """The arms of a table and the outcomes of every round, in the order of a column of numbers."""
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    arms = [name for name in rows[0] if name != time_column]
    rows.sort(key=lambda row: float(row[time_column]))
    return arms, [[float(row[arm]) for arm in arms] for row in rows]


def own_log(text: str, time_column: str) -> list[tuple[str, str, float]]:
    """The day, the arm and the reward of every row of a log with columns arm and reward, in time order."""
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    rows.sort(key=lambda row: time.strptime(row[time_column], "%Y-%m-%d"))
    return [(row[time_column], row["arm"], float(row["reward"])) for row in rows]
