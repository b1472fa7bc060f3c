"""Compile kernels: decorators, dispatch by the kind of a state, and running without the compiler.

A *kernel* is a function of arrays and scalars. There are five decorators:

    compiled    compile, store the machine code on disk (``cache.py``), and let anyone call it
    entry       the same, for functions that a live policy calls
    inner       compile for each kind of state; only other kernels can call it, so it takes half the time to compile
    inlined     compile into the callers, where a call that passes a state would cost more than its work
    dispatch    let the kind of a state bring its own code, chosen when the caller is compiled

Every kernel can also be interpreted, with the same results. ``NUMBA_DISABLE_JIT=1`` interprets all of them.
``interpret`` does so in the present thread, while machine code is still being compiled.
"""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numba.extending import overload

from maskedbandits._numba import cache, internals

INTERPRETED = internals.IS_OFF

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# Kernels run without the interpreter's lock. A division by zero gives an infinity, as in numpy.
OPTIONS: Any = {"nogil": True, "error_model": "numpy", **internals.NO_REFERENCES}
LINK_OPTIONS: Any = {**OPTIONS, **internals.WITHIN}
INLINE_OPTIONS: Any = {**LINK_OPTIONS, **internals.INLINE}


class Choice(NamedTuple):
    """Several modules for one part of a policy: a number in the state's record says which of them plays it."""

    number: str  # its name in the record
    modules: tuple[ModuleType | None, ...]  # None where a policy does without

    def list_code(self, name: str, default: Callable[..., Any]) -> list[Callable[..., Any]]:
        """Return the function of this name in each module."""
        return [getattr(module, name, default) for module in self.modules]


HOOKS: set[str] = set()  # names of all functions that the kind of a state may bring along


def _compile(kernel: Kernel, plain: Kernel | None = None, **options: Any) -> Kernel:
    """Return a function that is compiled when it is first used; ``plain`` is interpreted in its place."""
    if INTERPRETED:
        return plain or kernel
    with cache.redirect_numba():
        dispatcher = numba.njit(**{**OPTIONS, **options})(kernel)
    internals.add_switch(dispatcher, plain)
    return cast("Kernel", dispatcher)


def _compile_and_store(kernel: Kernel, **options: Any) -> Kernel:
    """Compile a function, and store its machine code if it is defined in a file and there is a folder."""
    can_store = internals.CAN_STORE and Path(kernel.__code__.co_filename).is_file() and cache.folder() is not None
    compiled_kernel: Kernel = _compile(kernel, cache=can_store, **options)
    if not INTERPRETED:
        cache.register(compiled_kernel)
    return compiled_kernel


def entry(kernel: Kernel) -> Kernel:
    """Compile a function that a live policy calls, and store its machine code.

    It holds the interpreter's lock, so that no thread finds a state in the middle of a step. Releasing the lock takes
    longer than most steps.
    """
    return _compile_and_store(kernel, nogil=False)


def compiled(kernel: Kernel) -> Kernel:
    """Compile a function of arrays and scalars, and store its machine code."""
    return _compile_and_store(kernel)


def inner(kernel: Kernel) -> Kernel:
    """Compile a function that only other kernels call, once for each kind of state."""
    linked: Kernel = _compile(kernel, **LINK_OPTIONS)
    return linked


def inlined(kernel: Kernel, plain: Kernel | None = None) -> Kernel:
    """Compile a small function into its callers; the interpreter may run another one, ``plain``."""
    return _compile(kernel, plain, **INLINE_OPTIONS)


def dispatch(part: str, *, inline: bool = True) -> Callable[[Kernel], Kernel]:
    """Let the class of a state provide a function: its attribute ``part`` is a module that may define it.

    The decorated function is the default. If the attribute is a ``Choice``, the functions of all its modules are
    compiled, and a number in the state's record says which of them is called.
    """

    def decorate(default: Kernel) -> Kernel:
        name = default.__name__
        HOOKS.add(name)
        options = INLINE_OPTIONS if inline else LINK_OPTIONS

        @functools.wraps(default)
        def call(state: Any, *arguments: Any) -> Any:
            module = getattr(type(state), part)
            if isinstance(module, Choice):
                module = module.modules[int(state.scalars[0][module.number])]
            code = getattr(module, name, default)
            return getattr(code, "py_func", code)(state, *arguments)

        @overload(call, strict=False, jit_options=options)
        def select_code(state: Any, *arguments: Any) -> Any:
            module = getattr(internals.class_of(state), part)
            if isinstance(module, Choice):
                return _build_branches(module, name, default, options)
            code = getattr(module, name, default)
            return getattr(code, "py_func", code)

        return cast("Kernel", call)

    return decorate


def _build_branches(choice: Choice, name: str, default: Callable[..., Any], options: Any) -> Callable[..., Any]:
    """Return a function that calls the code which the record chooses; code that most modules share is tested last."""
    numbers_by_code: dict[Any, list[int]] = {}
    for number, code in enumerate(choice.list_code(name, default)):
        numbers_by_code.setdefault(code, []).append(number)
    if len(numbers_by_code) == 1:
        code = next(iter(numbers_by_code))
        return cast("Callable[..., Any]", getattr(code, "py_func", code))
    *rare, (usual, _) = sorted(numbers_by_code.items(), key=lambda item: len(item[1]))
    arguments = ", ".join(inspect.signature(default).parameters)
    lines = [f"def {name}({arguments}):", "    number = read(state)"]
    called = {"usual": usual}
    for index, (code, numbers) in enumerate(rare):
        called[f"rare_{index}"] = code
        lines.append(f"    if {' or '.join(f'number == {number}' for number in numbers)}:")
        lines.append(f"        return rare_{index}({arguments})")
    lines.append(f"    return usual({arguments})")
    for key, code in called.items():
        if not hasattr(code, "py_func"):
            called[key] = _compile(code, **options)
    called["read"] = internals.scalar_reader(choice.number)
    exec("\n".join(lines), called)  # noqa: S102 -- numba compiles calls by name, not from a list of functions
    return cast("Callable[..., Any]", called[name])


def interpret(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs a kernel, and all that it calls, without machine code; overflow gives infinity."""
    function = getattr(kernel, "py_func", kernel)

    @functools.wraps(function)
    def run(*arguments: Any) -> Any:
        before = internals.interprets()
        internals.set_interprets(True)
        try:
            with np.errstate(all="ignore"):
                return function(*arguments)
        finally:
            internals.set_interprets(before)

    return run
