"""The compiled core's link to numba. Nothing outside this package touches numba's internals.

- ``jit``: decorators that compile kernels, and dispatch to the code of a policy's parts.
- ``pipeline``: a shorter compiler pipeline for functions that only other kernels call.
- ``state``: declares the state of a policy once, for numpy, numba, mypy and saved files.
- ``sections``: teaches the compiler that ``state.counts`` is a slice of one of the state's arrays.
- ``stacks``: several states of one kind side by side.
- ``cache``: stores machine code on disk, and finds it again only while every source is unchanged.
"""
