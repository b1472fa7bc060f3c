# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Reproduce the paper
#
# SW-KLUCB-CF is the algorithm of Gajane, *Local Differential Privacy for Sequential Decision Making in a Changing
# Environment* (2023): KL-UCB with masked feedback and a sliding window. You play it on one problem, with its own window
# and with the window of the corrected bound.
#
# You need `pip install '.[experiments]'`.

# %%
import maskedbandits as mb
from maskedbandits import theory

# %% [markdown]
# ## The problem
#
# Five arms and three changes. A better arm appears, then the best arm collapses, then again a better arm appears.
# These are the means of `experiments/paper.toml`, with a shorter horizon.

# %%
means = [
    [0.6, 0.4, 0.3, 0.2, 0.1],
    [0.6, 0.4, 0.9, 0.2, 0.1],
    [0.1, 0.4, 0.3, 0.2, 0.7],
    [0.1, 0.9, 0.3, 0.2, 0.7],
]
horizon = 100_000
starts = [0, 25_000, 50_000, 75_000]
mask = mb.RandomizedResponse.from_epsilon(1)
problem = mb.Problem(means, starts, horizon, mask)

# %% [markdown]
# ## The windows
#
# The paper's window depends on the horizon and the number of changes, not on ε. The corrected window also depends on
# the means and on ε: more noise requires more reports.

# %%
print("paper's window:", theory.paper_window(horizon, changes=len(starts)))
for epsilon in (0.5, 1, 2):
    masked = mb.Problem(means, starts, horizon, mb.RandomizedResponse.from_epsilon(epsilon))
    print(f"corrected window at epsilon {epsilon}:", theory.corrected_window(masked))

# %% [markdown]
# ## The comparison

# %%
compared = mb.compare(
    problem,
    {
        "corrected window": ("sw-klucb-cf", {"window": "corrected"}),
        "paper's window": ("sw-klucb-cf", {"window": "paper"}),
        "no window": "klucb-cf",
        "auto": "auto",
    },
    runs=10,
    seed=2023,
)
compared

# %%
compared.plot()

# %% [markdown]
# The paper's window is too short at this ε: it holds too few reports to tell five arms apart. Without a window the
# policy misses the quiet rise of a better arm. `auto` knows neither the means nor the changes.
#
# ## The whole experiment
#
# `maskedbandits run experiments/paper.toml` plays 100 runs of 400,000 steps at four values of ε. It takes about four
# minutes of one core, and writes figures, LaTeX tables and a page. The page *Reproduction* compares published numbers
# with ours.
