"""The clock of a process, which never goes back."""

from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.service.clock import Clock


class Hands:
    """A machine's two clocks, set by hand."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_000_000.0, 0.0


def clock_of(hands: Hands) -> Clock:
    return Clock(lambda: hands.wall, lambda: hands.steady)


def test_clock_follows_machine() -> None:
    hands = Hands()
    clock = clock_of(hands)
    assert clock.now() == 1_000_000.0
    assert clock.minute() == 16_666
    assert clock.hour() == 277


def test_clock_goes_on_when_machine_is_set_back() -> None:
    hands = Hands()
    clock = clock_of(hands)
    clock.now()
    hands.wall, hands.steady = 900_000.0, 30.0
    assert clock.now() == 1_000_030.0
    hands.wall, hands.steady = 1_000_100.0, 60.0  # set right again
    assert clock.now() == 1_000_100.0


def test_clock_advances_to_forgotten_minute() -> None:
    clock = clock_of(Hands())
    clock.advance_to(2_000_000.0)
    assert clock.now() == 2_000_000.0


def test_clock_goes_on_from_forgotten_minute() -> None:
    hands = Hands()
    clock = clock_of(hands)
    clock.now()
    hands.steady += 500.0
    clock.advance_to(2_000_000.0)
    assert clock.now() == 2_000_000.0
    hands.steady += 1.0
    assert clock.now() == 2_000_001.0


def test_clock_follows_another_clock() -> None:
    """Like the clock of a database: a fast clock goes back before the first decision, and never afterwards."""
    hands = Hands()
    clock = clock_of(hands)
    clock.now()
    clock.follow(900_000.0)
    assert clock.now() == 900_000.0
    hands.wall, hands.steady = 5_000_000.0, 10.0  # this machine's own clock matters no more
    assert clock.now() == 900_010.0
    clock.follow(900_009.5)  # it took half a second to hear of it
    assert clock.now() == 900_010.0
    clock.follow(800_000.0)
    assert clock.now() == 900_010.0
    clock.follow(950_000.0)
    assert clock.now() == 950_000.0


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e4)), max_size=30))
def test_clock_never_goes_back(moves: list[tuple[float, float]]) -> None:
    hands = Hands()
    clock, values = clock_of(hands), 0.0
    for wall, steady in moves:
        hands.wall += wall
        hands.steady += steady
        assert clock.now() >= values
        assert clock.now() >= hands.wall
        values = clock.now()
