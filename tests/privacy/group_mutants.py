"""Devices of groups for the audit, broken and sound: `python group_mutants.py NAME EPSILON`.

Each reads `TABLE SIGNS EPSILON GROUP REWARD` a line, followed by PARTS if answers have parts, and writes an answer a
line. Imports nothing from the package.
"""

import math
import os
import random
import sys
from collections.abc import Callable
from typing import NamedTuple


class Line(NamedTuple):
    table: list[int]
    signs: list[int]
    requested: float
    group: int
    reward: int
    parts: list[int]


Mutant = Callable[[Line, float], str]


def below(share: float) -> bool:
    return int.from_bytes(os.urandom(6), "little") < share * 2**48


def masked(truth: int, many: int, epsilon: float) -> int:
    """Return the truth, or any other answer."""
    return (truth + 1 + random.SystemRandom().randrange(many - 1)) % many if false(many, epsilon) else truth


def false(many: int, epsilon: float) -> bool:
    return below((many - 1) / (math.exp(epsilon) + many - 1))


def truth_of(line: Line) -> tuple[int, int]:
    """Return the true answer and the number of answers."""
    if line.signs:
        return line.reward ^ line.signs[line.group], 2
    if line.parts:
        return 2 * line.parts[line.group] + line.reward, 2 * (max(line.parts) + 1)
    return 2 * line.group + line.reward, 2 * len(line.table)


def sound(line: Line, epsilon: float) -> str:
    return str(masked(*truth_of(line), epsilon))


def refuses_what_is_too_much(line: Line, epsilon: float) -> str:
    return "" if line.requested > epsilon else sound(line, epsilon)


def sound_with_padding(line: Line, epsilon: float) -> str:
    return f"answer {sound(line, epsilon)}, {os.urandom(2).hex()}"


def arm_in_clear(line: Line, epsilon: float) -> str:
    return f"{sound(line, epsilon)} {line.table[line.group]}"


def silent_without_reward(line: Line, epsilon: float) -> str:
    return sound(line, epsilon) if line.reward else ""


def one_sign_for_all(line: Line, epsilon: float) -> str:
    return str(masked(line.reward ^ line.signs[0], 2, epsilon))


kept: list[list[int]] = []


def signs_of_the_first_question(line: Line, epsilon: float) -> str:
    kept.append(line.signs)
    return str(masked(line.reward ^ kept[0][line.group], 2, epsilon))


def no_sign(line: Line, epsilon: float) -> str:
    return str(masked(line.reward, 2, epsilon))


def never_names_its_neighbour(line: Line, epsilon: float) -> str:
    truth, many = truth_of(line)
    others = [index for index in range(many) if index not in (truth, (truth + 1) % many)]
    return str(random.SystemRandom().choice(others) if false(many, epsilon) else truth)


def trusts_the_question(line: Line, epsilon: float) -> str:
    return sound(line, line.requested)


def masks_the_reward_alone(line: Line, epsilon: float) -> str:
    return str(2 * line.group + masked(line.reward, 2, epsilon))


def group_and_reward_with_epsilon_each(line: Line, epsilon: float) -> str:
    return str(2 * masked(line.group, len(line.table), epsilon) + masked(line.reward, 2, epsilon))


def tells_the_group_before(line: Line, epsilon: float) -> str:
    before = kept[-1][0] if kept else 0
    kept.append([line.group])
    return f"{sound(line, epsilon)} {before}"


def same_seed(line: Line, epsilon: float) -> str:
    truth, many = truth_of(line)
    other = (truth + 1 + random.randrange(many - 1)) % many
    return str(other if random.random() < (many - 1) / (math.exp(epsilon) + many - 1) else truth)


def weaker_where_all_groups_have_one_arm(line: Line, epsilon: float) -> str:
    return sound(line, 3 * epsilon if len(set(line.table)) == 1 else epsilon)


def believes_up_to_ten(line: Line, epsilon: float) -> str:
    return sound(line, line.requested if line.requested <= 10 else epsilon)


def believes_between(low: float, high: float) -> Mutant:
    def mutant(line: Line, epsilon: float) -> str:
        return sound(line, line.requested if low < line.requested < high else epsilon)

    return mutant


believes_between_5_and_8, believes_between_9_and_16 = believes_between(5, 8), believes_between(9, 15.9)
believes_between_6_and_7 = believes_between(6, 7)


def weaker_just_above_the_claim(line: Line, epsilon: float) -> str:
    return sound(line, 3 * epsilon if epsilon < line.requested < 1.4 * epsilon else epsilon)


def refuses_above_ten(line: Line, epsilon: float) -> str:
    return sound(line, line.requested) if line.requested <= 10 else ""


def weaker_for_two_arms(line: Line, epsilon: float) -> str:
    return sound(line, 3 * epsilon if len(set(line.table)) == 2 else epsilon)


def weaker_for_one_sign_pattern(line: Line, epsilon: float) -> str:
    return sound(line, 4 * epsilon if line.signs == [0, 1, 1, 0, 1][: len(line.signs)] else epsilon)


def weaker_where_group_1_has_arm_2(line: Line, epsilon: float) -> str:
    return sound(line, 3 * epsilon if line.table[1] == 2 else epsilon)


def weaker_after_a_reward_two_lines_before(line: Line, epsilon: float) -> str:
    kept.append([line.reward])
    return sound(line, 3 * epsilon if kept[-3:-2] == [[1]] else epsilon / 2)


def weaker_by_the_parity_of_six_rewards(line: Line, epsilon: float) -> str:
    odd = sum(reward for [reward] in kept[-6:]) % 2
    kept.append([line.reward])
    return sound(line, 3 * epsilon if odd else epsilon / 2)


def weaker_where_all_groups_are_one_part(line: Line, epsilon: float) -> str:
    return sound(line, 3 * epsilon if max(line.parts) == 0 else epsilon)


def place_in_the_part_in_clear(line: Line, epsilon: float) -> str:
    own = line.parts[line.group]
    return f"{sound(line, epsilon)} {line.parts[: line.group].count(own)}"


def masks_the_reward_within_the_part(line: Line, epsilon: float) -> str:
    return str(2 * line.parts[line.group] + masked(line.reward, 2, epsilon))


def takes_the_group_for_the_part(line: Line, epsilon: float) -> str:
    """Private, but not as requested."""
    many = truth_of(line)[1]
    return str(masked((2 * line.group + line.reward) % many, many, epsilon))


def more_for_group_1(line: Line, epsilon: float) -> str:
    """Private, but not as stated."""
    return sound(line, epsilon / 2 if line.group == 1 else epsilon)


def numbers(word: str) -> list[int]:
    return [] if word == "-" else [int(number) for number in word.split(",")]


def read(text: str) -> Line:
    table, signs, requested, group, reward, *parts = text.split()
    return Line(numbers(table), numbers(signs), float(requested), int(group), int(reward), numbers(*parts or "-"))


def begin() -> None:
    """Begin a run."""
    kept.clear()
    random.seed(1)


def main() -> None:
    mutant: Mutant = globals()[sys.argv[1]]
    begin()
    for text in sys.stdin:
        sys.stdout.write(mutant(read(text), float(sys.argv[2])) + "\n")


if __name__ == "__main__":
    main()
