"""Policies on the axes: memory x index x restarts."""
