"""A launcher that is a worker as well runs its ranks itself: each MPI, transport and user, and hosts by either name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cluster.local.components import OTHER_DOMAIN
from tests.cluster.local.places import Places
from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.ssh.sshjob import ALLOW_ROOT, SshJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.operator.release import Release
    from tests.cluster.operator.submitted import Submitted
    from tests.cluster.ssh.conftest import SubmitAll

pytestmark = pytest.mark.slow

# mpirun of the image for Open MPI 5 and ssh crashes as a user that its passwd doesn't have, also by itself.
USERS = {"openmpi4": 123456, "openmpi5": 1000, "mpich": 123456, "intel": 123456}
NAMES = [
    f"{example}-{transport}-{user}"
    for example in ("openmpi4", "openmpi5", "mpich", "intel")
    for transport in ("exec", "ssh")
    for user in ("root", "user")
]


def job(name: str) -> MpiJob:
    """A job whose two ranks run in the launcher and in its one worker."""
    example, transport, user = name.split("-")
    if transport == "ssh":
        made: MpiJob = (
            SshJob(example, workers=1) if user == "root" else SshJob(example, workers=1).run_as(USERS[example])
        )
    else:
        made = MpiJob(example=example, workers=1)
        if user == "root":
            made.environ(ALLOW_ROOT)
            for pod in (made.launcher, made.worker):
                pod["securityContext"] = {"runAsUser": 0}
    made.spec["runLauncherAsWorker"] = True
    return made.run("pi", ranks=2)


DOMAINS = [
    pytest.param("", id="short"),
    pytest.param(OTHER_DOMAIN, id="domain", marks=pytest.mark.alone),  # jobs of others would have it, too
]


@pytest.fixture(scope="module", params=DOMAINS)
def running(
    request: pytest.FixtureRequest, installed: Release, submit_all: SubmitAll
) -> Iterator[tuple[str, dict[str, Submitted]]]:
    """All jobs, submitted side by side to an operator that is told this domain of the cluster."""
    domain = request.param
    if domain:
        if not Places.of().is_cluster_of(os.environ["KUBECONFIG"]):
            pytest.skip("the DNS of the tests' own cluster has names under two domains")
        installed.upgrade({"jobs": {"clusterDomain": domain}})
    yield domain, submit_all({name: job(name) for name in NAMES}, "baseline")
    if domain:
        installed.upgrade()


@pytest.mark.parametrize("name", NAMES)
def test_a_rank_runs_in_the_launcher_and_one_in_the_worker(
    running: tuple[str, dict[str, Submitted]], name: str
) -> None:
    domain, jobs = running
    one = jobs[name]
    assert one.verdict(300) == "Succeeded", one.output
    hosts = one.ranks()
    assert hosts[0].startswith(f"{name}-launcher")
    assert hosts[1] == f"{name}-worker-0"
    hostfile = one.namespace.get("ConfigMap", f"{name}-config")["data"]["hostfile"]
    suffix = f".{name}.{one.namespace.name}.svc{f'.{domain}' if domain else ''}"
    assert [line.split()[0].split(":")[0] for line in hostfile.splitlines()] == [
        f"{name}-launcher{suffix}",
        f"{name}-worker-0{suffix}",
    ]
