"""The hub as a sidecar: its probe, its metrics, its log, and how much it holds."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from running import WORKERS, WithHub, environment, run, spawn

from tests.ports import free_port
from tests.waiting import until
from tests.web import get

if TYPE_CHECKING:
    from pathlib import Path

    from agents.playground.cluster import Cluster


def test_metrics_count_sessions_by_result(cluster: Cluster, client: str, tmp_path: Path) -> None:
    port = free_port()
    with WithHub(environment(cluster, tmp_path, WORKERS), client, tmp_path, "--metrics", f"127.0.0.1:{port}") as agent:
        run(agent, "-n", "worker-0", "echo hello")
        run(agent, "-n", "worker-1", "exit 3")
        run(agent, "worker-0", "cat", stdin=b"12345")
        cluster.fault("http", pod="worker-0", status=400)
        run(agent, "-n", "worker-0", "true")
        _, text = get(f"http://127.0.0.1:{port}/metrics")
    found = dict(re.findall(r"^mpi_agents_hub_(\S+) (\S+)$", text, re.MULTILINE))
    assert found['sessions_total{result="ok"}'] == "2"
    assert found['sessions_total{result="exit"}'] == "1"
    assert found['sessions_total{result="failed"}'] == "1"
    assert found["sessions_active"] == "0"
    assert found["start_seconds_count"] == "3"
    assert found['bytes_total{direction="sent"}'] == "5"
    assert int(found['bytes_total{direction="received"}']) >= len("hello\n12345")


def test_the_log_has_a_line_for_a_session(cluster: Cluster, client: str, tmp_path: Path) -> None:
    with WithHub(environment(cluster, tmp_path, WORKERS), client, tmp_path) as agent:
        run(agent, "-n", "worker-1", "exit 3")
    lines = [line for line in agent.log().splitlines() if "session=" in line]
    assert len(lines) == 1
    assert re.search(r"host=worker-1 seconds=\d+\.\d+ start=\d+\.\d+ exit=3 result=exit retries=0$", lines[0])


def test_stdin_of_a_loop_is_left_to_the_loop(cluster: Cluster, client: str, tmp_path: Path) -> None:
    with WithHub(environment(cluster, tmp_path, WORKERS), client, tmp_path) as agent:
        script = tmp_path / "kubexec.sh"
        script.write_text(f"#!{client}\n")
        script.chmod(0o755)
        loop = f"while read host; do {script} $host 'echo on $(uname -n); cat'; done"
        done = subprocess.run(
            ["/bin/sh", "-c", loop], env=agent.environ, input=b"worker-0\nworker-1\n", capture_output=True, check=True
        )
    assert done.stdout.count(b"on ") == 2
    assert done.stderr == b""


def test_it_holds_1024_sessions(cluster: Cluster, client: str, tmp_path: Path) -> None:
    count = 1024
    with WithHub({**environment(cluster, tmp_path, WORKERS), "MPI_AGENT_LIMITS": ""}, client, tmp_path) as agent:
        cluster.until(lambda stats: not stats["running"])
        stdin, end = os.pipe()  # one for all: an ordinary user's descriptors are few
        sessions = [spawn(agent, [WORKERS[number % 2], "read line; exit 3"], stdin=stdin) for number in range(count)]
        os.close(stdin)
        cluster.until(lambda stats: stats["running"] >= count, timeout_s=60)
        os.close(end)
        assert {session.wait(60) for session in sessions} == {3}
        until(lambda: not any(cluster.leftovers(worker) for worker in WORKERS), "nothing is left in the workers")
