"""Several launcher instances together: mount and process namespaces beside each other, and containers after each other.

An instance is one life of a launcher's container. What an earlier one left in the workers is ended, and nothing else.
"""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from running import DEADLINE_S, USER, WORKERS, InItsContainer, WithHub, environment

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agents.playground.cluster import Cluster

MOUNTS = ("unshare", *USER, "--mount")
PROCESSES = ("unshare", *USER, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
DAEMON = "setsid sleep 1000 >/dev/null 2>&1 </dev/null &"


@pytest.fixture
def agent(cluster: Cluster, client: str, tmp_path: Path) -> Iterator[WithHub]:
    with WithHub(instances(cluster, tmp_path), client, tmp_path) as agent:
        yield agent
        assert "internal error" not in agent.log()
    until(lambda: not any(cluster.leftovers(worker) for worker in WORKERS), "nothing is left for the next test")


def instances(cluster: Cluster, folder: Path) -> dict[str, str]:
    """The environment of clients whose instance is told by what they see, as in a pod."""
    environ = environment(cluster, folder, WORKERS)
    del environ["MPI_AGENT_INSTANCE"]
    return environ


def start(agent: WithHub, *words: str, place: tuple[str, ...] = (), **environ: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*place, *agent.argv, *words], env={**agent.environ, **environ}, stdin=pipe, stdout=pipe, stderr=pipe
    )
    agent.sessions.append(process)
    return process


def end(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    out, err = process.communicate(b"\n", DEADLINE_S)
    return process.returncode, out, err


ENDS_BY_A_LINE = ("worker-0", "read line; exit 4")
ENDS_BY_A_SIGNAL = ("-n", "worker-0", "sleep 1000")


def session(
    cluster: Cluster,
    agent: WithHub,
    place: tuple[str, ...] = (),
    command: tuple[str, ...] = ENDS_BY_A_LINE,
    **environ: str,
) -> subprocess.Popen[bytes]:
    """A session that runs."""
    before = len(cluster.leftovers("worker-0"))
    process = start(agent, *command, place=place, **environ)
    until(lambda: len(cluster.leftovers("worker-0")) > before, "the session runs")
    return process


@pytest.mark.parametrize(("first", "second"), [((), MOUNTS), (MOUNTS, ()), (MOUNTS, MOUNTS), ((), PROCESSES)])
def test_a_launcher_in_another_namespace_leaves_running_sessions_alone(
    cluster: Cluster, agent: WithHub, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    running = [session(cluster, agent, first), session(cluster, agent, first)]
    for _ in range(2):
        assert end(start(agent, "-n", "worker-0", "exit 3", place=second)) == (3, b"", b"")
    assert [end(one) for one in running] == [(4, b"", b"")] * 2


@pytest.mark.parametrize("place", [MOUNTS, PROCESSES])
def test_what_an_instance_left_is_ended_when_its_last_client_has_gone(
    cluster: Cluster, agent: WithHub, place: tuple[str, ...]
) -> None:
    assert end(start(agent, "-n", "worker-0", DAEMON)) == (0, b"", b"")
    daemons = {left.pid for left in cluster.leftovers("worker-0")}
    assert daemons
    running = start(agent, "worker-1", "read line; exit 4")  # in another worker
    until(lambda: cluster.leftovers("worker-1"), "the session runs")
    assert end(start(agent, "-n", "worker-0", "exit 3", place=place, MPI_AGENT_INSTANCE="second")) == (3, b"", b"")
    assert daemons <= {left.pid for left in cluster.leftovers("worker-0")}, "a client of theirs lives"
    running.kill()  # with its container
    running.communicate()
    until(lambda: not cluster.leftovers("worker-1"), "the hub has ended the session of the client that died")
    assert end(start(agent, "-n", "worker-0", "exit 3", place=place, MPI_AGENT_INSTANCE="second")) == (3, b"", b"")
    until(lambda: not cluster.leftovers("worker-0"), "what the first instance left is gone")


def test_instances_that_start_at_once_do_not_end_each_other(cluster: Cluster, agent: WithHub) -> None:
    assert end(start(agent, "-n", "worker-0", DAEMON, MPI_AGENT_INSTANCE="old")) == (0, b"", b"")
    started = [
        start(agent, "worker-0", "read line; exit 4", MPI_AGENT_INSTANCE=f"new-{number % 6}") for number in range(24)
    ]
    until(lambda: agent.log().count("internal error") or len(cluster.leftovers("worker-0")) >= 24, "all of them run")
    assert [end(one) for one in started] == [(4, b"", b"")] * 24
    assert end(start(agent, "-n", "worker-0", "exit 3", MPI_AGENT_INSTANCE="last")) == (3, b"", b"")
    until(lambda: not cluster.leftovers("worker-0"), "what the old instance left is gone")


def test_clients_of_a_hub_that_was_killed_have_time_to_come_back(cluster: Cluster, agent: WithHub) -> None:
    assert end(start(agent, "-n", "worker-0", DAEMON, MPI_AGENT_INSTANCE="old")) == (0, b"", b"")
    daemons = {left.pid for left in cluster.leftovers("worker-0")}
    # One that waits for a line would end with its stream, which ends with the hub, and maybe before the signal comes.
    running = session(cluster, agent, command=ENDS_BY_A_SIGNAL, MPI_AGENT_INSTANCE="old")
    running.send_signal(signal.SIGSTOP)  # it is slow to notice
    agent.kill()
    agent.start()
    assert end(start(agent, "-n", "worker-0", "exit 3", MPI_AGENT_INSTANCE="new")) == (3, b"", b"")
    fresh = session(cluster, agent, MPI_AGENT_INSTANCE="new")
    running.send_signal(signal.SIGCONT)
    until(lambda: daemons <= {left.pid for left in cluster.leftovers("worker-0")}, "nothing was ended")
    running.terminate()
    assert end(running)[0] == 143
    until(lambda: not daemons & {left.pid for left in cluster.leftovers("worker-0")}, "what it left is ended, too")
    assert end(fresh) == (4, b"", b"")


def test_daemons_of_another_mount_namespace_of_the_same_container_stay(
    cluster: Cluster, client: str, tmp_path: Path
) -> None:
    """Open MPI 4.1's leave their clients: that none of these lives does not tell that their mpirun has ended."""
    with InItsContainer(instances(cluster, tmp_path), client, tmp_path) as agent:
        assert end(start(agent, "-n", "worker-0", DAEMON)) == (0, b"", b"")
        daemons = {left.pid for left in cluster.leftovers("worker-0")}
        for _ in range(2):
            assert end(start(agent, "-n", "worker-0", "exit 3", place=MOUNTS)) == (3, b"", b"")
        assert daemons <= {left.pid for left in cluster.leftovers("worker-0")}
        assert end(start(agent, "-n", "worker-0", "exit 3", MPI_AGENT_INSTANCE="1-1")) == (3, b"", b"")
        until(lambda: not cluster.leftovers("worker-0"), "a new container's launch ends them")
