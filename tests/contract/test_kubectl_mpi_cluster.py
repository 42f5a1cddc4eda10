"""`kubectl mpi cluster`: a virtual cluster of the real operator. Its DVM needs an image: tests/cluster/virtual."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.waiting import until

if TYPE_CHECKING:
    from user_shell import Shell

    from agents.playground.operated import Operated


def virtual_cluster(name: str, nodes: int = 2, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "mpi", "image": "example/mpi"}]}}
    metadata = {"name": name, "namespace": "default"}
    spec = {"nodes": {"replicas": nodes, "slots": 2, "template": template}, **spec}
    return {"apiVersion": "mpi-agents.io/v1alpha1", "kind": "VirtualCluster", "metadata": metadata, "spec": spec}


def test_a_virtual_cluster(operated: Operated, shell: Shell) -> None:
    assert shell.run("cluster", "list") == ""
    operated.cluster.create(virtual_cluster("vc"))
    until(lambda: json.loads(shell.run("cluster", "status", "vc", "-o", "json"))["summary"]["ready"], "it is ready")
    title, line = shell.run("cluster", "list", "-A").splitlines()
    assert title.split() == ["NAMESPACE", "NAME", "STATE", "NODES", "SLOTS", "DVM", "LOGIN", "AGE"]
    assert line.split()[:-1] == ["default", "vc", "Ready", "2/2", "4", "-", "vc-login"]
    screen = shell.run("cluster", "status", "vc")
    assert screen.startswith("default/vc: Ready\nthe nodes and the login pod are ready\n")
    for pod in ("vc-login", "vc-node-0", "vc-node-1"):
        assert f"\n{pod} " in screen
    assert shell.run("cluster", "login", "vc", "sh", "-c", "echo in $0; exit 0", "it") == "in it\n"
    shell.run("cluster", "login", "vc", "--", "sh", "-c", "exit 3", code=3)
    assert "vc has no DVM: set spec.dvm.enabled" in shell.run("cluster", "prun", "vc", "-n", "2", "pi", code=1)
    assert shell.run("cluster", "delete", "vc") == "virtualcluster.mpi-agents.io/vc deleted\n"
    until(lambda: shell.run("cluster", "list") == "", "it is gone")
    for command in (("status",), ("login",), ("delete",), ("prun", "-n", "1")):
        assert 'no VirtualCluster "vc" in namespace "default"' in shell.run(
            "cluster", command[0], "vc", *command[1:], *(["pi"] if command[1:] else []), code=4
        )


def test_one_that_can_not_start(operated: Operated, shell: Shell) -> None:
    made = virtual_cluster("ill", suspend=True)
    operated.cluster.create(made)
    until(lambda: "Suspended" in shell.run("cluster", "list"), "its state is seen")
    assert "ill's login pod is not ready: " in shell.run("cluster", "login", "ill", code=1)
    shell.run("cluster", "delete", "ill")
    until(lambda: shell.run("cluster", "list") == "", "it is gone")
