"""`kubectl mpi cluster` with a real DVM: status, login, and prun from outside."""

from __future__ import annotations

import os
import signal
import subprocess
from subprocess import PIPE
from typing import TYPE_CHECKING

from tests.cluster.faults import until
from tests.cluster.kubectl_mpi import command, kubectl_mpi
from tests.cluster.virtual.virtualcluster import VirtualCluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.virtual.virtualcluster import Running


def test_a_virtual_cluster_from_outside(cluster: Callable[[VirtualCluster], Running]) -> None:
    running = cluster(VirtualCluster(slots=2, dvm={"enabled": True}))
    running.until_ready(2)
    namespace = running.namespace
    assert kubectl_mpi(namespace, "cluster", "list").splitlines()[1].split()[:-1] == [
        *("vc", "Ready", "2/2", "4", "2", "nodes", "vc-login")
    ]
    screen = kubectl_mpi(namespace, "cluster", "status", "vc")
    assert "2/2 nodes ready, 4 slots, DVM: 2 nodes, transport exec" in screen
    assert kubectl_mpi(namespace, "cluster", "login", "vc", "--", "hostname") == "vc-login\n"
    said = kubectl_mpi(namespace, "cluster", "prun", "vc", "-n", "4", "--", "--map-by", "ppr:2:node", "pi")
    assert "pi is approximately 3.14159265" in said
    assert said.count("on vc-node-1") == 2
    # A rank that ended immediately would keep prun waiting now and then (docs/rshagent.md).
    kubectl_mpi(namespace, "cluster", "prun", "vc", "-n", "1", "sh", "-c", "pi >/dev/null || exit 99; exit 7", code=7)
    _check_that_interrupting_ends_it(running)
    assert "pi is approx" in kubectl_mpi(namespace, "cluster", "prun", "vc", "-n", "4", "pi")
    assert kubectl_mpi(namespace, "cluster", "delete", "vc") == "virtualcluster.mpi-agents.io/vc deleted\n"
    namespace.wait_deleted("Pod", "vc-login")


def _check_that_interrupting_ends_it(running: Running) -> None:
    """Press Ctrl-C while ranks run."""
    words = command(running.namespace, "cluster", "prun", "vc", "-n", "4", "sh", "-c", "echo runs; exec sleep 4711")
    with subprocess.Popen(words, stdout=PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(4)] == ["runs\n"] * 4
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 130
    nodes = ("vc-node-0", "vc-node-1")
    count = ["sh", "-c", "ps -eo args= | grep -c '^sleep 4711' || :"]
    until("no rank is left", lambda: all(running.namespace.exec_in(one, count, "mpi").output == "0\n" for one in nodes))
