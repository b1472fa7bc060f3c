"""Online Retail II: two years of invoices of a British gift shop, as rounds with all outcomes known.

A row counts if something was sold: the invoice is not a cancellation (its number has no C), and quantity and price are
above 0. An invoice has the position of its first such row; invoices of the same minute keep their order.
"""

from __future__ import annotations

import lzma
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import IO

import numpy as np

from maskedbandits.data.readers import Progress, ignore_progress, parse_number, read_rows
from maskedbandits.data.tables import Rounds, find_periods

WHERE = "online_retail.csv"
COLUMNS = ("Invoice", "StockCode", "Description", "Quantity", "InvoiceDate", "Price")
FAMILIES = {
    "christmas": "CHRISTMAS|XMAS|ADVENT",
    "garden": "GARDEN|PARASOL|PICNIC|WATERING",
    "warmer": "HOT WATER|WARMER",
    "easter": "EASTER|CHICK|EGG",
    "party": "BUNTING|PARTY",
}
BEST_SELLERS = 10
PRODUCT = re.compile(r"\d{5}")  # the start of a product code; postage, fees and samples have letters

Invoice = tuple[datetime, set[str]]  # its time and its arms


def read_families(streams: Sequence[IO[bytes]], progress: Progress = ignore_progress) -> Rounds:
    """Return a round for each invoice: 1 for each family of products that the invoice contains."""
    return _build_rounds(
        _read_invoices(streams[0], lambda code, description: match_families(description), progress), tuple(FAMILIES)
    )


def read_best_sellers(streams: Sequence[IO[bytes]], progress: Progress = ignore_progress) -> Rounds:
    """Return the invoices of the second year; arms are the ten products in most invoices of the first year.

    The choice of arms does not use the second year.
    """
    names: dict[str, str] = {}

    def products(code: str, description: str) -> Iterable[str]:
        if not PRODUCT.match(code):
            return ()
        names.setdefault(code, " ".join([code, *description.split()]))
        return (code,)

    invoices = _read_invoices(streams[0], products, progress)
    second_year = datetime(invoices[0][0].year + 1, invoices[0][0].month, 1)
    sold = Counter(code for when, codes in invoices if when < second_year for code in codes)
    best = sorted(sold, key=lambda code: (-sold[code], code))[:BEST_SELLERS]
    table = _build_rounds([invoice for invoice in invoices if invoice[0] >= second_year], best)
    return Rounds(tuple(names[code] for code in best), table.outcomes, table.starts, table.period, table.labels)


@cache
def match_families(description: str) -> tuple[str, ...]:
    """Return the families of a product by the words of its description."""
    return tuple(name for name, words in FAMILIES.items() if re.search(words, description.upper()))


def _read_invoices(
    stream: IO[bytes], find_arms: Callable[[str, str], Iterable[str]], progress: Progress
) -> list[Invoice]:
    """Return the invoices in time order with the arms of all their rows."""
    invoices: dict[str, Invoice] = {}
    with lzma.open(stream) as unpacked:
        for row, (invoice, code, description, quantity, when, price) in read_rows(unpacked, COLUMNS, WHERE, progress):
            sold = parse_number(quantity, "Quantity", WHERE, row) > 0 and parse_number(price, "Price", WHERE, row) > 0
            if sold and not invoice.startswith("C"):
                if invoice not in invoices:
                    invoices[invoice] = datetime.strptime(when, "%m/%d/%Y %H:%M"), set()
                invoices[invoice][1].update(find_arms(code, description))
    return sorted(invoices.values(), key=lambda each: each[0])


def _build_rounds(invoices: Sequence[Invoice], arms: Sequence[str]) -> Rounds:
    outcomes = np.array([[arm in held for arm in arms] for _, held in invoices], dtype=np.uint8)
    starts, labels = find_periods([f"{when:%Y-%m}" for when, _ in invoices])
    return Rounds(tuple(arms), outcomes, starts, "a month", labels)
