# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # A live headline test end to end
#
# You start the service, create an experiment, let simulated visitors come, and read the result. Everything runs on your
# machine. You need `pip install '.[service]'`.

# %%
import atexit
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from random import Random

import maskedbandits as mb

# %% [markdown]
# ## Start the service
#
# On the command line you would type `maskedbandits serve`. Here it runs in a temporary folder and on any free port.
#
# Real devices wait for minutes before they report, so that the time of a report reveals nothing. The setting
# `simulation` lets our simulated visitors report at once. Never use it with people.

# %%
folder = tempfile.TemporaryDirectory()
storage = f"sqlite:///{Path(folder.name) / 'bandits.db'}"
config = Path(folder.name) / "service.toml"
config.write_text(f'storage = "{storage}"\nport = 0\nsimulation = true\n')

service = subprocess.Popen(
    [sys.executable, "-m", "maskedbandits", "serve", "--config", str(config)],
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    text=True,
)
atexit.register(service.kill)  # also if a cell fails
address = re.search(r"http://[\d.:]*\d", service.stdout.readline())[0]

# %% [markdown]
# `/readyz` answers 200 when policies are compiled.

# %%
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy for this machine


def call(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    with direct.open(urllib.request.Request(address + path, data), timeout=60) as reply:
        return json.loads(reply.read())


for attempt in range(600):
    try:
        direct.open(address + "/readyz", timeout=60).close()
        break
    except urllib.error.URLError:
        time.sleep(0.2)

# %% [markdown]
# ## Create the experiment
#
# Three headlines at ε = 2. A tenth of the visitors always gets the default headline, for comparison. Each
# headline is shown to at least 5 % of the others, so that the log can say what it would have earned.

# %%
created = call(
    "/v1/experiments",
    {
        "name": "headlines",
        "epsilon": 2,
        "arms": [{"name": "plain"}, {"name": "question"}, {"name": "number"}],
        "default_arm": "plain",
        "holdout": 0.1,
        "floor": 0.05,
        "report_after": 1,
        "expires_after": 600,
    },
)
print(created["name"], [arm["name"] for arm in created["arms"]])

# %% [markdown]
# ## Visitors come
#
# Each visitor gets a headline and clicks or not. The device masks the click and reports with the token of the decision.
# Real visitors use `mb.Device` or the browser client, which also keep a ledger and choose the time. We ask for 100
# decisions in one request, to be quick.

# %%
click_rates = {"plain": 0.15, "question": 0.5, "number": 0.25}  # unknown to the service
randomizer = mb.privacy.Randomizer(2)
world = Random(1)

for batch in range(20):
    decisions = call("/v1/experiments/headlines/decisions", {"n": 100})["decisions"]
    reports = []
    for decision in decisions:
        clicked = world.random() < click_rates[decision["arm"]]  # known to the device only
        reports.append({"token": decision["token"], "bit": randomizer.bit(clicked)})
    call("/v1/reports", {"reports": reports})

# %% [markdown]
# ## Read the result
#
# The state has estimates with confidence intervals. The same numbers are on the dashboard at `/dashboard`.

# %%
for wait in range(100):
    state = call("/v1/experiments/headlines/state")
    if state["observations"] == 2000:
        break
    time.sleep(0.1)

print(state["observations"], "reports received")
for arm, estimate, (low, high), issued in zip(
    created["arms"], state["estimates"], state["intervals"], state["issued"], strict=True
):
    print(f"{arm['name']:10} {estimate:.2f} ({low:.2f} to {high:.2f}), shown {issued} times")

# %% [markdown]
# ## Estimate other choices from the log
#
# Off-policy evaluation asks nobody again. It reads the log, which holds masked bits only.

# %%
command = [sys.executable, "-m", "maskedbandits", "evaluate", "headlines", "--storage", storage]
print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

# %% [markdown]
# ## Stop the service
#
# It stops without losing an acknowledged report. We remove the folder, too.

# %%
service.terminate()
service.communicate()
folder.cleanup()

# %% [markdown]
# ## Next
#
# - `examples/static_page` connects a page with the browser client.
# - `examples/server_decisions` decides in your own backend.
