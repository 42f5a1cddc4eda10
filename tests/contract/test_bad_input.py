"""What a user gets for a mistake: one line that says what to do, and a documented exit code; never a traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from running import ROOT, WithHub, environment, run

from agents.playground.certs import Authority
from agents.playground.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.create_pod("worker-0")
        yield cluster


def one_line(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("rshagent"), lines
    return lines[0]


CALLS = [
    ((), "no host"),
    (("-p", "2222"), "no host"),
    (("worker-0",), "no command"),
    (("worker-0", "-p", "2222"), "no command"),
    (("--container",), "--container"),
    (("worker-7", "true"), "its workers are worker-0"),
]


@pytest.mark.parametrize(("words", "said"), CALLS, ids=lambda value: " ".join(value) or "nothing")
def test_a_call_that_makes_no_sense(
    cluster: Cluster, client: str, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    with WithHub(environment(cluster, tmp_path, ["worker-0"]), client, tmp_path) as agent:
        done = run(agent, *words)
    assert done.returncode == 255
    assert said in one_line(done)


@pytest.mark.parametrize("words", [("other/worker-0",), ("--namespace", "other", "worker-0")], ids=" ".join)
def test_the_hub_leaves_its_namespace_for_no_call(
    cluster: Cluster, client: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    with WithHub(environment(cluster, tmp_path, ["worker-0"]), client, tmp_path) as agent:
        cluster.reset_stats()
        done = run(agent, *words, "true")
    assert done.returncode == 255
    assert "'other' is not this job's" in one_line(done)
    assert "exec" not in cluster.stats()["requests"]


def test_a_job_without_a_hostfile(cluster: Cluster, client: str, tmp_path: Path) -> None:
    environ = environment(cluster, tmp_path, ["worker-0"])
    os.unlink(environ["MPI_AGENT_HOSTFILE"])
    with WithHub(environ, client, tmp_path) as agent:
        done = run(agent, "worker-0", "true")
    assert done.returncode == 255
    assert environ["MPI_AGENT_HOSTFILE"] in one_line(done)


CREDENTIALS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no token": (lambda account: (account / "token").unlink(), "token"),
    "empty token": (lambda account: (account / "token").write_text("\n"), "token"),
    "no CA": (lambda account: (account / "ca.crt").unlink(), "ca.crt"),
    "CA is no certificate": (lambda account: (account / "ca.crt").write_text("hello"), "ca.crt"),
}


@pytest.fixture
def account(cluster: Cluster, tmp_path: Path) -> Path:
    return Path(shutil.copytree(cluster.environ()["MPI_AGENT_SERVICE_ACCOUNT"], tmp_path / "account"))


@pytest.mark.parametrize("mistake", CREDENTIALS)
def test_credentials_that_are_of_no_use(cluster: Cluster, tmp_path: Path, account: Path, mistake: str) -> None:
    spoil, said = CREDENTIALS[mistake]
    spoil(account)
    environ = {**environment(cluster, tmp_path, ["worker-0"]), "MPI_AGENT_SERVICE_ACCOUNT": str(account)}
    hub = [sys.executable, "-m", "rshagent.hub"]
    done = subprocess.run(hub, cwd=ROOT, env=environ, capture_output=True, timeout=90, check=False)
    assert done.returncode == 3
    assert said in one_line(done)


def test_the_ca_of_another_cluster(cluster: Cluster, client: str, tmp_path: Path, account: Path) -> None:
    Authority(str(tmp_path / "other"))
    shutil.copy(tmp_path / "other" / "ca.crt", account / "ca.crt")
    environ = {**environment(cluster, tmp_path, ["worker-0"]), "MPI_AGENT_SERVICE_ACCOUNT": str(account)}
    with WithHub(environ, client, tmp_path) as agent:
        done = run(agent, "-n", "worker-0", "true")
    assert done.returncode == 255
    assert "certificate" in one_line(done)


HUBS: list[tuple[Mapping[str, str], tuple[str, ...], int, str]] = [
    ({"KUBERNETES_SERVICE_HOST": ""}, (), 3, "no API server is known"),
    ({"KUBECONFIG": "/nowhere"}, (), 3, "/nowhere"),
    ({"MPI_AGENT_SOCKET": "/nowhere/hub.sock"}, (), 3, "/nowhere/hub.sock"),
    ({"MPI_AGENT_LIMITS": "start=soon"}, (), 3, "start"),
    ({"HTTPS_PROXY": "socks5://proxy:1080", "KUBERNETES_SERVICE_HOST": "192.0.2.1"}, (), 3, "socks5"),
    ({}, ("--max-starts", "0"), 2, "at least 1"),
    ({}, ("--metrics", "nowhere"), 3, "port"),
    ({"MPI_AGENT_SOCKET": "/nowhere/hub.sock"}, ("--check",), 1, "/nowhere/hub.sock"),
]


@pytest.mark.parametrize(("changed", "options", "code", "said"), HUBS, ids=lambda value: str(value)[:40])
def test_a_hub_that_can_not_serve(
    cluster: Cluster, tmp_path: Path, changed: Mapping[str, str], options: tuple[str, ...], code: int, said: str
) -> None:
    environ = {**environment(cluster, tmp_path, ["worker-0"]), **changed}
    hub = [sys.executable, "-m", "rshagent.hub", *options]
    done = subprocess.run(hub, cwd=ROOT, env=environ, capture_output=True, timeout=90, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr.decode().splitlines()[-1]
    assert b"Traceback" not in done.stderr


def test_a_second_hub_at_the_same_socket(cluster: Cluster, client: str, tmp_path: Path) -> None:
    environ = environment(cluster, tmp_path, ["worker-0"])
    with WithHub(environ, client, tmp_path) as first:
        hub = [sys.executable, "-m", "rshagent.hub"]
        done = subprocess.run(hub, cwd=ROOT, env=environ, capture_output=True, timeout=90, check=False)
        assert done.returncode == 3
        assert "another hub serves" in one_line(done)
        assert run(first, "-n", "worker-0", "exit 4").returncode == 4, "the first one serves on"
