"""Policies on the axes: memory x index, and what makes them forget at once."""
