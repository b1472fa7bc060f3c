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
    """The minute of expiry, in steps of a 64th of the token's life, found by walking from minute to minute."""
    minute = 0
    while minute * 60 < expires:
        minute += 1
    life = minute - issued // 60
    step = life // 64 or 1
    while minute % step:
        minute += 1
    return minute
