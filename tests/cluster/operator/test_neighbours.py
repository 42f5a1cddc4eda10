"""Beside kubeflow's own operator: neither acts on the other's jobs, also when one of them goes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from kubernetes.dynamic.exceptions import NotFoundError

from tests.cluster.local.daemons import Daemon, until
from tests.cluster.local.places import Places
from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.operators.programs import MPI_OPERATOR_V2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.release import Release
    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

_LEASE = ("Lease", "mpi-operator", "coordination.k8s.io/v1")
_START_S = 60.0


class Theirs:
    """kubeflow's mpi-operator v0.8.2 as a process beside the cluster."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        folder = Places.of().cache / "operators"
        words = (
            "env",
            f"KUBECONFIG={os.environ['KUBECONFIG']}",
            str(MPI_OPERATOR_V2.binary),
            f"-lock-namespace={namespace.name}",
        )
        self._daemon = Daemon("mpi-operator.v2beta1", words, folder, folder)

    def start(self) -> None:
        """Have it lead."""
        MPI_OPERATOR_V2.build(print)
        self._release()
        self._daemon.start()
        until("its lease", self._leads, _START_S, self._daemon)

    def stop(self) -> None:
        """End it, and let its lease go: the next one would wait for its end."""
        self._daemon.stop()
        self._release()

    def _leads(self) -> bool:
        try:
            return bool(self._namespace.get(*_LEASE)["spec"].get("holderIdentity"))
        except NotFoundError:
            return False

    def _release(self) -> None:
        kind, name, version = _LEASE
        self._namespace.delete(kind, name, api_version=version)
        self._namespace.wait_deleted(kind, name, api_version=version)


@pytest.fixture
def theirs(release: Release, others: Namespace) -> Iterator[Theirs]:
    """Their operator, which ours has seen."""
    operator = Theirs(others)
    try:
        operator.start()
        release.until_beside_another(is_so=True)
        yield operator
    finally:
        operator.stop()
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
def test_each_has_its_own_jobs(release: Release, theirs: Theirs, submit: Submit) -> None:
    given = MpiJob("v2beta1", name="given")
    given.policy["managedBy"] = "mpi-agents/operator"
    left, ours = submit(ssh_job("left")), submit(given)
    assert ours.verdict() == "Succeeded", ours.output
    assert writers(ours) == {"mpi-agents"}
    left.namespace.wait("left-worker-0", lambda pod: True, "was made by theirs")
    left.until(lambda status: status.get("conditions"), "is theirs")
    assert "mpi-agents" not in writers(left)
    assert left.objects() == []

    theirs.stop()
    release.until_beside_another(is_so=False)
    uids = {pod["metadata"]["uid"] for pod in left.namespace.pods("training.kubeflow.org/job-name=left")}
    after = submit(MpiJob("v2beta1", name="after"))
    assert after.verdict() == "Succeeded", after.output
    assert "mpi-agents" not in writers(left)
    assert {pod["metadata"]["uid"] for pod in left.namespace.pods("training.kubeflow.org/job-name=left")} >= uids
    assert left.objects() == []
