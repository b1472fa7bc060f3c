"""On the person's side: decide, randomise, remember, report at a time that tells nothing.

It needs the standard library alone and names its neighbours by dots: the same files are also in the package
``maskedbandits_device``.
"""

from .decision import Decision
from .device import Device
from .limits import Timing

__all__ = ["Decision", "Device", "Timing"]
