"""Beside kubeflow's own operator: neither acts on the other's jobs, also when one of them goes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.operators.mpi_operator import MpiOperatorV2
from tests.cluster.operators.mpijob import OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.release import Release
    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]


@pytest.fixture
def theirs(release: Release, others: Namespace) -> Iterator[MpiOperatorV2]:
    """kubeflow's mpi-operator v0.8.2 as a process beside the cluster, which ours has seen."""
    MpiOperatorV2.program.build(print)
    operator = MpiOperatorV2(release.api, os.environ["KUBECONFIG"], others.name)
    try:
        operator.use(OURS)
        release.until_beside_another(is_so=True)
        yield operator
    finally:
        operator.pause()
        release.until_beside_another(is_so=False)


def writers(running: Submitted) -> set[str]:
    """Who has written the job's status."""
    fields = running.resource()["metadata"]["managedFields"]
    return {str(one["manager"]) for one in fields if one.get("subresource") == "status"}


def ssh_job(name: str) -> MpiJob:
    """A job that theirs can make pods of, though they will not launch anything."""
    job = MpiJob("v2beta1", name=name)
    job.spec.pop("transport")
    return job


@pytest.mark.slow
@pytest.mark.pod_security("baseline")
def test_each_has_its_own_jobs(release: Release, theirs: MpiOperatorV2, submit: Submit) -> None:
    given = MpiJob("v2beta1", name="given")
    given.policy["managedBy"] = "mpi-agents/operator"
    left, ours = submit(ssh_job("left")), submit(given)
    assert ours.verdict() == "Succeeded", ours.output
    assert writers(ours) == {"mpi-agents"}
    left.namespace.wait("left-worker-0", lambda pod: True, "was made by theirs")
    left.until(lambda status: status.get("conditions"), "is theirs")
    assert "mpi-agents" not in writers(left)
    assert left.objects() == []

    theirs.pause()
    release.until_beside_another(is_so=False)
    uids = {pod["metadata"]["uid"] for pod in left.namespace.pods("training.kubeflow.org/job-name=left")}
    after = submit(MpiJob("v2beta1", name="after"))
    assert after.verdict() == "Succeeded", after.output
    assert "mpi-agents" not in writers(left)
    assert {pod["metadata"]["uid"] for pod in left.namespace.pods("training.kubeflow.org/job-name=left")} >= uids
    assert left.objects() == []
