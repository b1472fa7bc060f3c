# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Private groups
#
# Different kinds of people prefer different options. Each device knows the group of its person; nobody else may. You
# let a policy learn the best arm of each group, while the answers hide both group and reward.

# %%
from random import Random

import maskedbandits as mb

# %% [markdown]
# ## One question, one masked answer
#
# `ask` returns a question that is the same for everyone: an arm for each group. The device shows the arm of its own
# group. Its answer masks group, arm and reward together.

# %%
policy = mb.make_contextual("auto", groups=3, arms=2, epsilon=2.0, seed=1)
question = policy.ask()
print("arms by group:", question.table)

group = 2  # known to the device only
arm = question.arm(group)
print("group 2 is shown arm", arm)

answer = question.answer(group, 1.0)  # masked
policy.observe(question, answer)

# %% [markdown]
# ## Learn
#
# Group 0 likes arm 0; the others like arm 1.

# %%
likes = [0, 1, 1]  # unknown to the policy
world = Random(1)
for visitor in range(3000):
    question = policy.ask()
    group = world.randrange(3)
    clicked = world.random() < (0.8 if question.arm(group) == likes[group] else 0.2)
    policy.observe(question, question.answer(group, float(clicked)))
print("best arm by group:", policy.estimates().argmax(axis=1))

# %% [markdown]
# ## Compare with one arm for everyone
#
# A policy without groups must show everyone the same arm. That costs nothing to hide, but loses the clicks of the
# groups that prefer another arm.

# %%
means = [[0.8, 0.2], [0.2, 0.8], [0.2, 0.8]]  # a row for each group
mask = mb.RandomizedResponse.from_epsilon(2)
problem = mb.ContextualProblem(means, [0], 10_000, corruption=mask)
with_groups = mb.simulate(problem, mb.make_contextual("auto", groups=3, arms=2, epsilon=2.0), runs=10, seed=1)
without = mb.simulate(problem, "auto", runs=10, seed=1)
print(f"with private groups: {with_groups.summary().mean:,.0f} clicks lost")
print(f"one arm for everyone: {without.summary().mean:,.0f} clicks lost")

# %% [markdown]
# ## Limits
#
# More groups and a smaller ε need more visitors. With few visitors, one arm for everyone can be better: simulate your
# own numbers first. A group persists, so several answers of one person reveal more about it. Cap them with a ledger.
