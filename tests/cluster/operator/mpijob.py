"""MPIJobs as users of our operator write them, by either version. Pure, but for reading kubeflow's examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster.images import image as full_name

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]

KUBEFLOW = Path(__file__).parent / "kubeflow"
_CALLS = {"openmpi4": "mpirun", "openmpi5": "mpirun", "mpich": "mpiexec", "intel": "mpiexec", "horovod": "horovodrun"}
_IMPLEMENTATIONS = {"mpich": "MPICH", "intel": "Intel"}
# All workers share one machine's few cores: ranks are bound to none of them, and let each other run while they wait.
_ONE_MACHINE = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "I_MPI_PIN": "0",
}
_WAITS = ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]


class MpiJob:
    """A small MPIJob, which a namespace that enforces *restricted* takes. Methods change it in place."""

    def __init__(
        self, version: str = "v2beta1", example: str = "openmpi4", *, workers: int = 2, slots: int = 1, name: str = "pi"
    ) -> None:
        """Take one of our example images. It runs `pi`, a rank for each slot."""
        self.version, self.example = version, example
        self.body: Object = {
            "apiVersion": f"kubeflow.org/{version}",
            "kind": "MPIJob",
            "metadata": {"name": name},
            "spec": {
                "slotsPerWorker": slots,
                "mpiReplicaSpecs": {
                    "Launcher": {"replicas": 1, "template": {"spec": _pod(example)}},
                    "Worker": {"replicas": workers, "template": {"spec": _pod(example)}},
                },
            },
        }
        self.worker["containers"][0]["command"] = _WAITS
        self.spec["runPolicy"] = {}
        if version == "v2beta1":
            self.spec["transport"] = "exec"
        if example in _IMPLEMENTATIONS:
            self.spec["mpiImplementation"] = _IMPLEMENTATIONS[example]
        self.run("pi")
        self.environ(_ONE_MACHINE)

    @classmethod
    def of_kubeflow(cls, file: str) -> MpiJob:
        """One of kubeflow's examples, unchanged."""
        job = cls.__new__(cls)
        # Through JSON: what YAML shares by anchors must not change together.
        job.body = json.loads(json.dumps(yaml.safe_load((KUBEFLOW / file).read_text())))
        job.version, job.example = job.body["apiVersion"].partition("/")[2], ""
        return job

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.body["metadata"]["name"])

    @property
    def spec(self) -> Object:
        """The job's spec: changes to it count."""
        spec: Object = self.body["spec"]
        return spec

    @property
    def policy(self) -> Object:
        """The job's runPolicy."""
        policy: Object = self.spec.setdefault("runPolicy", {})
        return policy

    @property
    def launcher(self) -> Object:
        """The launcher pod's spec, as far as the user writes it."""
        return self._template("Launcher")["spec"]  # type: ignore[no-any-return]

    @property
    def worker(self) -> Object:
        """The worker pods' spec, as far as the user writes it."""
        return self._template("Worker")["spec"]  # type: ignore[no-any-return]

    @property
    def main(self) -> Object:
        """The container in the launcher pod where mpirun runs."""
        main: Object = self.launcher["containers"][0]
        return main

    @property
    def workers(self) -> list[str]:
        """The worker pods' names."""
        replicas = self.spec["mpiReplicaSpecs"]["Worker"]["replicas"]
        return [f"{self.name}-worker-{number}" for number in range(replicas)]

    def run(self, *program: str, ranks: int | None = None) -> MpiJob:
        """Let the launcher start this program, one rank for each slot if nothing else is said."""
        count = len(self.workers) * self.spec["slotsPerWorker"] if ranks is None else ranks
        return self.command(_CALLS[self.example], "-n", str(count), *program)

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

    def annotate(self, **values: str) -> MpiJob:
        """Set annotations of ours: `annotate(transport="exec")`."""
        ours = {f"mpi-agents/{name.replace('_', '-')}": value for name, value in values.items()}
        self.body["metadata"].setdefault("annotations", {}).update(ours)
        return self

    def image(self, example: str) -> MpiJob:
        """One of our example images in all containers, and no resources asked for."""
        for pod in (self.launcher, self.worker):
            for container in pod["containers"]:
                container |= {"image": full_name(example), "imagePullPolicy": "IfNotPresent", "resources": {}}
        return self

    def _template(self, role: str) -> Object:
        template: Object = self.spec["mpiReplicaSpecs"][role]["template"]
        return template


def _pod(example: str) -> Object:
    container: Object = {
        "name": "mpi",
        "image": full_name(example),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    context = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    return {"terminationGracePeriodSeconds": 5, "securityContext": context, "containers": [container]}
