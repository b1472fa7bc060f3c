"""The dashboard: its numbers, alerts, history and streams; and ``page/``, which shows them."""
