import pytest

from maskedbandits import make_policy
from naive.uniform import Uniform
from specimens import ALONE
from twins import play_alike


@pytest.mark.parametrize("seed", range(3))
def test_uniform_equals_twin(seed: int) -> None:
    chosen = play_alike(make_policy("uniform", arms=3), Uniform(3), [[0.5] * 3], 600, seed)
    assert set(chosen) == {0, 1, 2}


def test_oracle_plays_given_arms() -> None:
    policy = make_policy("oracle", arms=3, **ALONE["oracle"])
    arms = []
    for _ in range(150):
        arms.append(policy.choose())
        policy.observe(arms[-1], 0)
    assert arms == [2] * 40 + [0] * 60 + [1] * 50
