"""Hosts have their full names where the operator is told the cluster's domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.local.components import OTHER_DOMAIN
from tests.cluster.ssh.sshjob import SshJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.operator.mpijob import MpiJob
    from tests.cluster.operator.release import Release
    from tests.cluster.operator.submitted import Submitted


@pytest.fixture
def told(release: Release) -> Iterator[Release]:
    """The operator, told the domain for the time of a test."""
    release.upgrade({"jobs": {"clusterDomain": OTHER_DOMAIN}})
    yield release
    release.upgrade()


@pytest.mark.usefixtures("node")  # whose DNS has names under both
@pytest.mark.pod_security("baseline")
def test_a_launcher_that_is_a_worker_finds_all_in_the_domain(
    told: Release, submit: Callable[[MpiJob], Submitted]
) -> None:
    job = SshJob(workers=1).set(runLauncherAsWorker=True).run("pi", ranks=2)
    running = submit(job)
    assert running.verdict() == "Succeeded", running.output
    assert len(running.ranks()) == 2
    hostfile = running.namespace.get("ConfigMap", "pi-config")["data"]["hostfile"]
    assert all(line.split()[0].endswith(f".svc.{OTHER_DOMAIN}") for line in hostfile.splitlines()), hostfile
