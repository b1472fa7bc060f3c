"""Reports that a policy takes in, with the mask of their arm or with masks of their own."""

from typing import Any, NamedTuple

import numpy as np

from maskedbandits._numba.state import Floats, Ints
from maskedbandits.errors import UserError
from maskedbandits.policies.index import report_masks
from maskedbandits.policies.index.report_masks import Masks
from maskedbandits.policies.registry import Kind
from maskedbandits.policies.runtime import get_entries


def is_mixed(kind: Kind, state: Any) -> bool:
    """Return whether a report had another mask than its arm's."""
    return kind.on_axes and bool(state.scalars[0].mixed)


class Reports(NamedTuple):
    """Checked reports in order."""

    arms: Ints
    feedbacks: Floats
    masks: Masks | None  # None: each report has the mask of its arm

    @classmethod
    def read(cls, arms: Ints, feedbacks: Floats, corruptions: Any) -> "Reports":
        """Return reports whose masks are checked; None for all masks, or for one, is the mask of its arm."""
        return cls(arms, feedbacks, None if corruptions is None else report_masks.read_masks(corruptions, arms.size))

    def take_in(self, kind: Kind, state: Any, contamination: float, sigma: float | None) -> Any:
        """Update the state with the reports, and return the state; it is another one if it had no room for masks.

        A refused call changes nothing.
        """
        honest = 1.0 - contamination
        first = self._find_masked(kind, state, honest, sigma)
        self._take_in_plain(kind, state, first)
        if first == self.arms.size:
            return state
        if kind.on_axes and not is_mixed(kind, state):
            state = report_masks.add_mask_sums(state)
        own = np.full(self.arms.size, report_masks.ARMS_OWN)
        indices, lines = self.masks or Masks(own, report_masks.NO_LINES)
        observe = get_entries(kind.layout, kind.name, ".masked").observe_masked
        observe(state, self.arms[first:], self.feedbacks[first:], indices[first:], lines, honest)
        return state

    def _take_in_plain(self, kind: Kind, state: Any, many: int) -> None:
        """Update the state with the first reports, which have the masks of their arms."""
        if many == 1:  # the code for one report is loaded anyway
            get_entries(kind.layout, kind.name).observe(state, int(self.arms[0]), float(self.feedbacks[0]))
        elif many:
            get_entries(kind.layout, kind.name, ".many").observe_many(state, self.arms[:many], self.feedbacks[:many])

    def _find_masked(self, kind: Kind, state: Any, honest: float, sigma: float | None) -> int:
        """Return the position of the first report with another mask than its arm's, or after such a report."""
        mixed = is_mixed(kind, state)
        if self.masks is None:
            return 0 if mixed else self.arms.size
        if not kind.takes_masks or sigma is not None:
            raise UserError(f"{kind.name} does not support a corruption for a single report: give the feedback alone")
        if not kind.sees_corruption:
            return self.arms.size
        tell_apart = get_entries(kind.layout, kind.name, ".masked").tell_apart
        first: int = tell_apart(state, self.arms, *self.masks, honest)
        if first < self.arms.size:
            report_masks.refuse_curves(state)
        return 0 if mixed else first
