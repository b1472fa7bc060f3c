"""Makes `client/vectors.json`, to which the masks of both languages are held: `python -m scripts.client_vectors`.

Every case is what Python computes: epsilons in millionths, thresholds, the answer that a word makes of a truth, the bit
that a word makes of a reward, and what a question to a group masks. Words are written in hexadecimal digits.
"""

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

from maskedbandits.device.protocol import round_to_millionths
from maskedbandits.privacy import KaryRandomizer, Question, Randomizer
from maskedbandits.privacy.exact import MAX_EPSILON, as_epsilon, threshold
from maskedbandits.privacy.randomized_response import ROUNDING_BITS, mask_with_word, round_with_word

FILE = Path(__file__).resolve().parent.parent / "client" / "vectors.json"
MILLION = 10**6
EDGES = (1, 2, 3, 999_999, 1_000_000, 1_000_001, 15_999_999, 16_000_000)
REWARDS = (0.0, -0.0, 5e-324, 2.0**-1022, 1e-300, 1e-9, 0.1, 1 / 3, 0.5, 0.7, 1 - 2.0**-53, 1.0)


def millionths(rng: random.Random) -> list[list[Any]]:
    """Return floats and the epsilon in millionths that each is read as; 0 where it is none."""
    floats = [0.1, 0.3, 1.1, 1e-6, 9.999999e-7, 2e-6, 3e-6, 1 / 3, 0.7000005, 15.9999999, 16.0, 0.29, 4.35]
    floats += [place / MILLION for place in rng.sample(range(1, MAX_EPSILON * MILLION), 100)]
    floats += [rng.uniform(0, MAX_EPSILON) for _ in range(50)]
    return [[each, int(round_to_millionths(as_epsilon(each)) * MILLION)] for each in floats]


def thresholds(rng: random.Random) -> list[list[Any]]:
    """Return epsilons in millionths, numbers of answers, and thresholds."""
    two = [(each, 2) for each in (*EDGES, *rng.sample(range(1, MAX_EPSILON * MILLION), 300))]
    more = [
        (rng.choice([*EDGES, rng.randint(1, MAX_EPSILON * MILLION)]), rng.choice((3, 4, 6, 64, 1 << 17)))
        for _ in range(100)
    ]
    return [[each, answers, f"{threshold(Fraction(each, MILLION), answers=answers):x}"] for each, answers in two + more]


def answers(rng: random.Random) -> list[list[Any]]:
    """Return epsilons, numbers of answers, truths, words, and the answers that these make: at all edges and between."""
    found = []
    for each in (1, 100_000, 1_000_000, 2_500_000, 16_000_000):
        for count in (2, 3, 8):
            mask, kary = Randomizer(Fraction(each, MILLION)), KaryRandomizer(count, Fraction(each, MILLION))
            edges = [kary.words_per_answer * false for false in range(count)]
            words = {
                0,
                (1 << 64) - 1,
                *edges,
                *(edge - 1 for edge in edges[1:]),
                *(rng.getrandbits(64) for _ in range(4)),
            }
            for word in sorted(words):
                truth = rng.randrange(count)
                made = int(mask_with_word(truth, word, mask.flips)) if count == 2 else kary.mask_with_word(truth, word)
                found.append([each, count, truth, f"{word:x}", made])
    return found


def rewards(rng: random.Random) -> list[list[Any]]:
    """Return rewards, words, and the bits that these make: the last word that makes a 1, the first that makes a 0."""
    found = []
    for value in (*REWARDS, *(rng.random() for _ in range(8))):
        share = int(Fraction(value) * (1 << ROUNDING_BITS))
        words = {0, share - 1, share, (1 << ROUNDING_BITS) - 1, rng.getrandbits(ROUNDING_BITS)}
        for word in sorted(word for word in words if 0 <= word < 1 << ROUNDING_BITS):
            found.append([value, f"{word:x}", round_with_word(value, word, ROUNDING_BITS)])
    return found


def questions(rng: random.Random) -> list[list[Any]]:
    """Return signs (or none), groups, bits, how many answers there are, and what is masked."""
    found: list[list[Any]] = []
    for count in (1, 2, 5):
        for signs in (None, [rng.randrange(2) for _ in range(count)]):
            question = Question([0] * count, signs, 1)
            for group in range(count):
                for bit in (0, 1):
                    found.append([signs, count, group, bit, question.answers, question._true_answer(group, bit)])
    return found


def vectors() -> dict[str, list[list[Any]]]:
    """Return all cases, the same each time."""
    makers = (millionths, thresholds, answers, rewards, questions)
    return {make.__name__: make(random.Random(make.__name__)) for make in makers}  # noqa: S311 -- cases, not secrets


def text() -> str:
    """Return the file: a case a line."""
    parts = [f'"{name}": [\n' + ",\n".join(map(json.dumps, cases)) + "\n]" for name, cases in vectors().items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    print(f"{FILE}: {sum(map(len, vectors().values()))} cases")
