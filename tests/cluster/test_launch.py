"""Real launchers start real ranks in real pods; and what is left of them, however they end."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING

import pytest

from tests.cluster import restricted
from tests.cluster.faults import until
from tests.cluster.images import needs_horovod
from tests.cluster.jobs import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.running import Running

    Start = Callable[[Job], Running]

MPI = ["openmpi4", "openmpi5", "mpich", "intel"]
HOROVOD = pytest.param("horovod", marks=needs_horovod)
OURS = ("hub", "delivery")

# Says where it is, and stays there.
STAYING = ("sh", "-c", 'echo "at $(uname -n)"; sleep 1000')
# A launcher that can be killed: what is process 1 itself can't, from inside.
KILLABLE = ("sh", "-c", '"$@" & echo $! >/tmp/pid; wait $!', "sh")


def assert_pi(running: Running) -> None:
    """The job ends well, with one rank on each of the workers, in their order."""
    assert running.end() == 0, running.output
    assert running.ranks() == dict(enumerate(running.job.workers))
    assert "pi is approximately 3.14159265" in running.output


# Ranks ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", MPI)
def test_an_example_runs_as_it_is(start: Start, example: str) -> None:
    running = start(Job.as_it_is(example))
    assert_pi(running)
    assert running.sessions_by_host() == dict.fromkeys(running.job.workers, 1)
    running.assert_nothing_left()


@pytest.mark.parametrize("example", MPI)
def test_an_arbitrary_user_with_a_read_only_root(start: Start, example: str) -> None:
    running = start(Job(example).run("pi").run_as(12345, read_only=True))
    assert_pi(running)
    running.assert_nothing_left()


@pytest.mark.pod_security("baseline")
@pytest.mark.parametrize("example", MPI)
def test_root_where_only_our_own_containers_are_restricted(start: Start, example: str) -> None:
    running = start(Job(example).run("pi").run_as(0))
    assert_pi(running)
    pod = running.namespace.get("Pod", running.launcher)
    assert {name: restricted.violations(pod, name) for name in OURS} == {name: [] for name in OURS}
    assert restricted.violations(pod, running.main)
    running.assert_nothing_left()


# Containers -----------------------------------------------------------------------------------------------------------


def with_two_containers(job: Job) -> Job:
    """Give each worker pod another container, which is the default one, and let both tell which they are."""
    worker = job.worker["containers"][0]
    other = copy.deepcopy(worker) | {"name": "other"}
    for container in (worker, other):
        container["env"] = [{"name": "WHICH", "value": container["name"]}]
    job.worker["containers"] = [other, worker]
    return job


def test_the_named_container_of_several_is_used(start: Start) -> None:
    running = start(with_two_containers(Job("openmpi4").run("sh", "-c", 'echo "in $WHICH"')))
    assert running.end() == 0, running.output
    assert running.output.count("in worker") == 2
    assert "in other" not in running.output


def test_a_wrong_container_name_is_told(start: Start) -> None:
    job = with_two_containers(Job("openmpi4").run("pi"))
    job.init("hub")["command"] = ["rshagent-hub", "--container", "wroker"]
    running = start(job)
    assert running.end() != 0
    assert re.search(r"^rshagent: .*pi-worker-\d.*wroker", running.output, re.MULTILINE), running.output


# Ends -----------------------------------------------------------------------------------------------------------------


# Horovod has 1 for all that fails.
CODES = [*((example, 3) for example in MPI), pytest.param("horovod", 1, marks=needs_horovod)]


@pytest.mark.parametrize(("example", "code"), CODES)
def test_an_applications_exit_code_comes_back(start: Start, example: str, code: int) -> None:
    program = "pi || exit 99; exit 3"  # Open MPI 5 may wait forever for a rank that ends immediately (docs/rshagent.md)
    running = start(Job(example).run("sh", "-c", program, ranks=1))
    assert running.end() == code, running.output
    running.assert_nothing_left()


@pytest.mark.parametrize("example", [*MPI, HOROVOD])
def test_a_killed_launcher_leaves_nothing(start: Start, example: str) -> None:
    job = Job(example).run(*STAYING)
    running = start(job.command(*KILLABLE, *job.main["command"]))
    running.until_output("at ", 2)
    until("each rank stays", lambda: all("sleep" in running.processes(worker) for worker in job.workers))
    killed = running.namespace.exec_in(running.launcher, ["sh", "-c", "kill -KILL $(cat /tmp/pid)"], running.main)
    assert killed.code == 0, killed.errors
    assert running.end() == 137
    running.assert_nothing_left()


@pytest.mark.parametrize("example", MPI)
def test_a_rank_that_is_killed_takes_the_others_with_it(start: Start, example: str) -> None:
    # Not before all of them run: MPICH's mpiexec may wait for ever for one that has not started when another dies.
    running = start(Job(example).run("sh", "-c", "echo $$$$ > /tmp/rank; echo at; exec sleep 1000"))  # $$ to Kubernetes
    running.until_output("at", 2)
    killed = running.namespace.exec_in("pi-worker-1", ["sh", "-c", "kill -KILL $(cat /tmp/rank)"], "worker")
    assert killed.code == 0, killed.errors
    assert running.end() != 0
    running.assert_nothing_left()
