"""The process view in a real process namespace, and what it does about leftovers of real exec sessions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from running import ROOT
from worker_running import Mounted, Namespace, Worker, needs_namespaces, running

from rshagent.call.bootstrap import Mark, request
from tests.privileges import NO_CAPABILITIES
from tests.processes import is_alive
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_namespaces

RANK = "OMPI_COMM_WORLD_RANK=3 exec sleep 1000"
OTHER_USER = ["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups"]


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    yield made
    made.close()


@pytest.fixture
def orders(tmp_path: Path) -> Mounted:
    return Mounted(tmp_path / "orders")


def launch(namespace: Namespace, text: str, session: str = "s1", user: list[str] | None = None) -> int:
    """Run a text as the rsh agent does, by its bootstrap; return the bootstrap's id."""
    made = request(text.encode(), Mark("pi", "pi-launcher", "1", session))
    return namespace.start(*(user or []), *(word.decode() for word in made.command))


def find(argument: str) -> int:
    """Return the id of the one process with an argument, once a shell has become it."""
    found: list[str] = []

    def is_there() -> bool:
        found[:] = [pid for pid in filter(str.isdigit, os.listdir("/proc")) if argument in _arguments(pid)]
        return len(found) == 1

    until(is_there, f"a process with the argument {argument}")
    return int(found[0])


def _arguments(pid: str) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().split("\0")
    except OSError:
        return []


def kill_tree(bootstrap: int) -> None:
    """End both processes of a bootstrap and its text's shell, as without memory, but not what that has started."""
    (waiting,) = children(bootstrap)
    tree = (bootstrap, waiting, *children(waiting))
    for pid in tree:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(map(is_alive, tree)), "the launch has ended")


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def leftovers(worker: Worker) -> list[Any]:
    """Return what outlived its launch."""
    return [process for process in worker.processes()["processes"] if process["leftover"]]


def test_processes_are_shown_with_their_ranks(tmp_path: Path, namespace: Namespace) -> None:
    launch(namespace, f"(PMIX_RANK=no {RANK}1) & echo started; wait")
    find("10001")
    with running(tmp_path, inside=namespace.inside()) as worker:
        seen = worker.processes()
        (rank,) = [process for process in seen["processes"] if process["rank"] is not None]
        _, text = worker.ask_socket("/metrics")
    assert (rank["name"], rank["rank"], rank["launch"], rank["leftover"]) == ("sleep", 3, "s1", False)
    assert rank["rss_bytes"] > 0
    assert seen["denied"] == {"environment": 0, "signal": 0}
    assert f'mpi_worker_process_resident_bytes{{pid="{rank["pid"]}",name="sleep",rank="3"}}' in text
    assert "mpi_worker_process_view 1\n" in text


def test_ranks_are_printed_with_what_they_wait_for(namespace: Namespace) -> None:
    launch(namespace, f"({RANK}7) & echo started; wait")
    find("10007")
    command = [*namespace.inside(), sys.executable, "-m", "agents.worker", "ranks"]
    (rank,) = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)["ranks"]
    assert (rank["rank"], rank["name"], rank["call"]) == (3, "sleep", "clock_nanosleep")


def test_an_orphan_of_an_ended_launch_is_ended_and_a_daemon_is_not(tmp_path: Path, namespace: Namespace) -> None:
    first = launch(namespace, f"({RANK}2) & echo started; wait", "ended")
    launch(namespace, "setsid sleep 10003 & echo started", "daemon")  # as orted --daemonize takes its leave
    launch(namespace, f"({RANK}4) & echo started; wait", "running")
    left, daemon, alive = (find(f"1000{number}") for number in (2, 3, 4))
    kill_tree(first)
    with running(tmp_path, inside=namespace.inside(), MPI_WORKER_GRACE="0.5s") as worker:
        worker.until_said("outlived the launch")
        until(lambda: not is_alive(left), "the orphan has ended")
        worker.until_said("SIGTERM to process")
        assert is_alive(daemon)
        assert is_alive(alive)
        worker.until_said("the orphan has ended")
        seen = worker.processes()
        assert (leftovers(worker), seen["leftovers_ended"]) == ([], 1)


def test_debug_leaves_leftovers_alone(tmp_path: Path, namespace: Namespace, orders: Mounted) -> None:
    orders.write(order="debug")
    bootstrap = launch(namespace, f"({RANK}5) & echo started; wait")
    left = find("10005")
    kill_tree(bootstrap)
    with running(tmp_path, inside=namespace.inside(), MPI_WORKER_GRACE="0.2s") as worker:
        assert worker.processes()["order"] == "debug"
        assert [process["rank"] for process in leftovers(worker)] == [3]
        orders.write(order="")
        worker.until_said("order: run")
        until(lambda: not is_alive(left), "the orphan has ended")
    assert worker.log().index("order: run") < worker.log().index("outlived")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
def test_what_another_uid_forbids_is_said(tmp_path: Path, namespace: Namespace, orders: Mounted) -> None:
    orders.write(order="debug")
    bootstrap = launch(namespace, "sleep 10006 & echo started; wait", user=OTHER_USER)
    with running(tmp_path, inside=[*namespace.inside(), *NO_CAPABILITIES], MPI_WORKER_GRACE="0s") as worker:
        until(lambda: worker.processes()["denied"]["environment"] >= 4, "bootstrap, shell and sleep are closed to us")
        kill_tree(bootstrap)
        orders.write(order="run")
        line = worker.until_said("can't be ended by uid 0")
        assert "uid 1234's processes" in line
        assert "runAsUser" in line
        assert worker.processes()["denied"]["signal"] == 1
        assert 'mpi_worker_denied{what="signal"} 1' in worker.ask_socket("/metrics")[1]
        assert is_alive(find("10006"))


def test_in_a_namespace_of_its_own_it_looks_at_no_process(tmp_path: Path) -> None:
    own = ["unshare", *(["--user", "--map-root-user"] if os.geteuid() else []), "--pid", "--fork", "--mount-proc"]
    with running(tmp_path, inside=own) as worker:
        seen = worker.processes()
        assert seen["processes"] is None
        assert "shareProcessNamespace" in seen["why_no_processes"]
        assert "mpi_worker_process_view 0\n" in worker.ask_socket("/metrics")[1]
