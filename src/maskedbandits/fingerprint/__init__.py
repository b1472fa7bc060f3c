"""Keys of all that is stored: machine code, cells of experiments and snapshots of the service.

A key decides whether something stored is still valid, so it changes with everything that the stored thing depends on:

    package.py    the sources of this package minus an explicit list of exclusions, versions, and the processor
    sources.py    the file that a policy of your own comes from, and the files that it imports
    values.py     the same code as it is in memory, which is what is compiled and played
    origin.py     the last two in one

``shared_state.py`` uses the same digests to find state that objects share.

Whatever is not excluded counts. Forgetting a file costs a recomputation, and never gives a stale result.
"""

from maskedbandits.fingerprint.origin import Origin, trace
from maskedbandits.fingerprint.package import (
    CELLS,
    MACHINE_CODE,
    SNAPSHOTS,
    Use,
    first_hash,
    hash_package,
    package_has_changed,
    package_key,
)
from maskedbandits.fingerprint.shared_state import SharedState
from maskedbandits.fingerprint.sources import OWN, place_of

__all__ = [
    "CELLS",
    "MACHINE_CODE",
    "OWN",
    "SNAPSHOTS",
    "Origin",
    "SharedState",
    "Use",
    "first_hash",
    "hash_package",
    "package_has_changed",
    "package_key",
    "place_of",
    "trace",
]
