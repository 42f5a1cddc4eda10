"""What every test relies on, whoever runs them.

A loaded machine is no failure: hypothesis has no deadline for an example, nor for making one up (HealthCheck.too_slow
gives ten of them a second), and pytest-timeout ends what hangs. Each run tries the same examples, so that a change is
judged by what it does; NEW_EXAMPLES=1 asks for others. And the signals that a launcher's agent gets are what they are
in a pod, also under nohup, perf or a service that ignores some.
"""

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from rshagent.native import client_build

settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="NEW_EXAMPLES" not in os.environ
)
settings.load_profile("patient")

for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2):
    signal.signal(number, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def client() -> str:
    """Path of the real client, compiled once."""
    return client_build.kept("rshagent")


def pytest_xdist_auto_num_workers() -> int:
    """Twice as many as cores: most of a test's time is waiting for other processes."""
    return 2 * len(os.sched_getaffinity(0))


def pytest_collection_finish() -> None:
    """Keep thousands of tests out of each garbage collection."""
    gc.collect()
    gc.freeze()
