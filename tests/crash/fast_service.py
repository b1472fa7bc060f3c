"""The command line of maskedbandits in a world where time passes faster.

    python fast_service.py BEGAN SPEED serve --storage ...

Ids of reports are dropped, and logs are cut, between two hours. An hour of this world takes seconds.
"""

from __future__ import annotations

import sys
import time

from services import WorldClock

clock = WorldClock(float(sys.argv[1]), float(sys.argv[2]))
time.time = clock.now  # before other modules take it

from maskedbandits.cli import main  # noqa: E402
from maskedbandits.service.storage.postgres import PostgresStore  # noqa: E402

PostgresStore.NOW = f"({clock.began!r} + ({PostgresStore.NOW} - {clock.began!r}) * {clock.speed!r})"

if __name__ == "__main__":
    main(sys.argv[3:], prog_name="maskedbandits")
