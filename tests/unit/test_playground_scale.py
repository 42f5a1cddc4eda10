"""`kubectl scale` in the playground: the subresource `scale` of MPIJobs and virtual clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mpijobs import mpijob

from agents.playground import Cluster

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("version", "path", "where"),
    [
        ("v2beta1", "kubeflow.org/v2beta1/namespaces/default/mpijobs/pi", ("mpiReplicaSpecs", "Worker")),
        ("virtual", "mpi-agents.io/v1alpha1/namespaces/default/virtualclusters/vc", ("nodes",)),
    ],
)
def test_scale_reads_and_writes_the_replicas(tmp_path: Path, version: str, path: str, where: tuple[str, ...]) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        body = mpijob(version)
        del body["metadata"]["uid"]
        cluster.create(body)
        found = cluster.request("GET", f"/apis/{path}/scale")
        assert (found["kind"], found["spec"], found["status"]) == ("Scale", {"replicas": 2}, {"replicas": 0})
        found["spec"]["replicas"] = 5
        assert cluster.request("PUT", f"/apis/{path}/scale", found)["spec"] == {"replicas": 5}
        role = cluster.request("GET", f"/apis/{path}")["spec"]
        for key in where:
            role = role[key]
        assert role["replicas"] == 5
