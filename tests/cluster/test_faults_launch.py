"""Something fails while mpirun starts its daemons: the job runs all the same, or ends with a code and a line."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import pytest

from tests.cluster.faults import container, until, words_of_ours
from tests.cluster.jobs import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.faults import Container, Node
    from tests.cluster.running import Running

    Start = Callable[[Job], Running]

LAUNCHERS = ("openmpi4", "openmpi5", "intel")
DAEMONS = {"openmpi4": ["orted"], "openmpi5": ["prted"], "intel": ["hydra_bstrap_pr", "hydra_pmi_proxy"]}
RUN_S = "2"  # else a busy machine may look for a daemon when the job is done
# What says that a daemon was lost: a line of ours, or of mpirun's and mpiexec's own.
TOLD = re.compile(
    r"^rshagent: |was unable to reliably start one or more daemons|daemon has unexpectedly failed after launch"
    r"|has lost communication with a remote daemon|^\[mpiexec@",
    re.MULTILINE,
)
WORKERS = 4
END_S = 60.0
pytestmark = pytest.mark.usefixtures("local")


@pytest.fixture
def waiting(start: Start, request: pytest.FixtureRequest) -> tuple[Running, Container]:
    """A job whose launcher is about to call mpirun."""
    running = start(Job(request.param, workers=WORKERS).run("pi", RUN_S).gated())
    running.until_started()
    return running, container(running.namespace, running.launcher)


def assert_done(running: Running) -> None:
    assert running.end(END_S) == 0, f"{running.output}\n{running.hub_log()}"
    assert "pi is approximately 3.14159265" in running.output
    assert running.ranks() == dict(enumerate(running.job.workers))


def assert_done_or_told(running: Running) -> None:
    """A daemon that was lost in its first moments may be what mpirun can't do without: then it says so."""
    code = running.end(END_S)
    if code == 0 and "pi is approximately" in running.output:
        assert_done(running)
    else:
        assert TOLD.search(running.output), running.output
        assert code != 0 or running.job.example == "openmpi5", running.output  # docs/faults.md
    running.assert_nothing_left()


@pytest.mark.parametrize("waiting", LAUNCHERS, indirect=True)
def test_the_api_server_hangs_dies_and_comes_back(node: Node, waiting: tuple[Running, Container]) -> None:
    running, launcher = waiting
    node.api_server.send(signal.SIGSTOP)
    _go_until_all_are_called(launcher)
    node.restart_api_server()
    assert_done(running)
    assert not words_of_ours(running.output)


@pytest.mark.parametrize("waiting", LAUNCHERS, indirect=True)
def test_the_api_server_dies_when_the_first_daemon_runs(node: Node, waiting: tuple[Running, Container]) -> None:
    running, launcher = waiting
    _go_until_first_daemon(running, launcher)
    node.restart_api_server()
    assert_done_or_told(running)


@pytest.mark.alone  # agents wait 10 s for the next hub
@pytest.mark.parametrize("waiting", ["openmpi5"], indirect=True)
def test_the_hub_hangs_and_is_killed(waiting: tuple[Running, Container]) -> None:
    running, launcher = waiting
    hub = container(running.namespace, running.launcher, "hub")
    hub.kill(signal.SIGSTOP)
    _go_until_all_are_called(launcher)
    hub.kill()
    assert_done(running)
    assert not words_of_ours(running.output)


@pytest.mark.alone  # agents wait 10 s for the next hub
@pytest.mark.parametrize("waiting", LAUNCHERS, indirect=True)
def test_the_hub_is_killed_when_the_first_daemon_runs(waiting: tuple[Running, Container]) -> None:
    running, launcher = waiting
    hub = container(running.namespace, running.launcher, "hub")
    _go_until_first_daemon(running, launcher)
    hub.kill()
    assert_done_or_told(running)


def _go_until_all_are_called(launcher: Container) -> None:
    launcher.touch("/tmp/go")
    until("all agents have been called", lambda: launcher.count("kubexec.sh") == WORKERS)


def _go_until_first_daemon(running: Running, launcher: Container) -> None:
    workers = [container(running.namespace, worker) for worker in running.job.workers]
    launcher.touch("/tmp/go")
    names = DAEMONS[running.job.example]
    until(f"{names[0]} runs", lambda: any(worker.count(name) for worker in workers for name in names))
