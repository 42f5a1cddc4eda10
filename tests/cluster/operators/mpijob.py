"""A v1 MPIJob as a user of kubeflow's operators has it, and as a test changes it. Pure, except reading the example."""

from __future__ import annotations

import os
from pathlib import Path

from images import catalog
from tests.cluster.images import image as full_name
from tests.cluster.images import under_repository
from tests.cluster.manifests import KubeflowJob, object_of

EXAMPLES = Path(__file__).parent / "kubeflow"

# Delivery images: ours, ours with kubectl in it, and one that does what theirs does.
OURS = full_name("mpi-agents")
OURS_WITH_KUBECTL = full_name("mpi-agents-kubectl")
KUBECTL = os.environ.get("KUBECTL_DELIVERY_IMAGE") or under_repository(
    f"mpi-agents-test-kubectl-delivery:{catalog.version()}"
)
DELIVERY = "kubectl-delivery"  # the init container's name

# All workers share one machine's few cores: ranks let each other run while they wait.
_ONE_MACHINE = {"OMPI_MCA_mpi_yield_when_idle": "1"}


class MpiJob(KubeflowJob):
    """One of kubeflow's examples with our image and program instead of theirs.

    `image` is one of our examples (`openmpi4`, …), which `program` is called in. The rest of the user's command stays.
    """

    def __init__(self, example: str, image: str, *program: str) -> None:
        self.body = object_of(EXAMPLES / f"{example}.yaml")
        command = [*self.main.get("command", []), *self.main.get("args", [])]
        self.command(*command[: command.index("python")], *program)
        for pod in (self.launcher, self.worker):
            pod["terminationGracePeriodSeconds"] = 1  # `sleep` as a worker's first process hears no TERM
            for container in pod["containers"]:
                container["image"] = full_name(image)
                container["resources"] = {}  # theirs are more than a small machine has
        self.environ(_ONE_MACHINE)

    def resize(self, workers: int, slots: int = 1) -> MpiJob:
        """So many worker pods with so many slots, and a rank for each slot."""
        self.spec["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
        self.spec["slotsPerWorker"] = slots
        command = self.main["command"]
        command[next(at for at, word in enumerate(command) if word in ("-np", "-n")) + 1] = str(workers * slots)
        return self

    def run_as(self, uid: int) -> MpiJob:
        """Another user in all pods."""
        for pod in (self.launcher, self.worker):
            pod["securityContext"] = {"runAsUser": uid, "runAsGroup": uid}
        return self
