"""The smooth way of a job through a simulated cluster: what it costs, and what is said of it."""

from __future__ import annotations

import pytest
from mpijobs import mpijob
from simulated_api import SimulatedApi
from simulated_cluster import Cluster
from stepped_operator import SteppedOperator


def run_smoothly(api: SimulatedApi, cluster: Cluster, operator: SteppedOperator) -> None:
    """From the job's creation to 5 seconds after all its pods run, when its launcher ends with 0."""

    def settle() -> None:
        cluster.run_jobs()
        operator.deliver_all()
        while operator.has_cause():
            operator.step()
            operator.deliver_all()
        cluster.run_jobs()

    settle()
    for pod in (*cluster.pods("worker", "Pending"), *cluster.pods("launcher", "Pending")):  # each event by itself
        cluster.run(pod)
        settle()
    api.now += 5
    for pod in cluster.pods("launcher"):
        cluster.end(pod, 0)
    settle()
    cluster.finish_deletions()
    settle()


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
@pytest.mark.parametrize("policy", ["Running", "None"])
def test_a_job_of_four_workers_takes_18_requests(version: str, policy: str) -> None:
    changes = {
        "apiVersion": "kubeflow.org/v2beta1",
        "spec/dialect": version,
        "spec/transport": "exec",
        "spec/runPolicy": {"cleanPodPolicy": policy},
        "spec/mpiReplicaSpecs/Worker/replicas": 4,
    }
    api = SimulatedApi()
    cluster = Cluster(api)
    api.add("mpijobs", mpijob(version, changes))
    operator = SteppedOperator(api)

    run_smoothly(api, cluster, operator)
    verbs = [verb for verb, _ in api.requests]
    assert verbs.count("create") == 10
    assert verbs.count("update") == 3
    assert verbs.count("deletecollection") == (policy == "Running")
    assert verbs.count("patch") == 1  # the launcher's rights end with the job
    assert len(verbs) + len(operator.events) == 17 + (policy == "Running")
    assert operator.events == [
        ("Normal", "MPIJobCreated", "MPIJob default/pi is created."),
        ("Normal", "MPIJobRunning", "MPIJob default/pi is running"),
        ("Normal", "MPIJobSucceeded", "MPIJob default/pi successfully completed."),
    ]
    assert len(cluster.pods("worker")) == (0 if policy == "Running" else 4)
    api.now += 3600
    assert not operator.has_cause()
