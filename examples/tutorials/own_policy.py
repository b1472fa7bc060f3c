# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Bring your own policy
#
# You write a policy as a plain Python class, check that it keeps the contract, and compare it with ours.

# %%
import maskedbandits as mb
from maskedbandits.testing import PolicyContractError, check_policy

# %% [markdown]
# ## Write a class
#
# A policy has two methods. `choose` returns an arm. `observe` takes the masked feedback of an arm. Name what you need
# as parameters: `arms`, `corruption` and `horizon` are filled in from the problem. `generator` draws random numbers,
# and is seeded for each run.


# %%
class EpsilonGreedy:
    """Chooses the arm with the best recent feedback, and sometimes any arm."""

    def __init__(self, generator, arms, share=0.1):
        self.generator, self.share = generator, share
        self.means = [1.0] * arms

    def choose(self):
        if self.generator.random() < self.share:
            return self.generator.integers(len(self.means))
        return self.means.index(max(self.means))

    def observe(self, arm, feedback):
        self.means[arm] += 0.02 * (feedback - self.means[arm])


# %% [markdown]
# ## Check the contract
#
# `check_policy` plays the class in many situations: one arm, many arms, lost reports. It raises an error that says what
# to mend.

# %%
check_policy(EpsilonGreedy)
print("The contract is kept.")


# %%
class Forgetful(EpsilonGreedy):
    """Returns arms that do not exist."""

    def choose(self):
        return len(self.means)


try:
    check_policy(Forgetful)
except PolicyContractError as error:
    print(error)

# %% [markdown]
# ## Compare
#
# Your class runs beside compiled policies, on the same seeds. It is slower, so the horizon is short.

# %%
mask = mb.RandomizedResponse.from_epsilon(2)
problem = mb.Problem([[0.2, 0.7], [0.7, 0.2]], [0, 2_000], 4_000, mask)
compared = mb.compare(problem, {"epsilon-greedy": EpsilonGreedy, "auto": "auto", "uniform": "uniform"}, runs=10, seed=1)
compared

# %% [markdown]
# ## Next
#
# - A policy of river or MABWiser: `mb.from_river` and `mb.from_mabwiser` adapt it.
# - A compiled policy runs millions of steps a second and can be used live. *Write a policy* shows how.
