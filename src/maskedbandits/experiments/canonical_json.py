"""Values as canonical JSON: one text for equal values, whose digest is a stable name."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np


def to_plain(value: Any) -> Any:
    """Return a value in types that JSON has; an infinite number is the word "inf", NaN is None."""
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return to_plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def encode_canonical(value: Any) -> str:
    """Return the canonical JSON of a value, the same for any order of keys."""
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def hash_text(text: str) -> str:
    """Return a digest of a text, the same on every machine and in every process."""
    return hashlib.sha256(text.encode()).hexdigest()[:24]
