"""The world of the demonstration: three pictures, of which people like another one best every twenty seconds."""

from __future__ import annotations

ARMS = ("sun", "moon", "star")
# How likely a click is, by phase and picture: there is always one that is far better than the others.
RATES = ((0.75, 0.30, 0.15), (0.15, 0.75, 0.30), (0.30, 0.15, 0.75))
PHASE = 20.0  # seconds
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)  # the stops of the slider; above them bars differ by chance


def name_of(epsilon: float) -> str:
    """Return what the experiment with this epsilon is called."""
    return f"epsilon-{epsilon:g}".replace(".", "-")


def phase(at: float) -> int:
    """Return in which phase the world is, so many seconds after it began."""
    return int(at // PHASE) % len(RATES)


def rates(at: float) -> tuple[float, ...]:
    """Return how likely a click on each picture is."""
    return RATES[phase(at)]
