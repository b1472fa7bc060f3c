"""What a device needs of maskedbandits, on the standard library alone: decisions, masked reports, and their cost."""

from .device import Decision, Device, Timing, request_offer
from .errors import UserError
from .privacy import *  # noqa: F403 - the same names
from .privacy import __all__ as _names

__all__ = [*_names, "Decision", "Device", "Timing", "UserError", "request_offer"]
