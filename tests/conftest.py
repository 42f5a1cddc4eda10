"""What every test relies on, whoever runs them.

A loaded machine is no failure: hypothesis has no deadline for an example, nor for making one up (HealthCheck.too_slow
gives ten of them a second), and pytest-timeout ends what hangs. Continuous integration tries the same examples each
time, so that a change is judged by what it does; those of a contributor's run are new ones. And the signals that a
launcher's agent gets are what they are in a pod, also under nohup or a service that ignores some.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from rshagent import client_build

settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("patient")

for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
    signal.signal(number, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of the real client, compiled once."""
    path = str(tmp_path_factory.mktemp("client") / "rshagent")
    client_build.build(path)
    return path
