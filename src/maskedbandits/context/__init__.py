"""The right choice for each kind of person, without anybody learning what kind they are."""

from maskedbandits.context.contextual import Contextual, load_contextual, make_contextual

__all__ = ["Contextual", "load_contextual", "make_contextual"]
