"""In mid-job something fails that the job does not need: it keeps running, and its exit code is its own."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import pytest

from tests.cluster import pods as of
from tests.cluster.faults import Ranks, container
from tests.cluster.images import needs_horovod
from tests.cluster.jobs import Job
from tests.cluster.running import Running

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.faults import Node
    from tests.cluster.kube import Namespace

# Open MPI 4.1's daemons leave their streams at once; the others' stay in them for the whole job.
LAUNCHERS = {
    "openmpi4": 7,
    "openmpi5": 8,
    "intel": 0,
}  # Intel's mpiexec ends with 255 at times where one rank alone has a code of its own
END_S = 60.0
pytestmark = pytest.mark.usefixtures("local")


@pytest.fixture
def jobs(new_namespace: Callable[[str], Namespace]) -> list[Ranks]:
    """A job of each launcher, whose ranks have started. Their exit codes differ."""
    started = [
        Running(new_namespace("restricted"), Ranks.job(Job(launcher), code)).start()
        for launcher, code in LAUNCHERS.items()
    ]
    return [Ranks(running) for running in started]


def test_the_api_server_is_killed_and_restarted(node: Node, jobs: list[Ranks]) -> None:
    node.restart_api_server()
    for ranks in jobs:
        ranks.go_on()
    for ranks in jobs:
        ranks.assert_ended_undisturbed(END_S)


def test_jobs_end_while_the_api_server_is_away(node: Node, jobs: list[Ranks]) -> None:
    node.api_server.stop(signal.SIGKILL)
    for ranks in jobs:
        ranks.go_on()
        ranks.until_ended()
    node.start_api_server()
    for ranks in jobs:
        ranks.assert_ended_undisturbed(END_S)


def test_the_kubelet_is_killed_and_restarted(node: Node, jobs: list[Ranks]) -> None:
    # The API server reports success for an exec that is lost with its kubelet, and containerd 2 kills what it ran.
    node.restart_kubelet()
    for ranks in jobs:
        ranks.go_on()
    for ranks in jobs:
        ranks.assert_ended_undisturbed(END_S)


@pytest.mark.alone  # agents wait 10 s for the next hub
def test_the_hub_is_killed(jobs: list[Ranks]) -> None:
    for ranks in jobs:  # one after the other: agents wait 10 s for the next hub
        container(ranks.running.namespace, ranks.running.launcher, "hub").kill()
        ranks.running.namespace.wait(
            ranks.running.launcher,
            lambda pod: of.restarts(pod, "hub") and of.is_running(pod, "hub"),
            "has a new hub",
        )
        ranks.go_on()
    for ranks in jobs:
        ranks.assert_ended_undisturbed(END_S)


@needs_horovod
def test_horovod_whose_output_is_in_the_stream(node: Node, start: Callable[[Job], Running]) -> None:
    # What ranks print after the loss is lost, so that their success is none.
    program = "echo waiting; until [ -e /tmp/go ]; do echo step; sleep 0.1; done; exit 0"
    hosts = ("--gloo", "-np", "2", "--hostfile", "/etc/mpi/hostfile")
    running = start(Job("horovod").command("horovodrun", *hosts, "/bin/sh", "-c", program))
    running.until_output("waiting", 2)
    workers = [container(running.namespace, worker) for worker in running.job.workers]
    node.restart_api_server()
    for worker in workers:
        worker.touch("/tmp/go")
    assert running.end(END_S) != 0, running.output
    # Of the rank that ended first, horovodrun, the agent and the hub tell the same.
    told = re.search(r"^Process name: (\d)\nExit code: (\d+)$", running.output, re.MULTILINE)
    assert told, running.output
    host = f"train-worker-{told[1]}"
    assert told[2] == "255"
    assert f"rshagent: {host}: the command ended with 0, but the stream was lost, and output with it" in running.output
    assert (host, "255") in {(one["host"], one["exit"]) for one in running.sessions()}
