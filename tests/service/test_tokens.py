"""Tokens: they round-trip, match a naive twin, and are refused without a valid signature."""

from __future__ import annotations

import os
import random
import string
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.errors import UserError
from maskedbandits.service.tokens import TOKEN_LENGTH, ForgedToken, Keyring, Token, draw_id
from naive import tokens as naive

SECRETS = {0: bytes(range(32)), 7: b"\xff" * 32, 255: b"k" * 100}
RING = Keyring(SECRETS, 7)
TOKEN = Token(3, 2, 1, 4, 1_000_000, 65_536, 1_900_000_000, b"0123456789a")
ALPHABET = string.ascii_letters + string.digits + "-_"
FUZZED = 100_000

tokens = st.builds(
    Token,
    experiment=st.integers(0, 2**32 - 1),
    config=st.integers(0, 2**16 - 1),
    arm=st.integers(0, 2**16 - 1),
    flags=st.integers(0, 255),
    epsilon=st.integers(0, 2**32 - 1),
    probability=st.integers(1, 2**16),
    expires=st.integers(0, 2**32 - 1),
    id=st.binary(min_size=11, max_size=11),
    question=st.just(b"") | st.integers(1, 182).flatmap(lambda n: st.binary(min_size=3 * n, max_size=3 * n)),
)


def is_refused(text: str, ring: Keyring = RING) -> bool:
    try:
        ring.read(text)
    except ForgedToken:
        return True
    return False


@given(tokens, st.sampled_from(sorted(SECRETS)))
def test_token_round_trips_and_matches_twin(token: Token, current: int) -> None:
    ring = Keyring(SECRETS, current)
    text = ring.sign(token)
    fields = token._asdict()
    identity, question = fields.pop("id"), fields.pop("question")
    assert text == naive.signed(SECRETS[current], current, fields, identity, question)
    assert len(text) == TOKEN_LENGTH + len(question) // 3 * 4
    assert RING.read(text) == token  # whichever key is the current one
    assert naive.read(SECRETS, text) == (fields, identity, question)


@given(st.text() | st.text(ALPHABET, min_size=60, max_size=66))
def test_any_other_text_is_refused(text: str) -> None:
    assert is_refused(text)
    assert naive.read(SECRETS, text) is None


@given(tokens, st.data())
def test_twin_agrees_on_damaged_tokens(token: Token, data: st.DataObject) -> None:
    text = list(RING.sign(token))
    for place in data.draw(st.sets(st.integers(0, TOKEN_LENGTH - 1), min_size=1, max_size=3)):
        text[place] = data.draw(st.sampled_from(ALPHABET + "+/= é"))
    damaged = "".join(text)
    assert is_refused(damaged) == (naive.read(SECRETS, damaged) is None)
    assert is_refused(damaged) == (damaged != RING.sign(token))


def fuzzed(rng: random.Random) -> str:
    """Return a token with one thing wrong with it."""
    token = TOKEN._replace(
        experiment=rng.getrandbits(32),
        arm=rng.getrandbits(16),
        epsilon=rng.getrandbits(32),
        probability=rng.randint(1, 65_536),
        id=rng.randbytes(11),
        question=rng.randbytes(3 * max(0, rng.randrange(-3, 4))),
    )
    text = RING.sign(token)
    place = rng.randrange(TOKEN_LENGTH)
    match rng.randrange(7):
        case 0:  # a bit, or some of one letter
            other = ALPHABET.replace(text[place], "")
            return text[:place] + rng.choice(other) + text[place + 1 :]
        case 1:
            return text[:place]
        case 2:
            return text + rng.choice(["A", "=", "==", "\n", " ", "AAAA", text])
        case 3:  # another key, of the same number
            return Keyring({7: rng.randbytes(32)}, 7).sign(token)
        case 4:  # a key that is not there
            return Keyring({8: SECRETS[7]}, 8).sign(token)
        case 5:  # the other spelling of base64, or any other letter
            return text[:place] + rng.choice("+/=. é\0\n") + text[place + 1 :]
        case _:  # the end of another token, from somewhere behind the arm; not its last letter, which may be the same
            place = rng.randrange(14, 50)
            return text[:place] + RING.sign(token._replace(arm=token.arm ^ 1))[place:]


def test_no_fuzzed_token_is_accepted() -> None:
    rng = random.Random(20_260_729)
    for _ in range(FUZZED):
        text = fuzzed(rng)
        assert is_refused(text), text


def test_every_single_bit_counts() -> None:
    text = RING.sign(TOKEN)
    letters = naive.LETTERS
    for place in range(TOKEN_LENGTH):
        for bit in range(6):
            flipped = letters[letters.index(text[place]) ^ 1 << bit]
            assert is_refused(text[:place] + flipped + text[place + 1 :])


def test_standard_base64_is_refused() -> None:
    texts = (RING.sign(TOKEN._replace(arm=arm)) for arm in range(200))
    text = next(text for text in texts if "-" in text and "_" in text)
    assert not is_refused(text)
    assert is_refused(text.replace("-", "+"))
    assert is_refused(text.replace("_", "/"))


def test_dropped_key_verifies_nothing() -> None:
    old = Keyring({1: SECRETS[0]}, 1).sign(TOKEN)
    assert Keyring({1: SECRETS[0], 2: SECRETS[7]}, 2).read(old) == TOKEN
    assert is_refused(old, Keyring({2: SECRETS[7]}, 2))


def test_unknown_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("maskedbandits.service.tokens.VERSION", 2)
        patch.setattr("maskedbandits.service.tokens.QUESTION_VERSION", 1)
        later = [RING.sign(TOKEN), RING.sign(TOKEN._replace(question=b"abc"))]
    assert all(map(is_refused, later))


def test_config_version_wraps() -> None:
    assert RING.read(RING.sign(TOKEN._replace(config=65_537))).config == 1


def test_keyring_needs_current_key() -> None:
    with pytest.raises(UserError, match="number 3"):
        Keyring(SECRETS, 3)


def test_threads_and_forks_never_share_ids() -> None:
    def some(_: int) -> list[bytes]:
        return [draw_id() for _ in range(500)]

    with ThreadPoolExecutor(8) as pool:
        made = [each for found in pool.map(some, range(16)) for each in found]
    draw_id()  # so that there are spare bytes, which a child must not use
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, b"".join(some(0)))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 11 * 500)
    made += some(0) + [theirs[place : place + 11] for place in range(0, len(theirs), 11)]
    assert len(made) == len(set(made)) == 18 * 500


def test_ids_are_unique_and_reveal_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000_000.0)
    made = [draw_id() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert {len(each) for each in made} == {11}
    assert len({each[:3] for each in made}) > 900  # 0.03 of 1,000 are expected to be the same
