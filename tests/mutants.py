"""Randomisers for the audit, broken ones and sound ones: `python tests/mutants.py NAME EPSILON`.

Each reads one bit a line (and perhaps the name of a decision) and writes one report a line. Imports nothing of ours.
"""

import math
import os
import random
import sys
import time
from collections.abc import Callable

Mutant = Callable[[int, float, str], str]


def share(epsilon: float) -> float:
    """The share of false reports."""
    return 1 / (1 + math.exp(epsilon))


def below(share: float) -> bool:
    return int.from_bytes(os.urandom(6), "little") < share * 2**48


def sound(bit: int, epsilon: float, decision: str) -> str:
    return str(bit ^ below(share(epsilon)))


def sound_vector(bit: int, epsilon: float, decision: str) -> str:
    return "".join(str(one ^ below(share(epsilon / 2))) for one in (1 - bit, bit))


def never_flips(bit: int, epsilon: float, decision: str) -> str:
    return str(bit)


def flips_only_ones(bit: int, epsilon: float, decision: str) -> str:
    return str(bit & ~below(share(epsilon)))


def leaves_one_bit_of_a_vector(bit: int, epsilon: float, decision: str) -> str:
    """Masks the truth's place among four and two more, and is off by one at the end."""
    vector = [1 - bit, 0, 0, bit]
    return "".join(str(one ^ below(share(epsilon / 2))) for one in vector[:-1]) + str(vector[-1])


def seven_bits(bit: int, epsilon: float, decision: str) -> str:
    return str(bit ^ (os.urandom(1)[0] >> 1 < math.floor(share(epsilon) * 128)))


def same_seed(bit: int, epsilon: float, decision: str) -> str:
    return str(bit ^ (random.random() < share(epsilon)))


def seed_from_the_clock(bit: int, epsilon: float, decision: str) -> str:
    if not answers:
        random.seed(int(time.time()))
        answers["seeded"] = "yes"
    return same_seed(bit, epsilon, decision)


answers: dict[str, str] = {}


def permanent(bit: int, epsilon: float, decision: str) -> str:
    return answers.setdefault(decision, sound(bit, epsilon, decision))


def permanent_in_name_only(bit: int, epsilon: float, decision: str) -> str:
    answers[decision] = sound(bit, epsilon, decision)
    return answers[decision]


def swapped(bit: int, epsilon: float, decision: str) -> str:
    return str(bit ^ below(1 - share(epsilon)))


def another_p(bit: int, epsilon: float, decision: str) -> str:
    return sound(bit, epsilon / 2, decision)


def always_zero(bit: int, epsilon: float, decision: str) -> str:
    return "0"


def main() -> None:
    random.seed(7)
    mutant: Mutant = globals()[sys.argv[1]]
    epsilon = float(sys.argv[2])
    for line in sys.stdin:
        bit, *decision = line.split()
        sys.stdout.write(mutant(int(bit), epsilon, "".join(decision)) + "\n")


if __name__ == "__main__":
    main()
