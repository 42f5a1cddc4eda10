"""MPIJobs as users of our operator write them, by either version. Pure, except for reading kubeflow's examples."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.images import image as full_name
from tests.cluster.jobs import CALLS
from tests.cluster.manifests import ONE_MACHINE, WAITS, KubeflowJob, Object, object_of

KUBEFLOW = Path(__file__).parent / "kubeflow"
_IMPLEMENTATIONS = {"mpich": "MPICH", "intel": "Intel"}


class MpiJob(KubeflowJob):
    """A small MPIJob, which a namespace that enforces *restricted* takes."""

    def __init__(
        self, version: str = "v2beta1", example: str = "openmpi4", *, workers: int = 2, slots: int = 1, name: str = "pi"
    ) -> None:
        """Take one of our example images. It runs `pi`, a rank for each slot."""
        self.example = example
        self.body = {
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
        self.worker["containers"][0]["command"] = WAITS
        self.spec["runPolicy"] = {}
        if version == "v2beta1":
            self.spec["transport"] = "exec"
        if example in _IMPLEMENTATIONS:
            self.spec["mpiImplementation"] = _IMPLEMENTATIONS[example]
        self.run("pi")
        self.environ(ONE_MACHINE)

    @classmethod
    def of_kubeflow(cls, file: str) -> MpiJob:
        """One of kubeflow's examples, unchanged."""
        job = cls.__new__(cls)
        job.body, job.example = object_of(KUBEFLOW / file), ""
        return job

    @property
    def policy(self) -> Object:
        """The job's runPolicy."""
        policy: Object = self.spec.setdefault("runPolicy", {})
        return policy

    def run(self, *program: str, ranks: int | None = None) -> MpiJob:
        """Let the launcher start this program, one rank for each slot if nothing else is said."""
        count = len(self.workers) * self.spec["slotsPerWorker"] if ranks is None else ranks
        return self.command(CALLS[self.example][0], "-n", str(count), *program)

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


def _pod(example: str) -> Object:
    container: Object = {
        "name": "mpi",
        "image": full_name(example),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    context = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    return {"terminationGracePeriodSeconds": 5, "securityContext": context, "containers": [container]}
