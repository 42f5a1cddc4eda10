"""The resource VirtualCluster: log in, run, scale, lose a node, lose the login pod, and the DVM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster import pods as of
from tests.cluster.faults import until
from tests.cluster.virtual.virtualcluster import VirtualCluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Namespace, Object
    from tests.cluster.virtual.virtualcluster import Running

    Cluster = Callable[[VirtualCluster], Running]

MPIRUN, PRUN = "mpirun --map-by ppr:1:node", "prun --map-by ppr:1:node"
DVM = {"enabled": True}
EXAMPLE = Path(__file__).parents[3] / "examples" / "virtual" / "cluster.yaml"
TRANSPORTS = pytest.mark.parametrize("transport", ["exec", "ssh"])
_RENEWAL_S = 150.0  # for the kubelet to renew a mounted hostfile, if it has not heard of it when it looks
_FILES = "/etc/mpi/hostfile /etc/mpi/hostfile_noslots /etc/mpi/hostfile_ip"
_DAEMONS = "grep -lx prted /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3"


def nodes(many: int) -> list[str]:
    return [f"vc-node-{index}" for index in range(many)]


def until_hostfiles(running: Running, many: int) -> None:
    """Wait in the login container until all hostfiles name these nodes.

    The kubelet renews mounted files every minute and a half, and immediately where a pod's annotations change.
    """
    config = f"{running.job.name}-config"

    def named() -> int:
        return len(running.namespace.get("ConfigMap", config)["data"]["hostfile"].splitlines())

    until("the ConfigMap names them", lambda: named() == many)
    running.namespace.patch("Pod", running.login, {"metadata": {"annotations": {"tests/nodes": str(many)}}})
    text = running.sh(
        f"for file in {_FILES}; do until [ $(wc -l <$file) = {many} ]; do sleep 0.5; done; done; cat {_FILES}",
        _RENEWAL_S,
    )
    ips = [running.namespace.get("Pod", name)["status"]["podIP"] for name in nodes(many)]
    wanted = [*(f"{name} slots=1" for name in nodes(many)), *nodes(many), *(f"{ip} slots=1" for ip in ips)]
    assert text.splitlines() == wanted


def daemons(running: Running, node: str) -> set[str]:
    """The process ids of PRRTE's daemons in a node."""
    return set(running.namespace.exec_in(node, ["/bin/sh", "-c", _DAEMONS], "mpi").output.split())


@TRANSPORTS
def test_ranks_run_and_lost_pods_are_replaced(cluster: Cluster, transport: str) -> None:
    running = cluster(VirtualCluster(transport=transport))
    status = running.until_ready(2)
    assert (status["loginPod"], status["loginReady"], status["replicas"]) == ("vc-login", True, 2)
    assert running.hosts(MPIRUN) == nodes(2)
    assert running.sh("df --output=size /dev/shm").split()[-1] == str(1 << 20)

    running.namespace.replace("vc-node-1")
    running.until_ready(2)
    assert running.hosts(MPIRUN) == nodes(2)
    running.namespace.replace(running.login)
    assert "vc-login was restarted" in running.until_event("LoginReplaced")
    running.until_ready(2)
    assert running.hosts(MPIRUN) == nodes(2)

    # Its user ends it, and this shell with it: the kubelet starts it again.
    running.namespace.exec_in(running.login, ["/bin/sh", "-c", "kill -TERM 1"], "mpi")
    running.namespace.wait(running.login, lambda pod: of.restarts(pod, "mpi") == 1 and of.is_ready(pod), "is back")
    running.until_ready(2)
    assert running.hosts(MPIRUN) == nodes(2)


@pytest.mark.slow
@pytest.mark.timeout(900)  # the kubelet may renew the hostfiles late, twice
def test_scaling_is_in_all_hostfiles(cluster: Cluster, namespace: Namespace, kubectl: Callable[[str], str]) -> None:
    running = cluster(VirtualCluster())
    running.until_ready(2)
    until_hostfiles(running, 2)
    kubectl(f"kubectl -n {namespace.name} scale virtualcluster vc --replicas=3")
    running.until_ready(3)
    until_hostfiles(running, 3)
    assert running.hosts(MPIRUN) == nodes(3)
    kubectl(f"kubectl -n {namespace.name} scale mvc vc --replicas=1")
    namespace.wait_gone("vc-node-1")
    until_hostfiles(running, 1)
    assert running.until_ready(1)["replicas"] == 1
    assert running.hosts(MPIRUN) == nodes(1)


@TRANSPORTS
def test_a_dvm_keeps_its_nodes_until_the_login_pod_is_replaced(
    cluster: Cluster, namespace: Namespace, kubectl: Callable[[str], str], transport: str
) -> None:
    running = cluster(VirtualCluster(transport=transport, dvm=DVM))
    running.until_ready(2)
    assert "DVM ready" in namespace.logs(running.login, "mpi")
    assert running.hosts(PRUN) == nodes(2)
    assert running.hosts(PRUN) == nodes(2)
    first = {node: daemons(running, node) for node in nodes(2)}
    assert all(first.values())

    kubectl(f"kubectl -n {namespace.name} scale virtualcluster vc --replicas=3")
    assert "not in it, or started again since: vc-node-2." in running.until_event("DvmOutdated")
    running.until_ready(3)
    assert running.hosts(PRUN) == nodes(2)
    running.namespace.replace(running.login)
    assert "Its DVM is terminated on all nodes" in running.until_event("LoginReplaced")
    running.until(lambda status: _is_current(status, 3), "has a DVM of 3 nodes")
    assert running.hosts(PRUN) == nodes(3)
    for node in nodes(2):
        assert daemons(running, node)
        assert first[node].isdisjoint(daemons(running, node))


@TRANSPORTS
def test_a_dvm_that_loses_a_node_is_started_again(cluster: Cluster, transport: str) -> None:
    running = cluster(VirtualCluster(transport=transport, dvm=DVM))
    began = running.until_ready(2)["loginStartedAt"]
    running.namespace.replace("vc-node-1")
    running.until(
        lambda status: status.get("loginStartedAt") != began and _is_current(status, 2), "has a new DVM of 2 nodes"
    )
    assert "Its DVM is terminated on all nodes" in running.until_event("LoginReplaced")
    assert running.hosts(PRUN) == nodes(2)


def _is_current(status: Object, many: int) -> bool:
    outdated = any(one["type"] == "DvmOutdated" for one in status["conditions"])
    return status.get("dvmNodes") == many and bool(status.get("loginReady")) and not outdated


@pytest.mark.pod_security("baseline")  # its container says nothing of what restricted wants to hear
def test_the_example_runs_as_it_is(cluster: Cluster) -> None:
    running = cluster(VirtualCluster.of(EXAMPLE))
    running.until_ready(2)
    assert sorted(running.hosts("prun --map-by ppr:2:node")) == sorted(nodes(2) * 2)
    assert running.namespace.warnings("vc") == []


def test_a_dvm_that_does_not_start_says_why(cluster: Cluster) -> None:
    running = cluster(VirtualCluster(nodes=1, dvm={**DVM, "args": ["--hostfile", "/nowhere"]}))

    def says_why(status: Object) -> bool:
        told = {one["type"]: one for one in status.get("conditions") or ()}
        login = told.get("LoginReady", {})
        is_trouble = login.get("reason") == "LoginInTrouble"
        return is_trouble and "container mpi crashes again and again (exit" in login["message"]

    status = running.until(says_why, "says why its DVM does not start")
    assert not status["loginReady"]
