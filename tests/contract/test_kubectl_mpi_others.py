"""`kubectl mpi` on jobs of kubeflow's own operators, as these leave their objects, and where no operator is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from user_shell import Shell, cells, manifest

from tests.waiting import until

if TYPE_CHECKING:
    from agents.playground.cluster import Cluster


_TRAINING = "training.kubeflow.org"
# By operator: the API version, and the labels that it puts on a pod of a role.
_OTHERS: dict[str, tuple[str, Any]] = {
    "mpi-operator v2beta1": (
        "v2beta1",
        lambda job, role: {
            f"{_TRAINING}/operator-name": "mpi-operator",
            f"{_TRAINING}/job-name": job,
            f"{_TRAINING}/job-role": role,
        },
    ),
    "training-operator v1": (
        "v1",
        lambda job, role: {
            f"{_TRAINING}/operator-name": "mpijob-controller",
            f"{_TRAINING}/job-name": job,
            f"{_TRAINING}/replica-type": role,
        },
    ),
    "mpi-operator v1": (
        "v1",
        lambda job, role: {"group-name": "kubeflow.org", "mpi-job-name": job, "mpi-job-role": role},
    ),
}


def launcher_of(cluster: Cluster, job: str) -> str:
    """The name of a job's launcher pod, "" while there is none."""
    names = [pod["metadata"]["name"] for pod in cluster.request("GET", "/api/v1/namespaces/default/pods")["items"]]
    return next((name for name in names if name.startswith(f"{job}-launcher")), "")


@pytest.mark.parametrize("operator", _OTHERS)
def test_jobs_of_kubeflows_own_operators(foreign: Cluster, operator: str) -> None:
    version, labels = _OTHERS[operator]
    name = re.sub(r"\W+", "-", operator)
    shell = Shell(foreign.kubeconfig())
    job = yaml.safe_load(manifest(name, "true", version=version))
    del job["metadata"]["annotations"]
    made = foreign.create(job)
    owner = {"apiVersion": made["apiVersion"], "kind": "MPIJob", "name": name, "uid": made["metadata"]["uid"]}
    spec = {"containers": [{"name": "mpi", "image": "x"}]}
    pods = [(f"{name}-worker-{index}", "worker") for index in range(2)]
    if version == "v2beta1":  # its launcher is a batch Job
        metadata = {"name": f"{name}-launcher", "ownerReferences": [{**owner, "controller": True}]}
        template = {"metadata": {"labels": labels(name, "launcher")}, "spec": {**spec, "restartPolicy": "Never"}}
        foreign.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}})
    else:
        pods.append((f"{name}-launcher", "launcher"))
    for pod, role in pods:
        metadata = {"name": pod, "labels": labels(name, role), "ownerReferences": [{**owner, "controller": True}]}
        foreign.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    launcher = until(lambda: launcher_of(foreign, name), "the launcher's pod is there")
    foreign.set_state(f"{name}-worker-0", "ready")
    foreign.set_state(f"{name}-worker-1", "unschedulable")
    foreign.set_state(launcher, "ready")
    found = shell.run("why", name)
    assert f"1/2 ready · {name}-worker-1 unschedulable" in found
    assert "Ask for less" in found
    assert launcher in shell.run("status", name)
    if operator != "mpi-operator v1":  # its pods have no label that all jobs' pods have
        assert cells(shell.run("list"), name)[1:4] == ["Starting", "Unschedulable", "1/2"]


def test_a_cluster_without_any_operator(foreign: Cluster) -> None:
    shell = Shell(foreign.kubeconfig())
    shell.run("submit", "-f", "-", stdin=manifest("alone", "true"))
    what = r"(alone was just created\.|No operator has taken up alone in .*)"  # for ten seconds, and then
    assert re.match(what, shell.run("why", "alone"))
    waiting = shell.run("wait", "alone", "--timeout", "1", code=124)
    assert re.fullmatch(rf"(\[alone\] {what}\n)+error: not within 1 s: {what}\n", waiting)
