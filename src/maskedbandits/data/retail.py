"""Online Retail II: the invoices of a British gift shop over two years, as rounds in which all outcomes are known.

A row counts if something was sold: its invoice is no cancellation (no C before its number), and its quantity and its
price are above 0. An invoice stands where its first such row stands; invoices of the same minute keep their order.
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

from maskedbandits.data.delimited import Tell, number_of, rows, silent
from maskedbandits.data.tables import Rounds, periods_of

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
PRODUCT = re.compile(r"\d{5}")  # how the code of a product begins; postage, fees and samples have letters

Invoice = tuple[datetime, set[str]]  # when, and which arms it speaks for


def families(streams: Sequence[IO[bytes]], tell: Tell = silent) -> Rounds:
    """Return a round for each invoice, an arm for each family of products: 1 if the invoice holds one of it."""
    return _rounds(_invoices(streams[0], lambda code, description: families_of(description), tell), tuple(FAMILIES))


def blind(streams: Sequence[IO[bytes]], tell: Tell = silent) -> Rounds:
    """Return the invoices of the second year; the arms are the ten products that most invoices of the first year hold.

    Nobody looked at the second year to choose them.
    """
    names: dict[str, str] = {}

    def products(code: str, description: str) -> Iterable[str]:
        if not PRODUCT.match(code):
            return ()
        names.setdefault(code, " ".join([code, *description.split()]))
        return (code,)

    found = _invoices(streams[0], products, tell)
    second_year = datetime(found[0][0].year + 1, found[0][0].month, 1)
    sold = Counter(code for when, codes in found if when < second_year for code in codes)
    best = sorted(sold, key=lambda code: (-sold[code], code))[:BEST_SELLERS]
    table = _rounds([invoice for invoice in found if invoice[0] >= second_year], best)
    return Rounds(tuple(names[code] for code in best), table.outcomes, table.starts, table.period, table.labels)


@cache
def families_of(description: str) -> tuple[str, ...]:
    """Return the families that a product belongs to, by the words of its description."""
    return tuple(name for name, words in FAMILIES.items() if re.search(words, description.upper()))


def _invoices(stream: IO[bytes], arms_of: Callable[[str, str], Iterable[str]], tell: Tell) -> list[Invoice]:
    """Return the invoices in time order, with the arms that any of their rows speaks for."""
    found: dict[str, Invoice] = {}
    with lzma.open(stream) as unpacked:
        for row, (invoice, code, description, quantity, when, price) in rows(unpacked, COLUMNS, WHERE, tell):
            sold = number_of(quantity, "Quantity", WHERE, row) > 0 and number_of(price, "Price", WHERE, row) > 0
            if sold and not invoice.startswith("C"):
                if invoice not in found:
                    found[invoice] = datetime.strptime(when, "%m/%d/%Y %H:%M"), set()
                found[invoice][1].update(arms_of(code, description))
    return sorted(found.values(), key=lambda each: each[0])


def _rounds(invoices: Sequence[Invoice], arms: Sequence[str]) -> Rounds:
    outcomes = np.array([[arm in held for arm in arms] for _, held in invoices], dtype=np.uint8)
    starts, labels = periods_of([f"{when:%Y-%m}" for when, _ in invoices])
    return Rounds(tuple(arms), outcomes, starts, "a month", labels)
