"""A v1 MPIJob as a user of kubeflow's operators has it, and as a test changes it. Pure, but for reading the example."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from images import catalog
from tests.cluster.images import image as full_name
from tests.cluster.images import under_repository

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]

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


class MpiJob:
    """One of kubeflow's examples with our image and program instead of theirs. Methods change it in place.

    `image` is one of our examples (`openmpi4`, …), which `program` is called in. The rest of the user's command stays.
    """

    def __init__(self, example: str, image: str, *program: str) -> None:
        # Through JSON: what YAML shares by anchors must not change together.
        self.body: Object = json.loads(json.dumps(yaml.safe_load((EXAMPLES / f"{example}.yaml").read_text())))
        self.name = str(self.body["metadata"]["name"])
        self.launcher_name = f"{self.name}-launcher"
        self.example = example
        command = [*self.main.get("command", []), *self.main.get("args", [])]
        self.command(*command[: command.index("python")], *program)
        for pod in (self.launcher, self.worker):
            pod["terminationGracePeriodSeconds"] = 1  # `sleep` as a worker's first process hears no TERM
            for container in pod["containers"]:
                container["image"] = full_name(image)
                container["resources"] = {}  # theirs are more than a small machine has
        self.environ(_ONE_MACHINE)

    @property
    def objects(self) -> list[Object]:
        """What is applied."""
        return [self.body]

    @property
    def launcher(self) -> Object:
        """The launcher pod's spec, as far as the user writes it."""
        return self._pod("Launcher")

    @property
    def worker(self) -> Object:
        """The worker pods' spec, as far as the user writes it."""
        return self._pod("Worker")

    @property
    def main(self) -> Object:
        """The container in the launcher pod where mpirun runs."""
        container: Object = self.launcher["containers"][0]
        return container

    @property
    def workers(self) -> list[str]:
        """The worker pods' names."""
        replicas = self.body["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
        return [f"{self.name}-worker-{number}" for number in range(replicas)]

    def resize(self, workers: int, slots: int = 1) -> MpiJob:
        """So many worker pods with so many slots, and a rank for each slot."""
        self.body["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
        self.body["spec"]["slotsPerWorker"] = slots
        command = self.main["command"]
        command[next(at for at, word in enumerate(command) if word in ("-np", "-n")) + 1] = str(workers * slots)
        return self

    def command(self, *words: str) -> MpiJob:
        """Let the launcher run this."""
        self.main["command"] = [*words]
        self.main.pop("args", None)
        return self

    def environ(self, values: Mapping[str, str]) -> MpiJob:
        """Set variables of the launcher's container."""
        kept = [one for one in self.main.get("env", []) if one["name"] not in values]
        self.main["env"] = kept + [{"name": name, "value": value} for name, value in values.items()]
        return self

    def run_as(self, uid: int) -> MpiJob:
        """Another user in all pods."""
        for pod in (self.launcher, self.worker):
            pod["securityContext"] = {"runAsUser": uid, "runAsGroup": uid}
        return self

    def _pod(self, role: str) -> Object:
        spec: Object = self.body["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]
        return spec
