import os

os.environ.setdefault("MASKEDBANDITS_COMPILE", "now")  # a test that starts interpreted says so

from hypothesis import HealthCheck, settings

# No deadlines: the first example of a process may wait for the compiler.
# Where a change is judged (CI), the same examples each time: a new find should not hold up whoever happens to be next.
settings.register_profile(
    "full",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.register_profile("few", settings.get_profile("full"), max_examples=5)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "full"))
