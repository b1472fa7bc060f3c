"""Chores of the project itself: its site and its releases."""
