"""What `python -m bench.speed` measures against: ratios of two measurements, and what they should be."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """A ratio of two measurements and what it should be."""

    title: str
    slow: str
    fast: str
    bound: float
    at_least: bool

    def met(self, ratio: float) -> bool:
        """Tell whether the goal is reached."""
        return ratio >= self.bound if self.at_least else ratio <= self.bound


GOALS = [
    Goal("SMPyBandits' sliding-window kl-UCB / ours", "smpybandits sw", "sw-klucb-cf", 1000, True),
    Goal("pymab's sliding-window UCB in Rust / ours", "pymab sw", "sw-klucb-cf", 20, True),
    Goal("ours / a bare loop", "sw-klucb-cf", "bare loop", 2, False),
    Goal("window 10^5 / window 10^3", "window 10^5", "window 10^3", 1.3, False),
    Goal("window 10^5 / window 10^3, eps = 1", "window 10^5, eps = 1", "window 10^3, eps = 1", 1.3, False),
    Goal("window 10^5 / window 10^3, eps = 0.5", "window 10^5, eps = 0.5", "window 10^3, eps = 0.5", 1.3, False),
    Goal("10,000 arms / 10 arms, window 10^5", "10,000 arms", "window 10^5", 5, False),
    Goal("10,000 arms / 10 arms, window 10^5, eps = 1", "10,000 arms, eps = 1", "window 10^5, eps = 1", 5, False),
    Goal("SMPyBandits' GLR-klUCB, first 1,000 steps / ours", "smpybandits glr", "glr-klucb-cf", 1000, True),
    Goal("  the same, looking every 10th step / ours", "smpybandits glr-lazy", "glr-klucb-cf", 1000, True),
    Goal("likelihood-ratio test at n = 10^6 / at 10^3", "test at n = 10^6", "test at n = 10^3", 2, False),
    *(
        Goal(f"{name} / sw-klucb-cf", name, "sw-klucb-cf", 3, False)
        for name in ("sw-ucb-cf", "sw-ts-cf", "d-klucb-cf", "d-ucb-cf", "d-ts-cf")
    ),
    Goal("live auto / live sw-klucb-cf", "live auto", "live", 2.3, False),
    Goal("pymab's ask and tell / our choose and observe", "pymab live", "live", 1, True),
    Goal("pymab's private handle / our choose and observe", "pymab live-handle", "live", 1, True),
]
