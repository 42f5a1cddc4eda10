"""A job of `examples/exec`, as a test changes it before it is applied. Pure, except for reading the example."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.images import under_repository
from tests.cluster.manifests import ONE_MACHINE, Launching, Object, objects_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXAMPLES = Path(__file__).parents[2] / "examples" / "exec"

# How each example's launcher is called; its program follows.
CALLS: Mapping[str, Sequence[str]] = {
    "openmpi4": ("mpirun", "-n", "{ranks}"),
    "openmpi5": ("mpirun", "-n", "{ranks}"),
    "mpich": ("mpiexec", "-n", "{ranks}"),
    "intel": ("mpiexec", "-n", "{ranks}"),
    "horovod": ("horovodrun", "--gloo", "-np", "{ranks}", "--hostfile", "/etc/mpi/hostfile"),
}
_RUN_AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
_UNPRIVILEGED: Object = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


class Job(Launching):
    """A launcher pod, its workers, and what they need; `objects` are what is applied."""

    def __init__(self, example: str, *, workers: int = 2, slots: int = 1) -> None:
        """Take an example, with so many workers, and as little CPU and memory asked for as a small machine has."""
        self.read(example)
        self.resize(workers, slots)
        self.environ(ONE_MACHINE)
        for pod in (self.launcher, self.worker):
            pod["terminationGracePeriodSeconds"] = 5
            for container in pod["containers"]:
                container["resources"] = {}

    @classmethod
    def as_it_is(cls, example: str) -> Job:
        """An example without any change except where its images are."""
        job = cls.__new__(cls)
        job.read(example)
        return job

    def read(self, example: str) -> None:
        """Take an example's objects, with the images of this run."""
        self.example = example
        self.objects = objects_of(EXAMPLES / f"{example}.yaml")
        self.name = str(self.of("StatefulSet")["metadata"]["name"]).removesuffix("-worker")
        self.launcher_name = str(self.of("Pod")["metadata"]["name"])
        for pod in (self.launcher, self.worker):
            for container in (*pod.get("initContainers", ()), *pod["containers"]):
                container["image"] = under_repository(container["image"])

    def of(self, kind: str) -> Object:
        """The job's object of this kind, as it is now: changes to it count."""
        return next(one for one in self.objects if one["kind"] == kind)

    @property
    def launcher(self) -> Object:
        """The launcher pod's spec."""
        spec: Object = self.of("Pod")["spec"]
        return spec

    @property
    def worker(self) -> Object:
        """The worker pods' spec."""
        spec: Object = self.of("StatefulSet")["spec"]["template"]["spec"]
        return spec

    @property
    def main(self) -> Object:
        main: Object = self.launcher["containers"][0]
        return main

    def init(self, name: str) -> Object:
        """The launcher pod's `hub` or `delivery`."""
        found: Object = next(one for one in self.launcher["initContainers"] if one["name"] == name)
        return found

    @property
    def workers(self) -> list[str]:
        """The worker pods' names."""
        return [f"{self.name}-worker-{number}" for number in range(self.of("StatefulSet")["spec"]["replicas"])]

    def resize(self, workers: int, slots: int = 1) -> Job:
        """So many worker pods with so many slots: replicas, hostfile, and the names in the Role."""
        self.of("StatefulSet")["spec"]["replicas"] = workers
        form = "{}:{}" if self.example in ("mpich", "intel") else "{} slots={}"
        self.of("ConfigMap")["data"]["hostfile"] = "".join(form.format(name, slots) + "\n" for name in self.workers)
        for rule in self.of("Role")["rules"]:
            if "resourceNames" in rule:
                rule["resourceNames"] = self.workers
        if self.example == "intel":
            self.environ({"I_MPI_PERHOST": str(slots)})
        return self

    def run(self, *program: str, ranks: int | None = None) -> Job:
        """Let the launcher start this program, one rank on each worker if nothing else is said."""
        count = str(len(self.workers) if ranks is None else ranks)
        call = [word.format(ranks=count) for word in CALLS[self.example]]
        return self.command(*call, *program)

    def run_as(self, uid: int, *, read_only: bool = False) -> Job:
        """Another user in the user's containers; with a root file system that is read-only, and a /tmp, if told so.

        As root they drop nothing, as a user's image does that knows nothing of all this; then the namespace must be
        a baseline one. Hub and delivery stay what they are.
        """
        for pod in (self.launcher, self.worker):
            if uid == 0:
                pod["securityContext"] = {}
            else:
                pod["securityContext"] |= {"runAsNonRoot": True, "runAsUser": uid, "runAsGroup": uid}
            for container in pod["containers"]:
                container["securityContext"] = {} if uid == 0 else dict(_UNPRIVILEGED)
                if read_only:
                    container["securityContext"]["readOnlyRootFilesystem"] = True
                    container.setdefault("volumeMounts", []).append({"name": "tmp", "mountPath": "/tmp"})
            if read_only:
                pod.setdefault("volumes", []).append({"name": "tmp", "emptyDir": {}})
        return self.environ(_RUN_AS_ROOT if uid == 0 else {})
