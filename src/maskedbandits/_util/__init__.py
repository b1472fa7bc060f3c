"""Helpers that know nothing of bandits: files, signals, progress bars, text that is safe to print."""
