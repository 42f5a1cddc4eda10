"""The jobs that are submitted. Pure."""

from __future__ import annotations

from typing import Any

from .kwok import node_name

NAMESPACE = "bench"
WORKERS = 4
POD_COUNT = WORKERS + 1  # a job's

Object = dict[str, Any]


def job(number: int, more: Object) -> Object:
    """A v2beta1 MPIJob whose pods are on one of kwok's nodes; `more` go into its spec."""
    container = {"name": "mpi", "image": "example/mpi:1", "command": ["mpirun", "/opt/pi"]}
    limits = {"cpu": "1", "memory": "1Gi"}
    # There is no scheduler: it would be measured, too.
    pod = {"spec": {"nodeName": node_name(number), "containers": [container | {"resources": {"limits": limits}}]}}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": f"job-{number}", "namespace": NAMESPACE},
        "spec": {
            "slotsPerWorker": 1,
            "runPolicy": {"cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": pod},
                "Worker": {"replicas": WORKERS, "template": pod},
            },
        }
        | more,
    }
