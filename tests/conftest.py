"""A loaded machine is no failure: hypothesis has no deadline for an example, and pytest-timeout ends what hangs."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
