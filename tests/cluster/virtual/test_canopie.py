"""Virtual clusters of CANOPIE's shape, with our image for theirs: log in, run jobs, start a DVM."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cluster import pods as of
from tests.cluster.virtual import canopie

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Namespace

NODES = ["hpc-cn-0", "hpc-cn-1"]
# MPI's ranks wait for each other. One that ended immediately would keep prterun waiting now and then
# (docs/rshagent.md).
PI = ["--personality", "ompi", "--map-by", "ppr:1:node", "pi"]
DEADLINE_S = 240.0  # on a busy machine


class VirtualCluster:
    """One that people have logged in to: `run` is what they type."""

    def __init__(self, namespace: Namespace, transport: str, podman: str = "") -> None:
        """`podman`: how nodes run it, see `canopie.with_podman`; "" for none."""
        self.namespace, self.transport = namespace, transport
        made = canopie.objects(namespace.name, transport, len(NODES))
        namespace.apply(canopie.with_podman(made, podman) if podman else made)
        pods = namespace.until(lambda pods: any(map(self._is_login, pods.values())), "the login is ready", DEADLINE_S)
        self.login = next(name for name, pod in pods.items() if self._is_login(pod))

    def run(self, *words: str) -> list[str]:
        """Return the sorted lines of its output; it must succeed."""
        done = self.namespace.exec_in(self.login, words, "login")
        assert done.code == 0, done
        return sorted(done.output.splitlines())

    def hosts(self, launcher: str) -> list[str]:
        """Have this launcher start a rank of `pi` on each node; where they were."""
        output = "\n".join(self.run(launcher, *PI))
        assert "pi is approximately 3.14159265" in output
        return sorted(re.findall(r"^rank \d+ of 2 on (\S+)$", output, re.MULTILINE))

    @staticmethod
    def _is_login(pod: of.Pod) -> bool:
        return bool(pod["metadata"]["labels"].get("hpcnode") == "login-node" and of.is_ready(pod))


@pytest.fixture(scope="module", params=["kubectl", "ssh"])
def cluster(request: pytest.FixtureRequest, new_namespace: Callable[[str], Namespace]) -> Iterator[VirtualCluster]:
    """Theirs run as root by ssh, and none says what Pod Security's restricted wants to be told."""
    namespace = new_namespace("baseline")
    yield VirtualCluster(namespace, request.param)
    namespace.delete("Namespace", namespace.name)


def test_the_wait_has_written_both_hostfiles_and_told_its_progress(cluster: VirtualCluster) -> None:
    namespace = cluster.namespace
    addresses = [namespace.get("Pod", name)["status"]["podIP"] for name in NODES]
    assert cluster.run("cat", "/opt/hpc/etc/hostfile") == NODES
    assert cluster.run("cat", "/opt/hpc/etc/hostfile_ip") == sorted(addresses)
    assert "2/2 ready" in namespace.logs(cluster.login, "job-waiter")


def test_prterun_reaches_every_node(cluster: VirtualCluster) -> None:
    assert cluster.hosts("prterun") == NODES


def test_a_dvm_runs_many_jobs(cluster: VirtualCluster) -> None:
    cluster.run("prte", "--daemonize")
    assert [cluster.hosts("prun") for _ in range(3)] == [NODES] * 3
    cluster.run("pterm")


def test_each_node_is_reached_by_hand(cluster: VirtualCluster) -> None:
    if cluster.transport == "ssh":
        assert cluster.run("ssh", f"hpc-cn-0.hpc-cluster.{cluster.namespace.name}", "hostname") == NODES[:1]
    else:
        reached = cluster.run("/opt/k8s/bin/kubexec.sh", "hpc-cn-1", "hostname")
        assert reached == NODES[1:]
        script = f"NAMESPACE={cluster.namespace.name} /opt/k8s/bin/kubexec.sh hpc-cn-0 hostname"
        assert cluster.run("sh", "-c", script) == NODES[:1]
        elsewhere = "NAMESPACE=no-such /opt/k8s/bin/kubexec.sh hpc-cn-0 hostname"
        done = cluster.namespace.exec_in(cluster.login, ["sh", "-c", elsewhere], "login")
        assert done.code != 0
        assert "no-such" in done.errors


def test_k8s_launch_runs_a_command_on_every_node(cluster: VirtualCluster) -> None:
    hostfile = "/opt/hpc/etc/hostfile_ip" if cluster.transport == "ssh" else "/opt/hpc/etc/hostfile"
    launch = ["/opt/k8s/bin/k8s-launch", "-q", "-f", hostfile, "--", "echo $(hostname) $PRTE_ESS_K8SGO_ID"]
    assert cluster.run(*launch) == ["hpc-cn-0 0", "hpc-cn-1 1"]
