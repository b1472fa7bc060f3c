"""The dashboard: its numbers, alerts, history and streams, and beside them the page."""
