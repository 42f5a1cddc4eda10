"""The jobs that are submitted: kubeflow's own example for Open MPI, with an image made like the one it names. Pure."""

from __future__ import annotations

from typing import Any

from tests.cluster.operator.mpijob import MpiJob

Object = dict[str, Any]

# mpi-operator as its manifest starts it, and with its limits for requests raised; our two transports.
THEIRS, RAISED, SSH, EXEC = "theirs", "raised", "ssh", "exec"
WAYS = (THEIRS, RAISED, SSH, EXEC)
OURS_BY = "mpi-agents/operator"  # runPolicy.managedBy: two operators work side by side
IMAGE = "mpi-agents-bench-openmpi:1"
_WAITS = ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]
# All workers are on one small machine: ranks are bound to none of its cores, and let each other run while they wait.
_ONE_MACHINE = {"OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_mpi_yield_when_idle": "1"}


def job(way: str, workers: int, name: str) -> Object:
    """An MPIJob that runs `pi`, a rank in each worker. By ssh theirs and ours differ in who looks after them alone."""
    made = MpiJob.of_kubeflow("pi.yaml").environ(_ONE_MACHINE)
    made.body["metadata"]["name"] = name
    for pod in (made.launcher, made.worker):
        pod["containers"][0] |= {"image": IMAGE, "imagePullPolicy": "IfNotPresent", "resources": {}}
    made.policy.pop("ttlSecondsAfterFinished")
    made.main["args"][1] = str(workers)
    made.launcher["terminationGracePeriodSeconds"] = 2  # what comes after Succeeded is waited for, and not measured
    made.spec["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
    if way in (SSH, EXEC):
        made.policy["managedBy"] = OURS_BY
    if way == EXEC:
        made.spec["transport"] = "exec"
        made.worker["containers"][0] |= {"command": _WAITS, "args": []}
    return made.body
