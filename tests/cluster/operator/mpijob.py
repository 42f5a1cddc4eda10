"""MPIJobs as users of our operator write them, by either version. Pure, but for reading kubeflow's examples."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.images import image as full_name
from tests.cluster.manifests import ONE_MACHINE, KubeflowJob, Object, object_of

KUBEFLOW = Path(__file__).parent / "kubeflow"
_CALLS = {"openmpi4": "mpirun", "openmpi5": "mpirun", "mpich": "mpiexec", "intel": "mpiexec", "horovod": "horovodrun"}
_IMPLEMENTATIONS = {"mpich": "MPICH", "intel": "Intel"}
_WAITS = ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]


class MpiJob(KubeflowJob):
    """A small MPIJob, which a namespace that enforces *restricted* takes. Methods change it in place."""

    def __init__(
        self, version: str = "v2beta1", example: str = "openmpi4", *, workers: int = 2, slots: int = 1, name: str = "pi"
    ) -> None:
        """Take one of our example images. It runs `pi`, a rank for each slot."""
        self.version, self.example = version, example
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
        self.worker["containers"][0]["command"] = _WAITS
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
        job.body = object_of(KUBEFLOW / file)
        job.version, job.example = job.body["apiVersion"].partition("/")[2], ""
        return job

    @property
    def policy(self) -> Object:
        """The job's runPolicy."""
        policy: Object = self.spec.setdefault("runPolicy", {})
        return policy

    def run(self, *program: str, ranks: int | None = None) -> MpiJob:
        """Let the launcher start this program, one rank for each slot if nothing else is said."""
        count = len(self.workers) * self.spec["slotsPerWorker"] if ranks is None else ranks
        return self.command(_CALLS[self.example], "-n", str(count), *program)

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
