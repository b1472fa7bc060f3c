"""Decisions that await a report, kept one by one."""


class Slips:
    """Every decision is a slip of paper: arm, second of issue, second of expiry, and whether it was reported."""

    def __init__(self) -> None:
        self.slips: list[list[int]] = []

    def issue(self, arm: int, issued: int, expires: int) -> None:
        self.slips.append([arm, issued, expires, 0])

    def report(self, place: int) -> None:
        self.slips[place][3] = 1

    def open(self, arms: int, minute: int) -> list[int]:
        return [
            sum(
                1
                for arm, issued, expires, reported in self.slips
                if arm == wanted and not reported and ends_in(issued, expires) > minute
            )
            for wanted in range(arms)
        ]


def ends_in(issued: int, expires: int) -> int:
    """The minute of expiry, in steps of hours that fit into a 64th of the token's life, found by walking on."""
    step = (expires - issued) // 64 // 3600 or 1
    hour = 0
    while hour * 3600 < expires or hour % step:
        hour += 1
    return hour * 60
