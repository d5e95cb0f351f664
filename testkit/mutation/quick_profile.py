"""A pytest plugin: property tests always try the same examples, and store none."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "mutants",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("mutants")
