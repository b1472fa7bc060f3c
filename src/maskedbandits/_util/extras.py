"""Optional dependencies, and the message that says how to install them."""

from collections.abc import Sequence
from importlib.util import find_spec

from maskedbandits.errors import UserError

EXPERIMENTS = ("matplotlib", "rich")  # the extra of that name in pyproject.toml
PARQUET = ("pyarrow",)  # likewise
SERVICE = ("httptools", "msgspec", "starlette", "uvicorn")  # likewise
POSTGRES = ("psycopg",)  # likewise
GYM = ("gymnasium",)  # likewise


def list_missing(modules: Sequence[str] = EXPERIMENTS) -> list[str]:
    """Return which of these modules are not installed."""
    return [module for module in modules if find_spec(module) is None]


def require(what: str, modules: Sequence[str] = EXPERIMENTS, extra: str = "experiments") -> None:
    """Refuse to start without these modules, and name the extra to install."""
    absent = list_missing(modules)
    if absent:
        which = f"{' and '.join(absent)}, which a plain install does not include"
        raise UserError(f"{what} needs {which}: pip install 'maskedbandits[{extra}]'")
