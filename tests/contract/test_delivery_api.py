"""Delivery as its own process: an API server that refuses, breaks off, is away or is not known."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from delivery_exec import Launcher, cluster, launcher, shared

from agents.playground.cluster import Cluster
from delivery import exits
from tests.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["cluster", "launcher", "shared"]


def test_forbidden_names_the_verb_and_the_rule(launcher: Launcher) -> None:
    launcher.workers(1)
    token = launcher.cluster.token("get pods")
    assert launcher.run(environ=launcher.cluster.environ(token)) == exits.API_REFUSED
    assert "cannot list" in launcher.last_line
    assert '{apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"]}' in launcher.last_line
    assert launcher.last_line == f"mpi-delivery: {launcher.log.read_text()}"


def test_own_pod_need_not_be_readable(launcher: Launcher) -> None:
    launcher.workers(2)
    token = launcher.cluster.token("list pods", "watch pods")
    assert launcher.run(environ=launcher.cluster.environ(token)) == exits.READY
    assert "waiting for 2 workers, among the pods of namespace default\n" in launcher.told


PASSING: dict[str, dict[str, Any]] = {
    "forbidden until the Role is known": {"kind": "http", "on": "list", "status": 403, "times": 2},
    "token not known yet": {"kind": "http", "on": "list", "status": 401, "times": 2},
    "server error": {"kind": "http", "on": "list", "status": 500, "times": 3},
    "too many requests": {"kind": "http", "on": "list", "status": 429, "times": 1, "retry_after_s": 1},
    "list is dropped": {"kind": "drop-before-upgrade", "on": "list", "times": 2},
    "watch is dropped": {"kind": "drop-before-upgrade", "on": "watch", "times": 2},
    "watch is refused": {"kind": "http", "on": "watch", "status": 500, "times": 2},
    "watch is too old": {"kind": "gone", "on": "watch", "times": 2},
    "own pod can't be read now": {"kind": "http", "on": "get", "status": 500, "times": 2},
    "own pod is dropped": {"kind": "drop-before-upgrade", "on": "get", "times": 1},
}


@pytest.mark.parametrize("fault", PASSING)
def test_api_trouble_that_passes_is_told_and_survived(launcher: Launcher, fault: str) -> None:
    (only,) = launcher.workers(1, state="pulling")
    launcher.cluster.fault(**PASSING[fault])
    launcher.start()
    launcher.until_told("trying again")
    launcher.cluster.set_state(only, "ready")
    assert launcher.end() == exits.READY


@pytest.mark.parametrize("what", ["cut", "end", "expire"])
def test_watch_that_breaks_is_taken_up_again(launcher: Launcher, what: str) -> None:
    (only,) = launcher.workers(1, state="pulling")
    launcher.start()
    launcher.cluster.until(lambda stats: stats["requests"].get("watch"))
    launcher.until_told("pulling image")
    assert launcher.cluster.watches(what) == 1
    launcher.cluster.set_state(only, "ready")
    assert launcher.end() == exits.READY
    assert launcher.cluster.stats()["requests"]["watch"] <= 3  # taken up again, not asked for in a loop


def test_api_server_that_is_down_is_told_and_waited_for(tmp_path: Path) -> None:
    port = free_port()
    with Cluster(tmp_path / "cluster", port=port) as cluster:
        environ = cluster.environ("a-token")
    (tmp_path / "launcher").mkdir()
    launcher = Launcher(tmp_path / "launcher", cluster)
    launcher.hostfile.write_text("pi-worker-0\n")
    try:
        launcher.start(environ=environ)
        launcher.until_told("the API server can't be reached: Connection refused; trying again")
        with Cluster(tmp_path / "cluster", port=port) as again:
            again.token(token="a-token")
            with open(again.ca, encoding="ascii") as ca:
                authority = ca.read()
            mounted = f"{environ['MPI_AGENT_SERVICE_ACCOUNT']}/ca.crt"
            with open(f"{mounted}.new", "w", encoding="ascii") as ca:
                ca.write(authority)
            os.replace(f"{mounted}.new", mounted)
            again.create_pod("pi-worker-0")
            assert launcher.end() == exits.READY
        assert "the API server answers again" in launcher.told
    finally:
        launcher.close()


def stranger(cluster: Cluster, folder: Path) -> dict[str, str]:
    """The environment of a pod whose CA is another cluster's."""
    with Cluster(folder / "another") as another:
        environ = cluster.environ()
        with open(another.ca, encoding="ascii") as ca:
            authority = ca.read()
    with open(f"{environ['MPI_AGENT_SERVICE_ACCOUNT']}/ca.crt", "w", encoding="ascii") as ca:
        ca.write(authority)
    return environ


def test_server_that_is_not_trusted(launcher: Launcher, tmp_path: Path) -> None:
    launcher.workers(1)
    assert launcher.run(environ=stranger(launcher.cluster, tmp_path)) == exits.API_SETUP
    assert "certificate is not trusted" in launcher.last_line


SETUPS = {
    "nothing is set": ({}, "no API server is known"),
    "kubeconfig is missing": ({"KUBECONFIG": "/nowhere/config"}, "/nowhere/config can't be read"),
    "token is missing": (
        {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "MPI_AGENT_SERVICE_ACCOUNT": "/nowhere"},
        "the token can't be read from /nowhere/token",
    ),
}


@pytest.mark.parametrize("setup", SETUPS)
def test_api_that_can_not_be_set_up(launcher: Launcher, setup: str) -> None:
    launcher.workers(1)
    environ, words = SETUPS[setup]
    assert launcher.run(environ=environ) == exits.API_SETUP
    assert words in launcher.last_line
    assert launcher.last_line == f"mpi-delivery: {launcher.log.read_text()}"


def test_kubeconfig_and_namespace_as_kubectl_delivery_takes_them(launcher: Launcher) -> None:
    launcher.cluster.create_pod("pi-worker-0", namespace="science")
    launcher.hostfile.write_text("pi-worker-0\n")
    config = launcher.cluster.kubeconfig()
    assert launcher.run("-kubeConfig", config, "-namespace=science", environ={}) == exits.READY
    assert launcher.run(environ={"KUBECONFIG": config, "NAMESPACE": "science"}) == exits.READY
    assert launcher.run("--timeout", "1", environ={"KUBECONFIG": config}) == exits.TIMED_OUT
