"""Randomisers for the audit, broken and sound: `python tests/privacy/mutants.py NAME EPSILON`.

Each reads one bit a line (and possibly the name of a decision) and writes one report a line. Imports nothing from the
package.
"""

import hashlib
import math
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

Mutant = Callable[[int, float, str], str]


def share(epsilon: float) -> float:
    """Return the share of false reports."""
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
    """Mask four bits of a vector but the last: off by one."""
    vector = [1 - bit, 0, 0, bit]
    return "".join(str(one ^ below(share(epsilon / 2))) for one in vector[:-1]) + str(vector[-1])


def five_bits(bit: int, epsilon: float, decision: str) -> str:
    """Draw words of five bits, and round the number of those that flip down."""
    return str(bit ^ (os.urandom(1)[0] >> 3 < math.floor(share(epsilon) * 32)))


def same_seed(bit: int, epsilon: float, decision: str) -> str:
    return str(bit ^ (random.random() < share(epsilon)))


def seed_from_the_clock(bit: int, epsilon: float, decision: str) -> str:
    if not answers:
        random.seed(int(time.time()) // 1000)  # coarse, as starting eight takes long on a busy machine
        answers["seeded"] = "yes"
    return same_seed(bit, epsilon, decision)


answers: dict[str, str] = {}


def permanent(bit: int, epsilon: float, decision: str) -> str:
    return answers.setdefault(decision, sound(bit, epsilon, decision))


def permanent_in_name_only(bit: int, epsilon: float, decision: str) -> str:
    answers[decision] = sound(bit, epsilon, decision)
    return answers[decision]


def remembers_the_last(bit: int, epsilon: float, decision: str) -> str:
    """Permanent while no other decision comes in between."""
    if decision not in answers:
        answers.clear()
    return permanent(bit, epsilon, decision)


def tells_the_bit_before(bit: int, epsilon: float, decision: str) -> str:
    before = answers.get("before", "0")
    answers["before"] = str(bit)
    return sound(bit, epsilon, decision) + before


def same_seed_beside_a_number(bit: int, epsilon: float, decision: str) -> str:
    return f"{os.urandom(4).hex()} {same_seed(bit, epsilon, decision)}"


def sound_beside_a_counter(bit: int, epsilon: float, decision: str) -> str:
    return f"{counter(bit, epsilon, decision)} {sound(bit, epsilon, decision)}"


def counter(bit: int, epsilon: float, decision: str) -> str:
    """Independent of the bit, and the same in every run."""
    answers["count"] = str(int(answers.get("count", "0")) + 1)
    return str(int(answers["count"]) % 10)


def rare(bit: int, epsilon: float, decision: str) -> str:
    """A 1 is rare, and e^3 times as likely for a 1."""
    return str(int(below(1e-4 * math.exp(3 * bit))))


def swapped(bit: int, epsilon: float, decision: str) -> str:
    return str(bit ^ below(1 - share(epsilon)))


def swapped_with_a_blank(bit: int, epsilon: float, decision: str) -> str:
    return swapped(bit, epsilon, decision) + " "


def another_p(bit: int, epsilon: float, decision: str) -> str:
    return sound(bit, epsilon / 2, decision)


def always_zero(bit: int, epsilon: float, decision: str) -> str:
    return "0"


# Every report by itself is as it should be; together they are not.

noise: list[bool] = []


def line() -> int:
    """Return the number of the line, from 0."""
    answers["line"] = str(int(answers.get("line", "-1")) + 1)
    return int(answers["line"])


def every_second_raw(bit: int, epsilon: float, decision: str) -> str:
    return str(bit ^ (line() % 2 == 0 and below(2 * share(epsilon))))


def odd_lines_reveal_more(bit: int, epsilon: float, decision: str) -> str:
    least = share(1.6 * epsilon)
    return str(bit ^ below(least if line() % 2 == 0 else 2 * share(epsilon) - least))


def one_noise_for(reports: int) -> Mutant:
    def mutant(bit: int, epsilon: float, decision: str) -> str:
        if not noise:
            noise.extend([below(share(epsilon))] * reports)
        return str(bit ^ noise.pop())

    return mutant


one_noise_for_two, one_noise_for_twenty = one_noise_for(2), one_noise_for(20)


def dealt_from(cards: int) -> Mutant:
    def mutant(bit: int, epsilon: float, decision: str) -> str:
        if not noise:
            flips = round(cards * share(epsilon))
            noise.extend([True] * flips + [False] * (cards - flips))
            random.SystemRandom().shuffle(noise)
        return str(bit ^ noise.pop())

    return mutant


dealt_from_a_hundred, dealt_from_a_thousand = dealt_from(100), dealt_from(1000)


def table_read_again_and_again(bit: int, epsilon: float, decision: str) -> str:
    if not noise:
        noise.extend(below(share(epsilon)) for _ in range(997))
    return str(bit ^ noise[line() % len(noise)])


def noise_by_a_hash_of_the_decision(bit: int, epsilon: float, decision: str) -> str:
    if not noise:
        noise.extend(below(share(epsilon)) for _ in range(256))
    return str(bit ^ noise[hash(decision) % len(noise)])  # Python's own hash: another one in every run


def noise_from_the_name(bit: int, epsilon: float, decision: str) -> str:
    digest = int.from_bytes(hashlib.sha256(decision.encode()).digest()[:6], "little")
    return str(bit ^ (digest < share(epsilon) * 2**48))


# Reports that are raw, or flipped twice as often, depending on earlier inputs: on average as stated.

inputs: list[int] = []


def raw_where(condition: Callable[[list[int], int], bool]) -> Mutant:
    """Never flip where a condition on earlier inputs and the own one holds, half of the time."""

    def mutant(bit: int, epsilon: float, decision: str) -> str:
        raw = condition(inputs, bit)
        inputs.append(bit)
        return str(bit ^ (not raw and below(2 * share(epsilon))))

    return mutant


second0 = raw_where(lambda earlier, bit: earlier[-2:-1] == [0])
third0 = raw_where(lambda earlier, bit: earlier[-3:-2] == [0])
same2 = raw_where(lambda earlier, bit: earlier[-2:-1] == [bit])
same_last_two = raw_where(lambda earlier, bit: earlier[-1:] == earlier[-2:-1])
parity6 = raw_where(lambda earlier, bit: sum(earlier[-6:]) % 2 == 0)
parity8_of_every_second = raw_where(lambda earlier, bit: sum(earlier[-8::2]) % 2 == 0)
parity_of_100 = raw_where(lambda earlier, bit: sum(earlier[-100:]) % 2 == 0)
parity_of_all = raw_where(lambda earlier, bit: sum(earlier) % 2 == 0)
three_hundred_back = raw_where(lambda earlier, bit: earlier[-300:-299] == [1])
xor_of_11_and_29 = raw_where(lambda earlier, bit: earlier[-11:-10] == earlier[-29:-28])
xor_of_11_and_33 = raw_where(lambda earlier, bit: earlier[-11:-10] == earlier[-33:-32])


# Sound reports, and something beside them; seeds from a small range.


def seed_of_sixteen_bits(bit: int, epsilon: float, decision: str) -> str:
    if not answers:
        random.seed(int.from_bytes(os.urandom(2), "little"))
        answers["seeded"] = "yes"
    return same_seed(bit, epsilon, decision)


def seed_of_ten_bits(bit: int, epsilon: float, decision: str) -> str:
    if not answers:
        random.seed(int.from_bytes(os.urandom(2), "little") % 1024)
        answers["seeded"] = "yes"
    return same_seed(bit, epsilon, decision)


def seed_from_the_process_number(bit: int, epsilon: float, decision: str) -> str:
    if not answers:
        random.seed(os.getpid())
        answers["seeded"] = "yes"
    return same_seed(bit, epsilon, decision)


def logs_ones(bit: int, epsilon: float, decision: str) -> str:
    sys.stderr.write("one\n" * bit)
    return sound(bit, epsilon, decision)


def logs_ones_from(first: int) -> Mutant:
    def mutant(bit: int, epsilon: float, decision: str) -> str:
        sys.stderr.write("one\n" * (bit & (line() >= first - 1)))
        return sound(bit, epsilon, decision)

    return mutant


logs_ones_from_the_second_line, logs_ones_from_the_fiftieth_line = logs_ones_from(2), logs_ones_from(50)


def ends_with_the_bit_of_a_later_line(bit: int, epsilon: float, decision: str) -> str:
    answers["code"] = str(bit & (line() > 0))
    return sound(bit, epsilon, decision)


def logs_its_report(bit: int, epsilon: float, decision: str) -> str:
    report = sound(bit, epsilon, decision)
    sys.stderr.write("sent 1\n" if report == "1" else "")
    return report


def logs_every_report(bit: int, epsilon: float, decision: str) -> str:
    report = sound(bit, epsilon, decision)
    answers["code"] = report
    sys.stderr.write(f"{line()}: sent {'one' if report == '1' else 'nothing'}\n")
    return report


def logs_every_report_and_bit(bit: int, epsilon: float, decision: str) -> str:
    report = logs_every_report(bit, epsilon, decision)
    sys.stderr.write(f"for {bit}\n" if answers["line"] != "0" else "")
    answers["code"] = "0"
    return report


def ends_with_the_bit(bit: int, epsilon: float, decision: str) -> str:
    answers["code"] = str(bit)
    return sound(bit, epsilon, decision)


def is_slower_for_ones(bit: int, epsilon: float, decision: str) -> str:
    if bit:
        time.sleep(0.0005)
    return sound(bit, epsilon, decision)


def rounds(value: str, epsilon: float) -> str:
    """Take values between 0 and 1, as a sound device does."""
    return sound(int(below(float(value))), epsilon, "")


def never_flips_fractions(value: str, epsilon: float) -> str:
    return sound(int(value), epsilon, "") if value in ("0", "1") else str(round(float(value)))


def tells_by_the_end_of_the_line(bit: int, epsilon: float, decision: str) -> str:
    return sound(bit, epsilon, decision) + "\r" * bit


def warms_up(bit: int, epsilon: float, decision: str) -> str:
    return str(bit) if line() < 100 else sound(bit, epsilon, decision)


def stored_on_disk(bit: int, epsilon: float, decision: str) -> str:
    """Sound, and permanent between starts: the file created first has the answer."""
    path, answer = Path(sys.argv[3], decision), sound(bit, epsilon, decision)
    try:
        with path.open("x") as file:
            file.write(answer)
    except FileExistsError:
        return path.read_text() or answer  # empty: another run is just writing it
    return answer


def begin() -> None:
    """Begin a run."""
    for kept in (answers, noise, inputs):
        kept.clear()
    random.seed(7)


def main() -> None:
    begin()
    mutant: Mutant = globals()[sys.argv[1]]
    epsilon = float(sys.argv[2])
    if sys.argv[1] in ("rounds", "never_flips_fractions"):
        sys.stdout.writelines(f"{globals()[sys.argv[1]](line.strip(), epsilon)}\n" for line in sys.stdin)
        return
    for line in sys.stdin:
        bit, *decision = line.split()
        sys.stdout.write(mutant(int(bit), epsilon, "".join(decision)) + "\n")
    sys.exit(int(answers.get("code", "0")))


if __name__ == "__main__":
    main()
