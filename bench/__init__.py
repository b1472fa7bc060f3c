"""Benchmarks: how fast the package is, and how well its policies do."""
