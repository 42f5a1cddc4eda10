"""The resource VirtualCluster: log in, run, scale, lose a node, lose the login pod, and the DVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster import pods as of
from tests.cluster.virtual.virtualcluster import VirtualCluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Namespace
    from tests.cluster.virtual.virtualcluster import Running

    Cluster = Callable[[VirtualCluster], Running]

MPIRUN = "mpirun --map-by ppr:1:node"
_RENEWAL_S = 150.0  # for the kubelet to renew a mounted hostfile
_FILES = "/etc/mpi/hostfile /etc/mpi/hostfile_noslots /etc/mpi/hostfile_ip"


def nodes(many: int) -> list[str]:
    return [f"vc-node-{index}" for index in range(many)]


def until_hostfile(running: Running, many: int) -> None:
    """Wait in the login container until all hostfiles name so many nodes."""
    wait = f"for file in {_FILES}; do until [ $(wc -l <$file) = {many} ]; do sleep 0.5; done; done; cat {_FILES}"
    text = running.sh(wait, _RENEWAL_S)
    ips = [running.namespace.get("Pod", name)["status"]["podIP"] for name in nodes(many)]
    wanted = [*(f"{name} slots=1" for name in nodes(many)), *nodes(many), *(f"{ip} slots=1" for ip in ips)]
    assert text.split("\n")[:-1] == wanted


def test_ranks_run_and_nodes_come_and_go(cluster: Cluster, namespace: Namespace, kubectl: Callable[[str], str]) -> None:
    running = cluster(VirtualCluster())
    status = running.until_ready(2)
    assert (status["loginPod"], status["loginReady"], status["replicas"]) == ("vc-login", True, 2)
    until_hostfile(running, 2)
    assert running.hosts(MPIRUN) == nodes(2)
    assert "1.0G" in running.sh("df -h /dev/shm")

    kubectl(f"kubectl -n {namespace.name} scale virtualcluster vc --replicas=3")
    running.until_ready(3)
    until_hostfile(running, 3)
    assert running.hosts(MPIRUN) == nodes(3)
    kubectl(f"kubectl -n {namespace.name} scale mvc vc --replicas=1")
    running.until_ready(1)
    until_hostfile(running, 1)
    assert running.hosts(MPIRUN) == nodes(1)

    uid = namespace.get("Pod", "vc-node-0")["metadata"]["uid"]
    namespace.delete("Pod", "vc-node-0", grace_s=1)
    namespace.wait("vc-node-0", lambda pod: pod["metadata"]["uid"] != uid and of.is_ready(pod), "is ready again")
    running.until_ready(1)
    assert running.hosts(MPIRUN) == nodes(1)

    namespace.delete("Pod", running.login, grace_s=1)
    assert "vc-login was started again" in running.until_event("LoginReplaced")
    running.until_ready(1)
    assert running.hosts(MPIRUN) == nodes(1)
