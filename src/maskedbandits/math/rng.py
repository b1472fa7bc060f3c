"""Random numbers of policies and of simulated problems, from a small generator whose state is four words.

The generator is SFC64 (Doty-Humphrey's small fast chaotic generator). Numpy's generator of that name draws the same
numbers from the same four words. It is written again here because passing numpy's to compiled code takes longer than a
step. Uniform, normal and Laplace numbers follow numpy's algorithms, too; normal ones the ziggurat of 256 layers
(Marsaglia and Tsang 2000, with the bits of Doornik 2005 used once), whose tables may differ from numpy's in their last
digits.

Do not use it for privacy: masks of answers are drawn from the operating system (``privacy``).
"""

import math

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import compiled, inlined

Words = NDArray[np.uint64]

LAYERS = 256
EDGE = 3.6541528853610088  # where the tail begins, with which all layers have the same area
FRACTION = 52  # bits of a float's fraction
# all unsigned: numba converts a signed with an unsigned number to a float
_3, _9, _11, _24, _40 = (np.uint64(bits) for bits in (3, 9, 11, 24, 40))
_ONE = np.uint64(1)
_ALL = (1 << 64) - 1
_LAYER = np.uint64(LAYERS - 1)
_WHOLE = 1.0 / 9007199254740992.0  # 2^-53


def _ziggurat() -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]:
    """Return for each layer the limit of fractions inside, the width of the last bit, and the height."""
    edges = np.zeros(LAYERS)
    edges[-1] = EDGE
    height = math.exp(-0.5 * EDGE * EDGE)
    area = EDGE * height + math.sqrt(0.5 * math.pi) * math.erfc(EDGE / math.sqrt(2.0))
    for layer in range(LAYERS - 2, 0, -1):
        above = edges[layer + 1]
        edges[layer] = math.sqrt(-2.0 * math.log(area / above + math.exp(-0.5 * above * above)))
    heights = np.exp(-0.5 * edges * edges)
    edges[0] = area / height  # the base layer, tail included, as wide as if it were a rectangle
    inner = np.append([EDGE, 0.0], edges[1:-1])
    return (inner / edges * 2.0**FRACTION).astype(np.uint64), edges * 2.0**-FRACTION, heights


INSIDE, WIDTHS, HEIGHTS = _ziggurat()


def seed_words(seed: np.random.SeedSequence | int | None = None) -> Words:
    """Return the four words that a seed gives; without a seed, from the operating system."""
    state = np.random.SFC64(seed).state
    return np.array(state["state"]["state"], dtype=np.uint64)


def plain_word(words: Words) -> np.uint64:
    """Draw 64 bits without the compiler; numpy would warn of every overflow, which is intended here."""
    a, b, c, count = (int(each) for each in words)
    drawn = a + b + count & _ALL
    words[:] = b ^ b >> 11, c + (c << 3) & _ALL, ((c << 24 | c >> 40) & _ALL) + drawn & _ALL, count + 1
    return np.uint64(drawn)


def word(words: Words) -> np.uint64:
    """Draw 64 bits."""
    a, b, c, count = words[0], words[1], words[2], words[3]
    drawn = a + b + count
    words[0] = b ^ (b >> _11)
    words[1] = c + (c << _3)
    words[2] = ((c << _24) | (c >> _40)) + drawn
    words[3] = count + _ONE
    return drawn


word = inlined(word, plain=plain_word)


@inlined
def begin_sequence(out: Words, words: Words) -> None:
    """Write the state of another sequence to ``out``; it takes three draws, however many that sequence takes."""
    out[0], out[1], out[2] = word(words), word(words), word(words)
    out[3] = _ONE


@inlined
def uniform(words: Words) -> float:
    """Draw from [0, 1)."""
    return float(word(words) >> _11) * _WHOLE


@compiled
def normal(words: Words) -> float:
    """Draw from the standard normal distribution."""
    while True:
        drawn = word(words)
        layer = np.int64(drawn & _LAYER)
        fraction = (drawn >> _9) & np.uint64((1 << FRACTION) - 1)
        x = float(fraction) * WIDTHS[layer]
        if (drawn >> np.uint64(8)) & _ONE:
            x = -x
        if fraction < INSIDE[layer]:
            return x
        if layer == 0:
            tail = _tail(words)
            return -tail if (fraction >> np.uint64(8)) & _ONE else tail
        if (HEIGHTS[layer - 1] - HEIGHTS[layer]) * uniform(words) + HEIGHTS[layer] < math.exp(-0.5 * x * x):
            return x


@compiled
def _tail(words: Words) -> float:
    """Draw from the tail beyond the edge (Marsaglia 1964)."""
    while True:
        beyond = -math.log1p(-uniform(words)) / EDGE
        y = -math.log1p(-uniform(words))
        if y + y > beyond * beyond:
            return EDGE + beyond


@compiled
def laplace(words: Words, scale: float) -> float:
    """Draw from the Laplace distribution around 0."""
    while True:
        u = uniform(words)
        if u >= 0.5:
            return -scale * math.log(2.0 - u - u)
        if u > 0.0:
            return scale * math.log(u + u)
