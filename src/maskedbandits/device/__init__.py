"""The person's side: decide, randomise, store, and report at a time that reveals nothing.

It requires the standard library alone and uses relative imports: the same files are also in the package
``maskedbandits_device``. Names that are not in ``__all__`` are internal.
"""

from .device import Decision, Device
from .offers import request_offer
from .protocol import Timing

__all__ = ["Decision", "Device", "Timing", "request_offer"]
