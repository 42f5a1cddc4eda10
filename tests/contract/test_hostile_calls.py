"""What a user's process can do to the hub through its socket: nothing that another session would feel."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from running import WORKERS, WithHub, environment, run, spawn, start

from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from agents.playground.cluster import Cluster


def agent_with(cluster: Cluster, client: str, tmp_path: Path, *options: str) -> WithHub:
    return WithHub(environment(cluster, tmp_path, WORKERS), client, tmp_path, *options)


def test_explaining_reads_no_file_of_the_callers_choice(cluster: Cluster, client: str, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("opaque-token")
    with agent_with(cluster, client, tmp_path) as agent:
        agent.environ["MPI_AGENT_HOSTFILE"] = str(secret)
        done = run(agent, "nowhere", "true", MPI_AGENT_EXPLAIN="1")
        shown = run(agent, "worker-0", "echo 'it'", MPI_AGENT_EXPLAIN="1")
    assert b"opaque-token" not in done.stdout + done.stderr
    assert b'"pod": "worker-0"' in shown.stdout
    assert b"echo 'it'" in shown.stdout


def test_a_full_pipe_holds_up_its_own_session_only(cluster: Cluster, client: str, tmp_path: Path) -> None:
    with agent_with(cluster, client, tmp_path) as agent:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 65536)
        os.set_blocking(writer, True)
        stuck = [
            spawn(agent, ["-n", "worker-0", "echo out"], more, stdout=writer)
            for more in ({}, {"MPI_AGENT_EXPLAIN": "1"})
        ]
        assert run(agent, "-n", "worker-1", "exit 3").returncode == 3
        os.close(writer)
        with os.fdopen(reader, "rb") as drained:
            data = drained.read()
        assert [process.wait(30) for process in stuck] == [0, 0]
        assert b"out\n" in data
        assert b'"pod": "worker-0"' in data


def test_a_descriptor_that_never_gives_anything_holds_nobody_up(cluster: Cluster, client: str, tmp_path: Path) -> None:
    with agent_with(cluster, client, tmp_path) as agent:
        never = os.eventfd(0)
        process = spawn(agent, ["worker-0", "exit 4"], stdin=never)
        assert run(agent, "-n", "worker-1", "exit 3").returncode == 3
        assert process.wait(30) == 4
        os.close(never)


@pytest.mark.parametrize("container", [b"\xff", b"a/b", b"", b"a?command=x"])
def test_a_container_of_no_possible_name_takes_no_place(
    cluster: Cluster, client: str, tmp_path: Path, container: bytes
) -> None:
    with agent_with(cluster, client, tmp_path, "--max-starts", "1") as agent:
        done = subprocess.run(
            [client, b"--container=" + container, "worker-0", "true"],
            env=agent.environ,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 255
        assert done.stderr.count(b"\n") == 1
        assert run(agent, "-n", "worker-1", "exit 3").returncode == 3


def test_only_the_named_container_can_be_reached(cluster: Cluster, client: str, tmp_path: Path) -> None:
    with agent_with(cluster, client, tmp_path, "--container", "worker") as agent:
        assert run(agent, "-n", "worker-0", "exit 3").returncode == 3
        refused = run(agent, "-n", "--container", "istio-proxy", "worker-0", "true")
        assert refused.returncode == 255
        assert b"istio-proxy" in refused.stderr
        assert run(agent, "-n", "worker-0", "true", MPI_AGENT_CONTAINER="istio-proxy").returncode == 255


def test_a_start_that_may_have_happened_is_ended_with_its_launch(cluster: Cluster, client: str, tmp_path: Path) -> None:
    with agent_with(cluster, client, tmp_path) as agent:
        cluster.fault("drop-after-start", pod="worker-0")
        cluster.fault("http", pod="worker-0", status=503, retry_after_s=7, times=1)  # nor can it be asked for
        before = cluster.stats()["requests"].get("exec", 0)
        process = start(agent, "-n", "worker-0", "sleep 1000")
        until(lambda: cluster.leftovers("worker-0"), "the command runs, unheard")
        cluster.until(lambda stats: stats["requests"]["exec"] >= before + 2)
        process.terminate()
        assert process.wait(30) == 143
        process.communicate()
        until(lambda: not cluster.leftovers("worker-0"), "the first try's command is gone")
        cluster.clear_faults()
