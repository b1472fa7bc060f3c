"""A cached property that holds no lock while it is computed.

On Python 3.11 ``functools.cached_property`` has one lock for all objects of a class. A process that forks while another
thread holds it leaves it locked in the child, which hangs at the next access. Here two threads may both compute the
value. Both get the same object, the one that was stored first.
"""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class lockfree_cached_property(Generic[Value]):  # noqa: N801 -- a decorator, as property is
    """Compute a property at its first access, and store it in the object."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, of: None, owner: type) -> Self: ...

    @overload
    def __get__(self, of: object, owner: type) -> Value: ...

    def __get__(self, of: object | None, owner: type) -> Self | Value:
        if of is None:
            return self
        value: Value = of.__dict__.setdefault(self.name, self.compute(of))
        return value
