"""A property that is worked out once for each object, and holds no lock while it is.

On Python 3.11 ``functools.cached_property`` has one lock for all objects of a class. A process that forks while another
thread holds it leaves it locked in the child for good, who hangs when it asks. Here two threads that ask at once may
both work it out, and both get the same: what the first has written down.
"""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class lockfree_cached_property(Generic[Value]):  # noqa: N801 -- a decorator, as property is
    """Work a property out when it is first asked for, and keep it with its object."""

    def __init__(self, work_out: Callable[[Any], Value]) -> None:
        self.work_out = work_out
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, of: None, owner: type) -> Self: ...

    @overload
    def __get__(self, of: object, owner: type) -> Value: ...

    def __get__(self, of: object | None, owner: type) -> Self | Value:
        if of is None:
            return self
        value: Value = of.__dict__.setdefault(self.name, self.work_out(of))
        return value
