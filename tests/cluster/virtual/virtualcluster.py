"""VirtualClusters as their users write them, and what can be seen of one that was submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cluster.images import image, under_repository
from tests.cluster.kube import DEADLINE_S
from tests.cluster.manifests import ONE_MACHINE, Object, WrittenJob, object_of, set_environ
from tests.cluster.operator.submitted import Submitted, true_conditions
from tests.cluster.running import ranks_in

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.kube import Namespace

_START_S = 240.0


class VirtualCluster(WrittenJob):
    """A virtual cluster of our example image with Debian's Open MPI 5, which has PRRTE's tools."""

    def __init__(self, *, nodes: int = 2, slots: int = 1, name: str = "vc", **spec: Any) -> None:
        """`spec`: further fields."""
        container: Object = {
            "name": "mpi",
            "image": image("openmpi5-ssh"),
            "securityContext": {  # its sshd has this capability
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            },
        }
        set_environ(container, ONE_MACHINE)
        pod = {
            "terminationGracePeriodSeconds": 5,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        }
        self.body = {
            "apiVersion": "mpi-agents.io/v1alpha1",
            "kind": "VirtualCluster",
            "metadata": {"name": name},
            "spec": {"nodes": {"replicas": nodes, "slots": slots, "template": {"spec": pod}}, **spec},
        }

    @classmethod
    def of(cls, file: Path) -> VirtualCluster:
        """One of our examples, as it is."""
        made = cls()
        made.body = object_of(file)
        for one in (made.main, *made.spec.get("application", {}).get("containers", ())):
            one["image"] = under_repository(one["image"])
        return made

    @property
    def main(self) -> Object:
        """The nodes' container in which the runtime is."""
        main: Object = self.spec["nodes"]["template"]["spec"]["containers"][0]
        return main

    @property
    def workers(self) -> list[str]:
        """The nodes' names."""
        return [f"{self.name}-node-{number}" for number in range(self.spec["nodes"]["replicas"])]


class Running(Submitted):
    """A virtual cluster in a namespace."""

    def __init__(self, namespace: Namespace, cluster: VirtualCluster) -> None:
        super().__init__(namespace, cluster)
        self.login = f"{cluster.name}-login"

    def until_ready(self, nodes: int, deadline_s: float = _START_S) -> Object:
        """Wait until it is Ready with so many nodes; return the status. Raises WaitError."""

        def holds(status: Object) -> bool:
            return "Ready" in true_conditions(status) and status.get("readyNodes") == f"{nodes}/{nodes}"

        return self.until(holds, f"is ready with {nodes} nodes", deadline_s)

    def sh(self, text: str, timeout_s: float = DEADLINE_S) -> str:
        """Run a shell text in the login container; what it prints. It must end with 0."""
        done = self.namespace.exec_in(self.login, ["/bin/sh", "-c", text], "mpi", timeout_s=timeout_s)
        assert done.code == 0, (done.code, done.output, done.errors)
        return done.output

    def hosts(self, launch: str) -> list[str]:
        """The hosts of the ranks of `pi` that this launcher call starts, by rank."""
        return [host for _, host in sorted(ranks_in(self.sh(f"{launch} pi")).items())]
