"""Where it is measured: a job of the Open MPI 4.1 example whose launcher has both agents, and waits to be told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.clusters import KUBEXEC
from tests.benchmarks.measure import BenchmarkError
from tests.cluster.images import image
from tests.cluster.jobs import Job

from .node import Container

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.cluster.kube import Namespace

AGENTS = {"kubectl": "/etc/mpi/kubectl.sh", "hub": "/etc/mpi/kubexec.sh"}
_FOLDER = "/opt/kube/python"
_PYTHON = (f"{_FOLDER}/ld.so", "--library-path", f"{_FOLDER}/lib", f"{_FOLDER}/bin/python3", "-I", "-S", "-B")
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_START_S, _RUN_S = 600.0, 180.0


class Stage:
    """A launcher pod that waits, and as many workers as the largest size."""

    def __init__(self, namespace: Namespace, sizes: Sequence[int]) -> None:
        self._namespace, self._job = namespace, _job(sizes)
        self._runs = 0

    def start(self) -> None:
        """Apply the job, and wait until its launcher's container runs. Raises WaitError, BenchmarkError."""
        self._namespace.apply(self._job.objects)
        launcher = self._job.launcher_name
        pod = self._namespace.wait_ready([launcher], _START_S)[launcher]["status"]
        statuses = {one["name"]: one for one in (*pod["initContainerStatuses"], *pod["containerStatuses"])}
        self.main, self.hub = Container(statuses[self._job.main["name"]]), Container(statuses["hub"])

    def mpirun(self, peer: str, size: int) -> dict[str, Any]:
        """`mpirun -n SIZE hostname` with a peer's agent: what it took. Raises BenchmarkError."""
        agent = f"OMPI_MCA_plm_rsh_agent={AGENTS[peer]}"
        hosts = f"OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile-{size}"
        found = self._inside("run", self._instance(), agent, hosts, "mpirun", "-n", str(size), "hostname")
        if found["code"] != 0 or found["lines"] != size:
            said = (found["errors"].strip().splitlines() or ["without a word"])[-1]
            raise BenchmarkError(f"{peer}: {found['lines']} of {size} ranks, exit code {found['code']}: {said}")
        return found

    def burst(self, peer: str, size: int) -> dict[str, Any]:
        """`true` in as many pods at once: what it took. Raises BenchmarkError."""
        found = self._inside("burst", peer, self._instance(), *self._job.workers[:size])
        if found["failed"]:
            raise BenchmarkError(f"{peer}: {len(found['failed'])} of {size} execs failed")
        return found

    def kubectl_version(self) -> str:
        """The version of the kubectl that is measured."""
        told = self._read("/opt/kube/kubectl", "version", "--client", "--output=json")
        return str(told["clientVersion"]["gitVersion"]).removeprefix("v")

    def _instance(self) -> str:
        """Make each run a launcher's first one: workers are searched for what an earlier instance has left."""
        self._runs += 1
        return f"MPI_AGENT_INSTANCE=bench-{self._runs}"

    def _inside(self, *words: str) -> dict[str, Any]:
        return self._read(*_PYTHON, "/etc/mpi/inside.py", *words)

    def _read(self, *argv: str) -> dict[str, Any]:
        """What a program in the launcher's container prints as JSON. Raises BenchmarkError, WaitError."""
        done = self._namespace.exec_in(self._job.launcher_name, argv, str(self._job.main["name"]), timeout_s=_RUN_S)
        if done.code != 0:
            said = (done.errors.strip().splitlines() or ["without a word"])[-1]
            raise BenchmarkError(f"{' '.join(argv[-4:])} in the launcher ended with {done.code}: {said}")
        return dict(json.loads(done.output))


def _job(sizes: Sequence[int]) -> Job:
    job = Job("openmpi4", workers=max(sizes)).command("sleep", "infinity")
    data = job.of("ConfigMap")["data"]
    data["kubectl.sh"] = KUBEXEC
    data["inside.py"] = Path(__file__).with_name("inside.py").read_text()
    for size in sizes:
        data[f"hostfile-{size}"] = "".join(f"{worker} slots=1\n" for worker in job.workers[:size])
    delivery = job.init("delivery")
    delivery["image"] = image("mpi-agents-kubectl")
    delivery["command"] = ["mpi-delivery", "client", "direct", "kubectl"]
    # kubectl needs the token where it runs, which is what our side does without.
    job.main["volumeMounts"].append({"name": "token", "mountPath": _ACCOUNT, "readOnly": True})
    return job
