import os

from hypothesis import HealthCheck, settings

# No deadlines: the first example of a process may wait for the compiler.
settings.register_profile("full", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", settings.get_profile("full"), max_examples=5)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "full"))
