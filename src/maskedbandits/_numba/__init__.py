"""The compiled core's link to numba.

- ``internals``: everything that goes beyond numba's public interface, with a page that explains it and a replacement
  for each part. Nothing outside this module touches numba's internals.
- ``jit``: decorators that compile kernels, and dispatch to the code of a policy's parts.
- ``state``: declares the state of a policy once, for numpy, numba, mypy and saved files.
- ``cache``: stores machine code on disk, and finds it again only while every source is unchanged.
"""
