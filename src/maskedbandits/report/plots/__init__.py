"""Plots of results: each as a figure for files, as panels for a page, and in words."""
