"""One decision: what to show, and where to report what came of it."""

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ..privacy import round_value
from .protocol import Offer

if TYPE_CHECKING:
    from .device import Device


class Decision:
    """An arm to show; ``report`` what came of it, whether the device takes part or not."""

    def __init__(self, device: "Device", offer: Offer) -> None:
        self.arm: str | None = offer.arm or None
        self.payload: Any = offer.payload
        self.payloads: dict[str, Any] | None = offer.payloads
        """Where there are groups, what belongs to all arms: whatever is fetched has to be fetched for all alike."""
        self.participate = not offer.why
        self.why = offer.why
        """Why the device takes no part; nothing if it does."""
        self.epsilon = offer.epsilon if self.participate else Fraction(0)
        """What the report costs, and is masked with."""
        self._device, self._token = device, offer.token

    def report(self, reward: float) -> bool:
        """Mask a reward in [0, 1], to leave later; tell whether it counts: the first does, until ``report_at``."""
        round_value(reward)  # refused alike, whether it takes part or not
        return self.participate and self._device._rewarded(self._token, reward)

    def __repr__(self) -> str:
        arm = f"arm={self.arm!r}, " if self.payloads is None else ""  # which would tell the group
        return f"<Decision, {arm}participate={self.participate}>"
