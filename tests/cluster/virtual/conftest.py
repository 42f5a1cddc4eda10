"""Fixtures of the tests of virtual clusters; the operator is installed as for the tests of `tests/cluster/operator`.

`cluster`  submit a virtual cluster in the test's namespace: `running = cluster(VirtualCluster())`
`logins`   the launchers of two jobs in debug mode, by transport
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.conftest import installed, kubectl, release, submit
from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.ssh.conftest import submit_all
from tests.cluster.ssh.sshjob import SshJob
from tests.cluster.virtual.login import Login
from tests.cluster.virtual.virtualcluster import Running

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.release import Release
    from tests.cluster.ssh.conftest import SubmitAll
    from tests.cluster.virtual.virtualcluster import VirtualCluster

__all__ = ["cluster", "installed", "kubectl", "logins", "release", "submit", "submit_all"]


@pytest.fixture
def cluster(release: Release, namespace: Namespace) -> Callable[[VirtualCluster], Running]:
    """Submit a virtual cluster in the test's namespace."""
    return lambda body: Running(namespace, body).start()


@pytest.fixture(scope="module")
def logins(submit_all: SubmitAll) -> dict[str, Login]:
    """A job of each transport, in debug mode."""
    jobs = {"exec": MpiJob(example="openmpi5", slots=2).image("openmpi5-ssh"), "ssh": SshJob("openmpi5", slots=2)}
    for job in jobs.values():
        job.spec["runMode"] = {"debug": {"enabled": True}}
    return {name: Login(running) for name, running in submit_all(jobs, "baseline").items()}
