"""Windows and bounds: the paper's as printed, and those that can be proved; see ``docs/theory.md``."""

from maskedbandits.theory.bounds import (
    corrected_bound,
    corrected_regret_bound,
    corrected_window,
    lower_bound,
    published_bound,
)
from maskedbandits.theory.glr import glr_delays, glr_regret_bound
from maskedbandits.theory.minimax import exp3s_bound, hard_gap, minimax_lower_bound, sw_klucb_bound
from maskedbandits.theory.orders import corollary_1, corollary_2, turning_share
from maskedbandits.theory.windows import lambert_window, paper_window, variation_window

__all__ = [
    "corollary_1",
    "corollary_2",
    "corrected_bound",
    "corrected_regret_bound",
    "corrected_window",
    "exp3s_bound",
    "glr_delays",
    "glr_regret_bound",
    "hard_gap",
    "lambert_window",
    "lower_bound",
    "minimax_lower_bound",
    "paper_window",
    "published_bound",
    "sw_klucb_bound",
    "turning_share",
    "variation_window",
]
