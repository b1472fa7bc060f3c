# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Your first private bandit
#
# You have three headlines and want to show the one that visitors click most. Nobody may learn what a single visitor
# clicked. In this tutorial you mask clicks, learn from masked reports, and measure what privacy costs.
#
# You need `pip install '.[experiments]'`. It takes a few seconds once policies are compiled.

# %%
from random import Random

import maskedbandits as mb

# %% [markdown]
# ## Mask a click
#
# A `Randomizer` runs on the visitor's device. At ε = 1 it sends the truth 73 % of the time, and the opposite otherwise.
# Each report draws fresh randomness from the operating system, so your output differs from the one below.

# %%
randomizer = mb.privacy.Randomizer(1)
print([randomizer.bit(1) for visitor in range(20)])

# %% [markdown]
# A single report says little. The average of many still reveals the click rate, because the mask is known.
# `corruption` holds its probabilities. Pass it to the policy, which corrects for the mask.

# %%
mask = randomizer.corruption
print(mask)

# %% [markdown]
# ## Learn from masked reports
#
# `auto` is the default policy and needs no tuning. `choose` returns the arm to show. `observe` takes the masked report.

# %%
click_rates = [0.1, 0.6, 0.2]  # unknown to the policy
world = Random(1)
policy = mb.make_policy("auto", arms=3, corruption=mask, seed=1)
shown = [0, 0, 0]
for visitor in range(2000):
    headline = policy.choose()
    clicked = world.random() < click_rates[headline]  # known to the device only
    policy.observe(headline, randomizer.bit(clicked))
    shown[headline] += 1
print("Most shown: headline", shown.index(max(shown)))

# %% [markdown]
# The policy settled on the headline with the highest click rate. Estimates of rarely shown headlines stay rough, and
# their confidence intervals say so:

# %%
estimates, intervals = policy.estimates(), policy.intervals(0.05)
for headline in range(3):
    low, high = intervals[headline]
    print(f"headline {headline}: {estimates[headline]:.2f} ({low:.2f} to {high:.2f}), shown {shown[headline]} times")

# %% [markdown]
# ## Compare policies
#
# Simulations play the same compiled policy many times. Here the best headline changes after 5,000 visitors.
# *Regret* is the number of clicks lost compared with always showing the best headline.

# %%
problem = mb.Problem(
    means=[[0.1, 0.6, 0.2], [0.7, 0.1, 0.2]],
    starts=[0, 5_000],
    horizon=10_000,
    corruption=mask,
)
compared = mb.compare(problem, ["auto", "klucb-cf", "uniform"], runs=20, seed=1)
compared

# %% [markdown]
# `klucb-cf` assumes that nothing changes. `uniform` shows headlines at random. The last column compares run by run: an
# interval without 0 is more than chance.

# %%
compared.plot()

# %% [markdown]
# ## Measure what privacy costs
#
# Play `auto` at several values of ε. A smaller ε hides more and costs more.

# %%
for epsilon in (0.5, 1, 2, 4):
    mask = mb.RandomizedResponse.from_epsilon(epsilon)
    masked = mb.Problem(problem.means, problem.starts, problem.horizon, mask)
    result = mb.simulate(masked, "auto", runs=20, seed=1)
    print(f"epsilon {epsilon}: {result.summary().mean:,.0f} clicks lost of 10,000 visitors")

# %% [markdown]
# ## Next
#
# - `maskedbandits plan` makes this comparison for your own audience.
# - The tutorial *A live headline test end to end* lets a service decide for many devices.
