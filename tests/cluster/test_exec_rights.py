"""A hub against a real API server, with a Role of kubeflow's operators: `create` on pods/exec, and no `get`."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from typing import IO, TYPE_CHECKING

import pytest
import yaml

from rshagent.native import client_build
from tests.cluster.faults import of_the_command
from tests.cluster.jobs import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.kube import Namespace

    Launch = Callable[..., "subprocess.Popen[bytes]"]

DEADLINE_S = 120.0
POD, ACCOUNT = "pi-worker-0", "pi-launcher"
MIB = 1 << 20
BY = ["create", "get, create"]
"""Verbs that are granted: by SPDY, and by WebSocket."""


@pytest.fixture(params=BY)
def by(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def launch(namespace: Namespace, by: str, tmp_path: Path) -> Iterator[Launch]:
    """Start the client here, with a hub that is to this namespace what a launcher pod's would be."""
    job = Job("openmpi4", workers=1)
    grant(job, *by.split(", "))
    namespace.apply(one for one in job.objects if one["kind"] not in ("Pod", "Service"))
    (tmp_path / "hostfile").write_text(f"{POD}\n")
    client_build.build(str(tmp_path / "rshagent"))
    environ = {
        "PATH": os.environ["PATH"],
        "KUBECONFIG": os.fspath(kubeconfig(namespace, tmp_path)),
        "MPI_AGENT_NAMESPACE": namespace.name,
        "MPI_AGENT_HOSTFILE": str(tmp_path / "hostfile"),
        "MPI_AGENT_SOCKET": str(tmp_path / "hub.sock"),
    }
    namespace.wait_ready([POD])
    hubs: list[subprocess.Popen[bytes]] = []

    def start(text: str, stdin: int | IO[bytes] = subprocess.PIPE, limits: str = "") -> subprocess.Popen[bytes]:
        if not hubs:  # the client waits for it
            command = [sys.executable, "-m", "rshagent.hub"]
            hubs.append(subprocess.Popen(command, env=environ | {"MPI_AGENT_LIMITS": limits}))
        return subprocess.Popen(
            [tmp_path / "rshagent", POD, text], env=environ, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    yield start
    for hub in hubs:
        with hub:
            hub.kill()


def end_of(agent: subprocess.Popen[bytes]) -> tuple[str, str, int]:
    """Wait for an agent's end: what its command has printed, and the exit code."""
    out, err = agent.communicate(timeout=DEADLINE_S)
    return out.decode(), of_the_command(err.decode()), agent.returncode


def grant(job: Job, *verbs: str) -> None:
    for rule in job.of("Role")["rules"]:
        if rule["resources"] == ["pods/exec"]:
            rule["verbs"] = [*verbs]


def kubeconfig(namespace: Namespace, folder: Path) -> Path:
    """The tests' cluster with the ServiceAccount's token, in the form that the agent takes."""
    with open(os.environ["KUBECONFIG"], encoding="utf-8") as file:
        given = yaml.safe_load(file)
    current = next(one["context"] for one in given["contexts"] if one["name"] == given["current-context"])
    cluster = next(one["cluster"] for one in given["clusters"] if one["name"] == current["cluster"])
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = namespace.api.call("post", namespace.path("ServiceAccount", ACCOUNT) + "/token", asked)["status"]["token"]
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", "namespace": namespace.name}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": token}}],
    }
    path.write_text(json.dumps(config))
    return path


def test_code_output_and_streams_of_any_size(launch: Launch) -> None:
    agent = launch("echo out; echo err >&2; exit 7")
    assert end_of(agent) == ("out\n", "err\n", 7)

    agent = launch(f"head -c {100 * MIB} /dev/zero")
    out, err = agent.communicate(timeout=DEADLINE_S)
    assert (hashlib.sha256(out).digest(), err) == (hashlib.sha256(bytes(100 * MIB)).digest(), b"")

    data = os.urandom(20 * MIB)
    agent = launch("sha256sum; echo over >&2")
    out, err = agent.communicate(data, timeout=DEADLINE_S)
    assert out.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert (err, agent.returncode) == (b"over\n", 0)


def test_a_command_that_never_reads_its_stdin_ends_all_the_same(launch: Launch, tmp_path: Path) -> None:
    """The container runtime doesn't tell the end before it is rid of the stdin; with kubectl that is for ever."""
    much = tmp_path / "much"
    much.touch()
    os.truncate(much, 1 << 30)
    with much.open("rb") as stdin:
        agent = launch("sleep 4; echo out; exit 9", stdin=stdin, limits="silence=2,ping=0.5")
        assert end_of(agent) == ("out\n", "", 9)


def test_signals_reach_the_command_and_nothing_is_left(launch: Launch, namespace: Namespace) -> None:
    agent = launch("trap 'echo told; exit 3' USR1; echo ready; while :; do sleep 0.1; done")
    assert agent.stdout is not None
    assert agent.stdout.readline() == b"ready\n"
    agent.send_signal(signal.SIGUSR1)
    assert agent.stdout.readline() == b"told\n"
    assert agent.wait(DEADLINE_S) == 3
    agent.communicate()

    agent = launch("echo ready; exec sleep 1234.5")
    assert agent.stdout is not None
    assert agent.stdout.readline() == b"ready\n"
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(DEADLINE_S) == 128 + signal.SIGTERM
    agent.communicate()
    left = namespace.exec_in(POD, ["/bin/sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]).output
    assert "1234.5" not in left


@pytest.mark.parametrize("by", ["watch"], indirect=True)
def test_without_either_verb_one_line_names_both(launch: Launch) -> None:
    agent = launch("true")
    out, err = agent.communicate(timeout=DEADLINE_S)
    assert (out, agent.returncode) == (b"", 255)
    assert b"The verbs get and create are both missing" in err
    assert err.count(b"\n") == 1
