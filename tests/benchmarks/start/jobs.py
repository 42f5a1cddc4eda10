"""The jobs that are submitted: kubeflow's own example for Open MPI, with an image made like the one it names. Pure."""

from __future__ import annotations

from tests.cluster.manifests import ONE_MACHINE, WAITS
from tests.cluster.operator.mpijob import MpiJob

# mpi-operator as its manifest starts it, and with its limits for requests raised; our two transports.
THEIRS, RAISED, SSH, EXEC = "theirs", "raised", "ssh", "exec"
WAYS = (THEIRS, RAISED, SSH, EXEC)
OURS_BY = "mpi-agents/operator"  # runPolicy.managedBy: two operators work side by side
IMAGE = "mpi-agents-bench-openmpi:1"


def job(way: str, workers: int, name: str) -> MpiJob:
    """An MPIJob that runs `pi`, a rank in each worker. By ssh theirs and ours differ in who looks after them alone."""
    made = MpiJob.of_kubeflow("pi.yaml").environ(ONE_MACHINE)
    made.body["metadata"]["name"] = name
    for pod in (made.launcher, made.worker):
        pod["containers"][0] |= {"image": IMAGE, "imagePullPolicy": "IfNotPresent", "resources": {}}
    made.policy.pop("ttlSecondsAfterFinished")
    made.main["args"][1] = str(workers)
    made.launcher["terminationGracePeriodSeconds"] = 2  # the time after Succeeded is not measured
    made.spec["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
    if way in (SSH, EXEC):
        made.policy["managedBy"] = OURS_BY
    if way == EXEC:
        made.spec["transport"] = "exec"
        made.worker["containers"][0] |= {"command": WAITS, "args": []}
    return made
