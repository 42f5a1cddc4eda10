"""`kubectl mpi top` and `stacks` on a job whose pods a test has made: the real worker agent looks at real processes."""

from __future__ import annotations

import json
import os
import pty
import re
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from user_shell import Shell, manifest

from agents.playground import image
from agents.playground.cluster import Cluster
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

RANK = 4711
PY_SPY = """\
#!/bin/sh
[ "$1 $2 $3 $4" = "dump --nonblocking --json --pid" ] || exit 1
frame='{"name": "load", "filename": "/app/train.py", "short_filename": "train.py", "line": 41}'
echo '[{"pid": '$5', "thread_name": null, "os_thread_id": '$5', "frames": ['$frame']}]'
"""


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without our operator. Its containers have the agents' commands, and what answers as py-spy 0.4."""
    folder = str(tmp_path_factory.mktemp("image"))
    image.build(folder)
    with open(os.open(f"{folder}/bin/py-spy", os.O_WRONLY | os.O_CREAT, 0o755), "w", encoding="utf-8") as file:
        file.write(PY_SPY)
    environ = image.environ(folder, os.environ)
    with Cluster(tmp_path_factory.mktemp("foreign"), runs_pods=False, environ=environ) as cluster:
        yield cluster


def start(foreign: Cluster, name: str) -> Shell:
    """Create a job and its two workers, of which the second never runs."""
    made = foreign.create(yaml.safe_load(manifest(name, "true")))
    owner = {"apiVersion": made["apiVersion"], "kind": "MPIJob", "name": name, "uid": made["metadata"]["uid"]}
    spec: dict[str, Any] = {"containers": [{"name": "mpi", "image": "x"}]}
    agent = {"name": "worker-agent", "image": "x", "command": ["mpi-worker"], "restartPolicy": "Always"}
    spec |= {"shareProcessNamespace": True, "initContainers": [agent]}
    for index in range(2):
        labels, owners = {"training.kubeflow.org/job-name": name}, [{**owner, "controller": True}]
        metadata = {"name": f"{name}-worker-{index}", "labels": labels, "ownerReferences": owners}
        foreign.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    foreign.set_state(f"{name}-worker-0", "ready")
    foreign.set_state(f"{name}-worker-1", "unschedulable")
    return Shell(foreign.kubeconfig())


def test_a_hung_rank(foreign: Cluster) -> None:
    shell = start(foreign, "hung")
    environ = {"OMPI_COMM_WORLD_RANK": str(RANK)}
    process = foreign.exec_local("hung-worker-0", ["cat"], env=environ, stdin=PIPE, stdout=PIPE)
    try:
        found = shell.run("stacks", "hung", "--rank", str(RANK))
        assert f"rank {RANK}: read of pipe" in found
        assert re.search(r"\n    load \(train.py:41\)\n  hung-worker-0, process \d+: cat\n", found)
        line = next(line for line in shell.run("top", "hung").splitlines() if line.startswith(f"{RANK} "))
        assert re.fullmatch(rf"{RANK} +hung-worker-0 +\d+ +S waiting +0 +\d+ MiB +cat", line)
        report = json.loads(shell.run("top", "hung", "-o", "json"))
        assert next(one for one in report["ranks"] if one["rank"] == RANK)["call"] == "read"
        assert report["notes"][0].startswith("hung-worker-1: ")
        check_live_table(shell)
    finally:
        process.terminate()
        process.wait()
        process.close()
    until(lambda: f"has no rank {RANK}" in shell.run("stacks", "hung", "--rank", str(RANK), code=4), "it is gone")


def check_live_table(shell: Shell) -> None:
    """It is drawn again and again, until Ctrl-C."""
    pid, terminal = pty.fork()
    if not pid:
        os.execve(*shell.command("top", "hung"))
    seen = b""
    while seen.count(b"RANK ") < 2:
        seen += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    os.close(terminal)


def test_ranks_of_a_real_job(shell: Shell) -> None:
    job = yaml.safe_load(manifest("ranks", "mpirun", "--allow-run-as-root", "-n", "4", "sleep", "1000"))
    job["spec"] |= {"slotsPerWorker": 2, "workerAgent": {"processes": True}}
    shell.run("submit", "-f", "-", stdin=yaml.safe_dump(job))
    shell.run("wait", "ranks", "--for", "running", "--timeout", "60s")

    def places() -> list[tuple[str, ...]]:
        return [tuple(line.split()[:2]) for line in shell.run("top", "ranks").splitlines()[1:]]

    ours = [(str(rank), f"ranks-worker-{rank // 2}") for rank in range(4)]
    until(lambda: places() == ours, "all ranks are seen")
    assert shell.run("stacks", "ranks").startswith("ranks 0-3: clock_nanosleep")
    shell.run("delete", "ranks")


def test_an_ended_job_has_no_ranks(shell: Shell) -> None:
    shell.run("submit", "-f", "-", stdin=manifest("ended", "true"))
    shell.run("wait", "ended", "--timeout", "60s")
    assert "ended has no ranks: ended succeeded" in shell.run("top", "ended", code=4)
