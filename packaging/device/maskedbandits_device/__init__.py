"""What a device needs of maskedbandits: masked reports and a ledger of their cost, on the standard library alone."""

from .errors import UserError
from .privacy import *  # noqa: F403 - the same names
from .privacy import __all__ as _names

__all__ = [*_names, "UserError"]
