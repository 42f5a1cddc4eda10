"""Many large jobs of one tenant, within the memory that the chart gives the operator; and its restart in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import pods as of
from tests.cluster.faults import container
from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.operator.submitted import Submitted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.release import Release

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("local")]

JOBS, PLACED = 60, 20  # the others are suspended: etcd has room for so much, each version of each job
ENTRIES = 20_000
SMALL_S = 60.0
LARGE_S = 240.0


def large(number: int) -> MpiJob:
    """A job of 575 kB, whose pods no node takes."""
    job = MpiJob("v1", workers=1, name=f"large-{number}")
    job.worker["containers"][0]["env"] = [{"name": f"V{index:05}", "value": "x"} for index in range(ENTRIES)]
    for pod in (job.launcher, job.worker):
        pod["nodeSelector"] = {"mpi-agents/no-such": "node"}
    job.policy["suspend"] = number >= PLACED
    return job


def restarts(release: Release) -> int:
    (pod,) = release.pods()
    return of.restarts(pod, "operator")


def kill(release: Release) -> None:
    """Kill the operator's container, and wait until the kubelet has started it again."""
    before = restarts(release)
    (pod,) = release.pods()
    name = str(pod["metadata"]["name"])
    container(release.namespace, name, "operator").kill()
    release.namespace.wait(
        name, lambda pod: of.restarts(pod, "operator") > before and of.is_ready(pod), "it runs again"
    )


@pytest.mark.release  # with each commit: tests/contract/test_operator_load.py
@pytest.mark.timeout(900)
def test_sixty_large_jobs_and_a_restart_hold_up_no_small_job(
    release: Release, namespace: Namespace, new_namespace: Callable[[str], Namespace]
) -> None:
    other, before = new_namespace("restricted"), restarts(release)
    for number in range(JOBS):
        Submitted(namespace, large(number)).start()
    for turn in ("first", "restarted"):
        if turn == "restarted":
            kill(release)
        Submitted(other, MpiJob("v1", name=turn)).start()
        made = {f"{turn}-{role}" for role in ("launcher", "worker-0", "worker-1")}
        other.until(made.issubset, "the small job's pods are made", SMALL_S)
    wanted = {f"large-{number}-{role}" for number in range(PLACED) for role in ("launcher", "worker-0")}
    namespace.until(wanted.issubset, "the large jobs' pods are made", LARGE_S)
    assert restarts(release) == before + 1
    other.delete("Namespace", other.name)


def test_a_container_that_is_started_again_waits_for_no_lease(
    release: Release, submit: Callable[[MpiJob], Submitted]
) -> None:
    holder = release.leader()
    kill(release)
    assert release.leader() == holder
    assert submit(MpiJob("v1")).verdict() == "Succeeded"
    assert "standby:" not in release.log()
