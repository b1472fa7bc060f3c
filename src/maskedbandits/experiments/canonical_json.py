"""Values as JSON: plain ones, in one text each, whose digest is a stable name."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: JSON has no infinity, so that one is the word "inf"."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def canonical(value: Any) -> str:
    """Return the one JSON text of a value, whatever the order of its keys."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(text: str) -> str:
    """Return a stable name for a text: the same on every machine and in every process."""
    return hashlib.sha256(text.encode()).hexdigest()[:24]
