"""The hub follows its job: workers come and go, the Role and the hosts that Horovod discovers with them."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

import pytest
from running import WithHub, environment, run, start

from agents.playground.cluster import Cluster, ClusterError
from tests.waiting import until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType
    from typing import Self

LABELS = {"job": "pi", "role": "worker"}
SELECTOR = "job=pi,role=worker"
DOMAIN = "pi.default.svc"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.create_pod("stranger", labels={"job": "other", "role": "worker"})
        yield cluster


class Job:
    """A job's pods, and an agent whose hostfile has the first worker alone."""

    def __init__(self, cluster: Cluster, client: str, folder: Path) -> None:
        self.cluster = cluster
        self.token = cluster.token()
        self.scale(2)
        environ = environment(cluster, folder, [f"pi-worker-0.{DOMAIN}"], self.token)
        self.environ = {**environ, "POD_NAME": "pi-launcher", "MPI_AGENT_SELECTOR": SELECTOR, "MPI_AGENT_SLOTS": "4"}
        self.agent = WithHub(self.environ, client, folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.agent.__exit__(kind, error, trace)
        self.scale(0)
        assert "internal error" not in self.agent.log()

    def scale(self, replicas: int) -> None:
        """Let there be so many workers."""
        for number in range(12):
            name = f"pi-worker-{number}"
            with contextlib.suppress(ClusterError):
                if number < replicas:
                    self.cluster.create_pod(name, labels=LABELS)
                else:
                    self.cluster.delete_pod(name)

    def discovered(self) -> list[str]:
        """Ask as discover_hosts.sh does."""
        done = run(self.agent, "--discover-hosts")
        assert done.returncode == 0, done.stderr
        assert done.stderr == b""
        return done.stdout.decode().splitlines()

    def until_discovered(self, *numbers: int) -> None:
        """Wait until these workers are told, and no others."""
        expected = [f"pi-worker-{number}.{DOMAIN}:4" for number in numbers]
        until(lambda: self.discovered() == expected, f"{expected} is discovered")


@pytest.fixture
def job(cluster: Cluster, client: str, tmp_path: Path) -> Iterator[Job]:
    with Job(cluster, client, tmp_path) as job:
        job.until_discovered(0, 1)
        yield job


def test_hosts_come_and_go(job: Job) -> None:
    job.scale(11)
    job.until_discovered(*range(11))
    job.cluster.set_state("pi-worker-3", "running")
    job.until_discovered(0, 1, 2, *range(4, 11))
    job.scale(1)
    job.until_discovered(0)


def test_while_the_api_server_is_away_the_last_answer_holds(job: Job) -> None:
    job.cluster.listen(on=False)

    def noticed() -> bool:
        job.cluster.watches("cut")  # again: its watch may have been on its way
        return "can't be watched" in job.agent.log()

    until(noticed, "the hub has noticed")
    job.until_discovered(0, 1)
    job.cluster.listen(on=True)
    job.scale(3)
    job.until_discovered(0, 1, 2)


def has_asked(client: subprocess.Popen[bytes]) -> bool:
    """Say whether a client waits for its hub's answer: it has a socket, and sleeps."""
    folder = f"/proc/{client.pid}/fd"
    with contextlib.suppress(FileNotFoundError), open(f"/proc/{client.pid}/stat", encoding="ascii") as stat:
        has_socket = any(os.readlink(f"{folder}/{name}").startswith("socket:") for name in os.listdir(folder))
        return has_socket and stat.read().rpartition(")")[2].split()[0] == "S"
    return False


def test_who_asks_before_a_hub_has_its_first_list_is_told_that(job: Job) -> None:
    job.agent.kill()
    job.cluster.suspend()
    try:
        job.agent.start()
        asked = start(job.agent, "--discover-hosts")
        until(lambda: has_asked(asked) or asked.poll() is not None, "the hub is asked")
    finally:
        job.cluster.resume()
    told, said = asked.communicate(timeout=90)
    expected = "".join(f"pi-worker-{number}.{DOMAIN}:4\n" for number in range(2))
    assert (asked.returncode, told.decode(), said) == (0, expected, b"")


def test_where_nothing_was_ever_known_the_script_has_its_own_lines(
    job: Job, cluster: Cluster, client: str, tmp_path: Path
) -> None:
    blind = {**job.environ, **cluster.environ(cluster.token("get pods/exec")), "MPI_AGENT_SOCKET": f"{tmp_path}/b"}
    with WithHub(blind, client, tmp_path) as agent:
        script = tmp_path / "discover_hosts.sh"
        call = " ".join(agent.argv)
        script.write_text(f"#!/bin/sh\n{call} --discover-hosts || {{\necho pi-worker-0:4\n}}\n")
        agent.argv = ["/bin/sh", str(script)]
        refused = run(agent)
    assert (refused.returncode, refused.stdout) == (0, b"pi-worker-0:4\n")
    assert refused.stderr.count(b"\n") == 1
    assert b"listing the pods is forbidden" in refused.stderr


def test_a_worker_that_the_hostfile_does_not_have_yet_is_launched_into(job: Job) -> None:
    job.scale(3)
    job.until_discovered(0, 1, 2)
    for host in ("pi-worker-2", f"pi-worker-2.{DOMAIN}", job.cluster.pod_address("pi-worker-2")):
        assert run(job.agent, "-n", host, "exit 7").returncode == 7


def test_a_worker_that_was_taken_away_ends_its_sessions_and_is_none_any_more(job: Job) -> None:
    session = start(job.agent, "-n", "pi-worker-1", "sleep 60")
    job.cluster.until(lambda stats: stats["running"] >= 1)
    job.scale(1)
    assert session.wait(90) in {137, 255}  # killed with its pod, or told that it is gone
    session.communicate()
    job.until_discovered(0)
    refused = run(job.agent, "-n", "pi-worker-1", "exit 7")
    assert refused.returncode == 255
    assert b"'pi-worker-1' is not a worker of this job; its workers are pi-worker-0" in refused.stderr


def test_a_hostfile_that_names_a_stranger_does_not_help(job: Job) -> None:
    fresh = job.environ["MPI_AGENT_HOSTFILE"] + ".new"
    with open(fresh, "w", encoding="ascii") as file:
        file.write("stranger\npi-worker-0\n")
    os.replace(fresh, job.environ["MPI_AGENT_HOSTFILE"])
    refused = run(job.agent, "-n", "stranger", "exit 7")
    assert refused.returncode == 255
    assert b"there is no such pod" in refused.stderr


def test_a_session_in_such_a_worker_outlives_its_hub(job: Job) -> None:
    job.scale(3)
    job.until_discovered(0, 1, 2)
    session = start(job.agent, "pi-worker-2", "read line; exit 7")
    job.cluster.until(lambda stats: stats["running"] >= 1)
    job.agent.kill()
    job.cluster.fault("http", on="list", status=503, times=2)
    job.agent.start()
    fresh = start(job.agent, "-n", "pi-worker-2", "exit 8")
    until(lambda: "can't be watched" in job.agent.log(), "the hub has no list of workers yet")
    assert fresh.wait(90) == 8
    fresh.communicate()
    until(lambda: not job.cluster.leftovers("pi-worker-2"), "its stdin has ended with the stream, and so has it")
    out, said = session.communicate(timeout=90)
    assert (session.returncode, out, said) == (7, b"", b"")


def test_a_worker_that_is_gone_is_waited_for_a_while_and_one_that_starts_for_longer(
    cluster: Cluster, client: str, tmp_path: Path
) -> None:
    environ = environment(cluster, tmp_path, ["pi-worker-0", "pi-worker-1"])
    limits = environ["MPI_AGENT_LIMITS"].replace("worker=3,absent=3", "worker=20,absent=1")
    with WithHub({**environ, "MPI_AGENT_SELECTOR": SELECTOR, "MPI_AGENT_LIMITS": limits}, client, tmp_path) as agent:
        cluster.create_pod("pi-worker-0", labels=LABELS, state="pulling")
        starting = start(agent, "-n", "pi-worker-0", "exit 7")
        threading.Timer(2.5, cluster.set_state, ("pi-worker-0", "ready")).start()
        refused = run(agent, "-n", "pi-worker-1", "exit 7")
        assert refused.returncode == 255
        assert b"did not become ready within 1 s: there is no such pod" in refused.stderr
        assert starting.wait(90) == 7
        starting.communicate()
    cluster.delete_pod("pi-worker-0")


def test_a_role_that_comes_to_name_a_worker_late(job: Job) -> None:
    """An API server may forbid for a moment what a Role has just come to grant, at any time in a job's life."""
    rules = ("list pods", "watch pods", "get pods/exec pi-worker-0", "create pods/exec pi-worker-0")
    job.cluster.token(*rules, token=job.token)
    assert run(job.agent, "-n", "pi-worker-0", "exit 7").returncode == 7
    job.scale(3)
    job.until_discovered(0, 1, 2)
    late = start(job.agent, "-n", "pi-worker-2", "exit 7")
    until(lambda: "host=pi-worker-2 retry=2" in job.agent.log(), "the hub asks again")
    job.cluster.token(*(rule.replace("worker-0", "worker-0,pi-worker-2") for rule in rules), token=job.token)
    out, said = late.communicate(timeout=90)
    assert (late.returncode, out, said) == (7, b"", b"")
