"""The server process: settings, workers, HTTP connections, warm-up, logging and metrics."""
